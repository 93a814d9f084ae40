"""The main interface: `load` a model, call it, encode, generate, inspect, save.

    model = load("folder-or-name")
    model(input_ids=ids).last_hidden_state          the network's own outputs
    model.encode(["one text", "another"])           embeddings, fast
    model.generate("Once upon a time")              text
    model(input_ids=ids, tape=Tape("attn.probs"))   with any activation of the forward pass

Every method delegates to a package below.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch import Tensor, nn

from glassformer.compression.adapters import check_not_adapted
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Output, Tape
from glassformer.core.heads import Head
from glassformer.edge import (
    device_of,
    dtype_of,
    read_call,
    reject_arguments,
    warn_if_marker_missing,
    warn_if_nan,
)
from glassformer.engine.prepare import prepare, prepared_precision, unprepare
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.files import safe_repr
from glassformer.files.atomic import write_json
from glassformer.files.strict_json import read_json_object
from glassformer.hub import resolve
from glassformer.models import Family, Network
from glassformer.models.load import load_network, new_network
from glassformer.models.resolve import weight_names
from glassformer.text.chat import Chat
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.header import read_file_header
from glassformer.weights.load import LoadReport, export_weights, load_weights
from glassformer.weights.read import open_checkpoint
from glassformer.weights.write import write_checkpoint

if TYPE_CHECKING:
    import numpy as np

    from glassformer.audio import AudioProcessor
    from glassformer.explorer import Look
    from glassformer.inspect.generation_trace import GenerationTrace
    from glassformer.inspect.session import Session
    from glassformer.vision import ImageProcessor

    Processor = ImageProcessor | AudioProcessor


def load(
    name_or_folder: str | Path,
    *,
    task: str | None = None,
    head: Callable[[int], Head] | None = None,
    overrides: Mapping[str, Any] | None = None,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
    revision: str | None = None,
    allow_pickle: bool = False,
    offline: bool = False,
    strict: bool = False,
) -> Model:
    """Load a model folder in the Hugging Face layout, or a model of the Hub by name.

    Args:
        name_or_folder: an existing folder, or else a name on the Hub: from the local cache, or downloaded.
        task: the head, by a Hugging Face pipeline name ("fill-mask", "text-classification", …) or a short verb
            ("fill", "classify", …); None = the head that `architectures` in `config.json` names. The head of another
            task than the checkpoint's is randomly initialised; so is a token classifier from a checkpoint that
            classifies texts, although its tensor names would fit.
        head: a custom head on the bare body: a `core.Head` class, or a function, called with the hidden size D. Its
            tensors are read from the folder if the model was saved with it, else they are randomly initialised.
        overrides: keys of `config.json` to override: {"num_labels": 6, "id2label": None} makes a head for other
            labels (tensors that do not fit are initialised anew), {"hidden_dropout_prob": 0.0} disables dropout.
        dtype: None = the checkpoint's own.
        device: None = the CPU; "auto" = the accelerator if there is one.
        revision: a branch, tag or commit on the Hub.
        allow_pickle: also read old pickle files, `.bin` and `.pt`, in a sandboxed child process.
        offline: never open a network connection.
        strict: a tensor of the checkpoint that the model does not use is an error.
    Returns: the model in eval mode; `model.report` says what became of every tensor.
    Raises: DataError, ConfigError, WeightsError, UnsupportedError: what is wrong with the folder, and what to do.
    """
    if not isinstance(name_or_folder, (str, Path)):
        raise DataError(
            f"the model is {safe_repr(name_or_folder)}; give a folder, or a name on the Hub such as 'org/name'"
        )
    to_dtype, to_device = dtype_of(dtype), device_of(device)
    folder = resolve(
        name_or_folder, revision=revision, offline=offline, allow_pickle=allow_pickle, check=read_file_header
    )
    if not os.path.lexists(folder / "config.json"):
        raise ConfigError(
            f"{folder}: holds no config.json; give a model folder in the Hugging Face layout: config.json, "
            "model.safetensors, and tokenizer.json or vocabulary files"
        )
    config = {**read_json_object(folder / "config.json", ConfigError), **(overrides or {})}
    loaded = load_network(
        folder,
        config,
        task=task,
        head=head,
        overrides=overrides or {},
        dtype=to_dtype,
        device=to_device,
        allow_pickle=allow_pickle,
        strict=strict,
    )
    tokenizer = Tokenizer.find(folder, model_type=loaded.family.model_type)
    generation_config = folder / "generation_config.json"
    model = Model(
        loaded.network,
        loaded.family,
        loaded.spec,
        config,
        loaded.task,
        tokenizer=tokenizer,
        processor=_processor(loaded.family, folder),
        report=loaded.report,
        folder=folder,
        own_head=head is not None,
        generation_config=(
            read_json_object(generation_config, ConfigError) if generation_config.is_file() else None
        ),
    )
    if tokenizer is not None and model.vocabulary and tokenizer.largest_id >= model.vocabulary:
        raise ConfigError(
            f"{folder}: the tokenizer makes ids up to {tokenizer.largest_id}, the model's embedding has "
            f"{model.vocabulary} rows; they belong to different models"
        )
    return model


class Model:
    """A network with its tokenizer and config, as `load` makes it.

    network: the PyTorch module · config, generation_config: the content of these files
    own_head: whether the head is a custom one
    tokenizer: texts to ids · processor: pictures or sounds to tensors; they raise DataError if the folder has none
    task: of its head · report: what became of every tensor of the checkpoint
    """

    def __init__(
        self,
        network: Network,
        family: Family,
        spec: Any,
        config: Mapping[str, Any],
        task: str,
        *,
        tokenizer: Tokenizer | None = None,
        processor: Processor | None = None,
        report: LoadReport | None = None,
        folder: Path | None = None,
        own_head: bool = False,
        generation_config: Mapping[str, Any] | None = None,
    ) -> None:
        self.network = network
        self.family = family
        self.spec = spec
        self.config = dict(config)
        self.task = task
        self.report = report or LoadReport()
        self.folder = folder
        self.own_head = own_head
        self.generation_config = dict(generation_config or {})
        self._nan_seen = False
        self._tokenizer = tokenizer
        self._processor = processor

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **options: Any) -> Model:
        """The same as `load`, under the name in Hugging Face transformers."""
        return load(name_or_folder, **options)

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        task: str | None = None,
        head: Callable[[int], Head] | None = None,
        tokenizer: Tokenizer | None = None,
        device: torch.device | str | None = None,
    ) -> Model:
        """A new model with random weights, in training mode; on the device "meta" it has shapes and no weights."""
        new = new_network(config, task=task, head=head, device=device_of(device))
        return cls(
            new.network,
            new.family,
            new.spec,
            config,
            new.task,
            tokenizer=tokenizer,
            report=new.report,
            own_head=head is not None,
        )

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise DataError(
                "this model has no tokenizer: its folder holds neither tokenizer.json nor vocabulary files"
            )
        return self._tokenizer

    @property
    def has_tokenizer(self) -> bool:
        return self._tokenizer is not None

    @property
    def processor(self) -> Processor:
        if self._processor is None:
            modality = self.family.modality
            raise DataError(
                f"a {self.family.model_type!r} model reads text only"
                if modality is None
                else f"this model cannot read a {modality}: its folder holds no preprocessor_config.json"
            )
        return self._processor

    def __call__(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        bbox: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        input_values: Tensor | None = None,
        input_features: Tensor | None = None,
        pixel_values: Tensor | None = None,
        visual_feats: Tensor | None = None,
        visual_pos: Tensor | None = None,
        visual_attention_mask: Tensor | None = None,
        labels: Tensor | dict[str, Tensor] | None = None,
        cache: KeyValueCache | None = None,
        tape: Tape | None = None,
        **unknown: Any,
    ) -> Output:
        """Forward pass of the network, on the inputs that it reads (`network.READS`).

        Args:
            input_ids: token ids. [B, T]
            attention_mask: 1 for tokens, 0 for padding, on either side. [B, T], with a cache [B, past + T];
                of audio [B, samples]
            token_type_ids: token type (segment) ids. [B, T], of tables [B, T, columns]; None = all 0
            position_ids: positions of the tokens. [B, T]; None = counted, without padding
            bbox: bounding boxes of words on a page: left, top, right, bottom, in thousandths. [B, T, 4]
            decoder_input_ids, decoder_attention_mask: the target side of an encoder-decoder. [B, T]
            input_values: audio, as a waveform; `processor` makes it. [B, samples]
            input_features: audio, as a log-mel spectrogram; `processor` makes it. [B, M, frames]
            pixel_values: images; `processor` makes them. [B, channels, height, width]
            visual_feats, visual_pos, visual_attention_mask: detected regions of an image: their features
                [B, R, width], their corners as fractions of the image's size [B, R, 4], and their mask [B, R]
            labels: targets of the head, for `loss`; -100 is ignored
            cache: key-value cache, extended by this call
            tape: records activations of `model.taps()`, or replaces them
        Returns: an Output with the field names of Hugging Face transformers, and `taps` if a tape was given.
        Raises: DataError: ids out of range, or more tokens than positions. ConfigError: shapes that do not fit.
        """
        reject_arguments("model", unknown)
        given = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "position_ids": position_ids,
            "bbox": bbox,
            "decoder_input_ids": decoder_input_ids,
            "decoder_attention_mask": decoder_attention_mask,
            "input_values": input_values,
            "input_features": input_features,
            "pixel_values": pixel_values,
            "visual_feats": visual_feats,
            "visual_pos": visual_pos,
            "visual_attention_mask": visual_attention_mask,
        }
        batch, flow = read_call(self.network, self.family.model_type, given, cache=cache, tape=tape)
        warn_if_marker_missing(self.network, self.task, self._tokenizer, input_ids, flow)
        # Packed narrow weights have no gradients: in eval mode nobody expects them, in training mode it is an error.
        differentiable = self.network.training or prepared_precision(self.network) in (None, "fp32")
        with torch.set_grad_enabled(torch.is_grad_enabled() and differentiable):
            output: Output = self.network(batch, flow)
        if not self._nan_seen:
            first = next((x for x in output.present().values() if isinstance(x, Tensor)), None)
            self._nan_seen = warn_if_nan(self.network, first)
        if labels is not None:
            if self.network.head is None:
                raise ConfigError(
                    "labels need a head, and this model was loaded without one; load it with "
                    f"task={' or '.join(repr(task) for task in self.family.tasks if task != self.task)}"
                )
            output = replace(output, loss=self.network.head.loss(output, labels))
        return output if tape is None else replace(output, taps=tape.taps)

    @property
    def vocabulary(self) -> int:
        """Vocabulary size; 0 where the network reads and writes no text."""
        return self.network.vocabulary

    def encode(self, texts: str | Sequence[str], **options: Any) -> np.ndarray:
        """Sentence embeddings: texts to vectors, fast; options as in `glassformer.engine.encoder.encode`.

        Returns: float32. [N, D] for a sequence of N texts, [0, D] for an empty one; [D] for a single string.
        """
        from glassformer.engine.encoder import encode

        vectors = encode(
            self.network, self.tokenizer, [texts] if isinstance(texts, str) else texts, self.folder, **options
        )
        if not self._nan_seen:
            self._nan_seen = warn_if_nan(self.network, torch.from_numpy(vectors))
        return cast("np.ndarray", vectors[0]) if isinstance(texts, str) else vectors

    def generate(
        self,
        prompt: str | Chat | Sequence[str | Chat] | Tensor,
        *,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Text generation: texts give texts (the new part only), ids give ids (prompt and new tokens).

            model.generate("Once upon a time")                                                  greedy decoding
            model.generate("Once upon a time", do_sample=True, top_p=0.9, seed=1)               nucleus sampling
            model.generate(article, num_beams=4, no_repeat_ngram_size=3, max_new_tokens=60)     beam search
            model.generate("Once upon a time", penalty_alpha=0.6, top_k=4)                      contrastive search
            model.generate(article, prompt_lookup_num_tokens=8)                                 prompt lookup decoding
            model.generate(article, assistant_model=smaller)                                    speculative decoding

        An encoder-decoder reads the prompt and answers it; its ids begin with its start token, not with the prompt.
        A speech model takes one or several audio files, and answers with the transcript.

        A conversation, [{"role": "user", "content": "Hello"}], is formatted by the tokenizer's chat template; the
        assistant's answer is generated, or continued where the conversation ends with it.

        The default is greedy decoding of 20 tokens, whatever generation_config.json recommends; its other values are
        the defaults of options that you do not give (`glassformer.generation.options`).
        The result of a row does not depend on the other rows of the batch.

        Args:
            prompt: one text or conversation, several, or token ids, padded on the left. [B, T] Audio: a file, or
                `input_features`
            attention_mask: 0 where ids are padding. [B, T]
            options: `max_new_tokens`, `do_sample`, `temperature`, `top_p`, `num_beams`, `stop_strings`, …, all of them
                in `glassformer.generation.options.Options`, under their names in Hugging Face transformers.
        Returns: a text for a text, a list for several, ids [B, T + new] for ids; with `num_return_sequences` n, the n
            answers to a prompt are adjacent; with `return_scores`, a `Generated`.
        Raises: DataError: an empty prompt, padding on the right, or no room for so many tokens.
            ConfigError: unknown options, out of range, or in conflict.
            WeightsError: the logits are NaN. UnsupportedError: the model was loaded for another task.
            Interrupted: by Ctrl-C; `.partial` is what was generated.
        """
        from glassformer.generation.generate import generate

        return generate(self, prompt, attention_mask, options)

    def stream(
        self, prompt: str | Chat | Tensor, *, attention_mask: Tensor | None = None, **options: Any
    ) -> Iterator[Any]:
        """Streaming generation, as `generate`: a text gives pieces of text, ids give the next token of each row.

            for piece in model.stream("Once upon a time"):
                print(piece, end="", flush=True)

        A piece holds whole characters, and the pieces together are the text that `generate` gives.

        Args: as in `generate`; one text or conversation, and no beam search, where no token is certain before the end.
        Returns: an iterator of texts, or of tokens. [B] each
        """
        from glassformer.generation.generate import stream

        return stream(self, prompt, attention_mask, options)

    @property
    def writes(self) -> bool:
        """Whether it generates text: continues a prompt, or answers it."""
        from glassformer.generation.generate import generates_text

        return generates_text(self)

    def inspect(
        self,
        *texts: str,
        progress: Callable[[int, int], None] | None = None,
        limit_bytes: int = 2**30,
        **fields: Tensor,
    ) -> Session:
        """Run a forward pass on one text, or on two as a pair, and store it, to inspect attention and hidden states.

        An encoder-decoder reads the first text, and its decoder the second, or else its own answer. A model of pictures
        or sounds takes the name of a file first.

        Args:
            progress: called after each block with the number of finished blocks and of all.
            limit_bytes: RAM limit of the session, beside the weights.
            fields: other inputs, as in a call: `bbox`, `visual_feats` and `visual_pos`, of one row.
        Returns: a `Session`: `session.head(4, 11).probs(3)`, `session.overview(4)`, `session.states(4)`, …
        Raises: DataError: the texts are empty or too long. UnsupportedError: the model has no attention.
        """
        from glassformer.inspect.open_inputs import open_inputs
        from glassformer.inspect.session import Session

        opened = open_inputs(self, texts, fields)
        return Session(self.network, opened, progress=progress, limit_bytes=limit_bytes)

    def writing(self, prompt: str) -> GenerationTrace:
        """Trace text generation: a tree of tokens with the alternatives at each step, from which to branch.

            trace = model.writing("Once upon a time")
            result = trace.write(num_beams=4)                    as generate does
            trace.tree.choices[0].top                            the most likely first tokens
            trace.write(after=0, tokens=[263])                   continue from another first token

        Args:
            prompt: as in `generate`; of a speech model, an audio file.
        Raises: DataError: the prompt is empty or too long. UnsupportedError: the model was loaded for another task.
        """
        from glassformer.generation.generate import make_generator, resolve_options
        from glassformer.inspect.generation_trace import GenerationTrace
        from glassformer.inspect.open_inputs import open_prompt

        if not isinstance(prompt, str):
            raise DataError(f"the prompt is {safe_repr(prompt)}; give one text")
        generator = make_generator(self, resolve_options(self, {}))
        if not self.writes:
            raise UnsupportedError(
                f"a {self.family.model_type!r} model generates no text that could be traced"
            )
        return GenerationTrace(generator, open_prompt(self, prompt), self.tokenizer)

    def look(self, texts: str | Sequence[str], **options: Any) -> Look:
        """Visualise the attention of one text, or of two as a pair, in a web browser: the attention explorer.

            model.look(["time flies", "fruit flies"], view="head", layer=4, heads=11)
            model.look("time flies", html="page.html")          one file that needs no server

        Serves a page on this machine and opens it. A script blocks until Ctrl-C; a shell or a notebook does not, and a
        notebook shows the page itself where the value ends a cell.

        Args:
            port: None = a free one · browser: open one; None = if there is a display
            html: write the page to this file (self-contained) instead of serving it
            view: "model", "head", "matrix", "neuron" or "generate" · layer, heads: the initial ones, counted from 0
            options: with view="generate", which shows text generation: as in `generate`
            theme: "light" or "dark"; None = the system's · block: wait for Ctrl-C; None = in a script
        Returns: a `Look`: `.url`, `.session`, `.save(path)`, `.close()`.
        Raises: DataError: the texts are empty or too long. ConfigError: the port is taken.
            UnsupportedError: the model has no attention.
        """
        from glassformer.explorer import look

        return look(self, texts, **options)

    def prepare(self, precision: str = "fp32") -> Self:
        """Pack the weights for fast inference, in a precision: "fp32", "fp16", "bf16" or "int8" (quantization)."""
        prepare(self.network, precision)
        return self

    def unprepare(self) -> Self:
        """Restore the original weights, bit for bit."""
        unprepare(self.network)
        return self

    def taps(self) -> list[str]:
        """The names of all activations that a Tape can record."""
        return self.network.taps()

    def save_pretrained(self, folder: str | Path, *, max_shard_bytes: int = 5_000_000_000) -> None:
        """Save config, weights and tokenizer in the Hugging Face layout, which transformers loads.

        Raises: WeightsError: the files cannot be written. ConfigError: the model has adapters that are not merged.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise WeightsError(f"{folder}: is a file; give a folder to write the model to")
        check_not_adapted(self.network)
        bare = self.task == "feature-extraction" and not self.own_head
        names = weight_names(self.family, self.spec, self.task, self.network, own_head=self.own_head)
        tensors = export_weights(self.network, names, prefixed=not bare)
        write_checkpoint(folder, tensors, max_shard_bytes=max_shard_bytes)
        dtype = str(self.dtype).removeprefix("torch.")
        own = {key: value for key, value in self.config.items() if key not in ("torch_dtype", "dtype")}
        write_json(
            folder / "config.json",
            {**own, "architectures": [self.family.architecture(self.task)], "dtype": dtype},
        )
        if self.generation_config:
            write_json(folder / "generation_config.json", self.generation_config)
        if self._tokenizer is not None:
            self._tokenizer.save(folder)
        if self._processor is not None:
            self._processor.save(folder)

    def take_weights(self, folder: str | Path) -> None:
        """Load the weights of another save of the same model, such as the best checkpoint of a training run.

        Raises: WeightsError: its tensors do not fit.
        """
        names = weight_names(self.family, self.spec, self.task, self.network, own_head=self.own_head)
        with open_checkpoint(Path(folder), allow_pickle=False) as checkpoint:
            load_weights(self.network, checkpoint, names, dtype=self.dtype, device=self.device)

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.network.parameters()).dtype

    def eval(self) -> Self:
        self.network.eval()
        return self

    def train(self, mode: bool = True) -> Self:
        self.network.train(mode)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        self.network.to(*args, **kwargs)
        return self

    def parameters(self) -> Iterator[nn.Parameter]:
        return self.network.parameters()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self.network.named_parameters()

    def state_dict(self) -> dict[str, Tensor]:
        return self.network.state_dict()

    def __repr__(self) -> str:
        count = sum(parameter.numel() for parameter in self.parameters())
        return (
            f"Model({self.family.model_type}, {self.task}, {count / 1e6:.1f}M parameters, "
            f"{str(self.dtype).removeprefix('torch.')} on {self.device})"
        )


def _processor(family: Family, folder: Path) -> Processor | None:
    """The preprocessor of images or audio; None if the family reads text, or the folder does not configure one."""
    if family.modality == "picture":
        from glassformer.vision import ImageProcessor

        return ImageProcessor.find(folder)
    if family.modality == "sound":
        from glassformer.audio import AudioProcessor

        return AudioProcessor.find(folder)
    return None
