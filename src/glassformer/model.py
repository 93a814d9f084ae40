"""The main interface: `load` a model, call it, encode, generate, inspect, save.

    model = load("folder-or-name")
    model(input_ids=ids).last_hidden_state          the network's own outputs
    model.encode(["one text", "another"])           embeddings, fast
    model.generate("Once upon a time")              text
    model(input_ids=ids, tape=Tape("attn.probs"))   with any activation of the forward pass

Whatever takes an `nn.Module` takes a model: optimizers, hooks, `copy.deepcopy`, `pickle`, `torch.save`, workers of a
`DataLoader`, `DistributedDataParallel`, accelerate. A parameter is called what it is called in the network:

    model.network.blocks[0].attn.out.weight      ──>      "blocks.0.attn.out.weight"

in `named_parameters`, `named_modules`, `state_dict`, `get_parameter` and `torch.func.functional_call`, here and where
the model is part of a larger module. Paths of Hugging Face transformers, `model.bert.encoder`, are those of models that
`glassformer.hf` makes.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, Unpack

import torch
from torch import Tensor, nn

from glassformer.audio_coding import CODEC, AudioCoder
from glassformer.call import (
    CallOptions,
    complete_inputs,
    encoder_of,
    head_loss,
    shared_features,
    take_labels,
)
from glassformer.compression.adapter_names import BaseConfig
from glassformer.compression.adapter_set import AdapterSet
from glassformer.compression.adapters import DEFAULT, Adapters, check_not_adapted
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Output, Tape
from glassformer.core.heads import Head
from glassformer.core.quantised import stored_levels
from glassformer.edge import CallInputs, read_call, warn_if_marker_missing
from glassformer.engine.prepare import prepare, prepared_precision, unprepare
from glassformer.errors import (
    MissingPartError,
    UnknownOptionError,
    UnsupportedError,
    nearest,
)
from glassformer.files import as_path, safe_repr
from glassformer.load_options import PRECISIONS, shard_bytes
from glassformer.models import Network
from glassformer.models.resize import replace_embeddings, resize_vocabulary, vocabulary_key
from glassformer.pretrained import ModelParts, names_of, new_parts, read_pooling, read_pretrained, save
from glassformer.reports.report import InNotebook
from glassformer.reports.table import Table, amount
from glassformer.sentence_embeddings import SentenceEmbedder
from glassformer.text.chat import Chat
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.load import load_weights, name_list, nan_parameters
from glassformer.weights.read import open_checkpoint

if TYPE_CHECKING:
    from glassformer.audio import AudioProcessor
    from glassformer.explorer import Look
    from glassformer.explorer.session_runs import SessionFactory
    from glassformer.inspect.attribution.attribution import Attribution
    from glassformer.inspect.generation_trace import GenerationTrace
    from glassformer.inspect.session import Session
    from glassformer.speech.results import Transcription
    from glassformer.vision import ImageProcessor

    Processor = ImageProcessor | AudioProcessor

INNER = "network."
MAX_LABELS = 8  # in a notebook; model.config.id2label has all
OTHER_NAMES = {"display_mode": "theme=", "include_layers": "layer=", "html_action": "html="}
"""Arguments of bertviz's calls, and those of `look` in their place."""
ANSWERING_TASKS = ("translation", "automatic-speech-recognition")

if hasattr(os, "register_at_fork"):
    # The threads of torch's pool are not in a forked child, which would wait for them forever: there it computes alone,
    # as the workers of a DataLoader do.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


P = ParamSpec("P")
Part = TypeVar("Part")
Result = TypeVar("Result")


def delegate(
    part: str, method: Callable[Concatenate[Part, P], Result], name: str | None = None
) -> Callable[Concatenate[Model, P], Result]:
    """A method of a part of the model, as one of the model: with the same arguments and documentation.

    Args:
        name: of the model's; None = the same
    """

    @wraps(method)
    def call(model: Model, /, *args: P.args, **options: P.kwargs) -> Result:
        return method(getattr(model, part), *args, **options)

    call.__name__ = name or method.__name__
    call.__module__, call.__qualname__ = __name__, f"Model.{call.__name__}"  # by which it is pickled
    return call


class Model(nn.Module, InNotebook):
    """A network with its tokenizer and config, as `load` makes it: call it, encode, generate, inspect, save.

    network: the PyTorch module, its only child
    family, spec, config, task, own_head: what the network was made from; own_head: whether the head is a custom one
    tokenizer, processor: texts to ids, and images or audio to tensors; MissingPartError where the folder has none
    adapters: low-rank adapters by name
    embedder: sentence embeddings, similarities and rankings
    codec: audio as codes
    generation_config: the content of this file
    pooling: the folder's settings for sentence embeddings
    report: what became of every tensor of the checkpoint
    folder: where the model was loaded from; None = nowhere
    GENERATION_CONFIG: options of generation where neither a call nor the folder names them
    """

    network: Network
    GENERATION_CONFIG: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, parts: ModelParts) -> None:
        super().__init__()
        self.network = parts.network
        self.training = parts.network.training
        self.family, self.spec, self.task, self.own_head = parts.family, parts.spec, parts.task, parts.own_head
        self.config, self.generation_config = parts.config, parts.generation_config
        self._tokenizer, self._processor = parts.tokenizer, parts.processor
        self.pooling = read_pooling(parts.folder, parts.network) if parts.pooling is None else parts.pooling
        self.report, self.folder, self.carried = parts.report, parts.folder, parts.carried
        self.recompute = self._nan_seen = False
        self.register_state_dict_post_hook(_drop_prefix)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_add_prefix)  # type: ignore[no-untyped-call]

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **options: Any) -> Self:
        """Load a model folder in the Hugging Face layout, or a model of the Hub by name: as `load`."""
        return cls(read_pretrained(name_or_folder, **options))

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        task: str | None = None,
        head: Callable[[int], Head] | None = None,
        tokenizer: Tokenizer | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """A new model with random weights, in training mode; on the device "meta" it has shapes and no weights."""
        return cls(new_parts(config, task=task, head=head, tokenizer=tokenizer, device=device))

    # ------------------------------------------------------------------------------------------------------- its parts

    @property
    def embedder(self) -> SentenceEmbedder:
        return SentenceEmbedder(self)

    @property
    def codec(self) -> AudioCoder:
        return AudioCoder(self.network)

    @property
    def adapters(self) -> AdapterSet:
        """The low-rank adapters (LoRA) by name, in the order in which they came."""
        return AdapterSet(self.network, BaseConfig(self.family, self.spec, self.task, self.own_head, self.folder))

    @property
    def tokenizer(self) -> Tokenizer:
        """Texts to ids. Raises: MissingPartError: the folder holds none."""
        if self._tokenizer is None:
            raise MissingPartError(
                "this model has no tokenizer: its folder holds neither tokenizer.json nor vocabulary files; copy those "
                "of the same model next to its weights (vocab.json with merges.txt; for OpenAI's Whisper gpt2.tiktoken "
                "or multilingual.tiktoken, which the package openai-whisper carries)"
            )
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer

    @property
    def has_tokenizer(self) -> bool:
        return self._tokenizer is not None

    @property
    def processor(self) -> Processor:
        """Images or audio to tensors. Raises: MissingPartError: the folder holds none, or the model reads text."""
        if self._processor is None:
            modality = self.family.modality
            raise MissingPartError(
                f"a {self.family.model_type!r} model reads text only"
                if modality is None
                else f"this model cannot read a {modality}: its folder holds no preprocessor_config.json"
            )
        return self._processor

    @processor.setter
    def processor(self, processor: Processor | None) -> None:
        self._processor = processor

    @property
    def has_processor(self) -> bool:
        return self._processor is not None

    @property
    def vocabulary(self) -> int:
        """Vocabulary size; 0 where the network reads and writes no text."""
        return self.network.vocabulary

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether it generates an answer to what it reads, instead of continuing it."""
        return self.task in ANSWERING_TASKS and "decoder_input_ids" in self.network.READS

    @property
    def writes(self) -> bool:
        """Whether it generates text: continues a prompt, or answers it."""
        codes = self.network.sizes.codebooks > 0
        return not codes and (
            self.is_encoder_decoder or (self.task == "text-generation" and self.family.modality is None)
        )

    # -------------------------------------------------------------------------------------------------------- a module

    def __getattr__(self, name: str) -> Any:
        """Also the network's children, so that names of parameters are paths of attributes."""
        modules = self.__dict__.get("_modules", {})  # not there yet while a copy is being made
        if name in modules:
            return modules[name]
        if isinstance(own := getattr(type(self), name, None), property):  # it has raised an AttributeError: say why
            return own.fget(self)  # type: ignore[misc] # each has one
        network = modules.get("network")
        if network is None or name.startswith("_"):
            return super().__getattr__(name)
        if (ours := network._modules.get(name)) is not None:
            return ours
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}; modules are those of model.network; paths of "
            "Hugging Face transformers, such as model.bert.encoder, are there where glassformer.hf has made the model"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses modules that no call would reach. Raises: UnsupportedError: another module than the network."""
        if isinstance(value, (nn.Module, nn.Parameter)) and name != "network":
            raise UnsupportedError(
                f"model.{name} = … would change nothing that the model computes; another head is load(…, head=…) or "
                "num_labels=…, with a model of glassformer.hf also nn.Linear(width, labels) as its last layer; another "
                "part is model.network.… = …"
            )
        super().__setattr__(name, value)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """This module, and those of the network with the names that they have there; parameters are named after them.

        Two modules are called "": this one and the network.
        """
        memo = set() if memo is None else memo
        if self not in memo:
            memo.update({self} if remove_duplicate else ())
            yield prefix, self
            yield from self.network.named_modules(memo, prefix, remove_duplicate)

    @property
    def num_labels(self) -> int:
        """How many labels the head has."""
        return int(self.config.num_labels)

    def can_generate(self) -> bool:
        """Whether `generate` is there for this model's head."""
        return self.task in ("text-generation", "translation", "automatic-speech-recognition")

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.network.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return next(self.network.parameters()).dtype

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """The number of parameters; one that is used twice counts once."""
        table = self.network.embedding.tokens if exclude_embeddings else None
        embedded = set() if table is None else {id(x) for x in table.modules()} | {id(x) for x in table.parameters()}
        levels = [] if only_trainable else [x for x in stored_levels(self.network) if id(x) not in embedded]
        return sum(x.rows * x.columns for x in levels) + sum(
            x.numel() for x in self.parameters() if id(x) not in embedded and (x.requires_grad or not only_trainable)
        )

    def __repr__(self) -> str:
        return (
            f"Model({self.family.model_type}, {self.task}, {amount(self.num_parameters())} parameters, "
            f"{str(self.dtype).removeprefix('torch.')} on {self.device})"
        )

    def notebook_html(self) -> str:
        """The facts of the model as a table."""
        names = self.config.get("id2label") if self.task.endswith("classification") else None
        labels = list(map(str, (names or {}).values()))
        facts = {
            "task": self.task,
            "parameters": amount(self.num_parameters()),
            "weights": f"{str(self.dtype).removeprefix('torch.')} on {self.device}",
            "tokens": "" if self.network.max_tokens is None else f"up to {self.network.max_tokens:,}",
            "vocabulary": f"{self.vocabulary:,}" if self.vocabulary else "",
            "labels": ", ".join(labels[:MAX_LABELS]) + (", …" if len(labels) > MAX_LABELS else ""),
            "adapters": ", ".join(self.adapters),
            "folder": "" if self.folder is None else str(self.folder),
        }
        rows = [[name, text] for name, text in facts.items() if text]
        return Table(["model", self.family.model_type], rows).html()

    # -------------------------------------------------------------------------------------------------------- its call

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        labels: Tensor | dict[str, Tensor] | None = None,
        cache: KeyValueCache | None = None,
        tape: Tape | None = None,
        **inputs: Unpack[CallInputs],
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
            cache: key-value cache, extended here
            tape: records activations of `model.taps()`, or replaces them
            past_key_values, use_cache, output_hidden_states, output_attentions, return_dict: see `CallInputs`
        Returns: an Output with the field names of Hugging Face transformers, and `taps` if a tape was given.
        Raises: DataError: ids out of range, or more tokens than positions. ConfigError: shapes that do not fit.
        """
        tokens = {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}
        given: dict[str, Any] = {**tokens, "token_type_ids": token_type_ids, **inputs}
        labels = take_labels(given, labels)
        network, recompute = self.network, self.recompute and self.training
        # Packed narrow weights have no gradients: in eval mode none are expected, in training mode it is an error.
        differentiable = network.training or prepared_precision(network) in (None, "fp32")
        with torch.set_grad_enabled(torch.is_grad_enabled() and differentiable):
            # As in the reference library: labels of an encoder-decoder are all of the target, which no call continues.
            cached = self.family.generates and not recompute and not (labels is not None and self.is_encoder_decoder)
            call = CallOptions.take(network, self.config, given, cache, tape, cached=cached)
            complete_inputs(given, network, labels if self.is_encoder_decoder else None, call.cache, self.config)
            batch, flow = read_call(network, self.family.model_type, given, cache=call.cache, tape=call.tape)
            flow = replace(flow, recompute=recompute and call.cache is None and call.tape is None)
            warn_if_marker_missing(network, self.task, self._tokenizer, input_ids, flow)
            output: Output = network(batch, flow)
        self.check_nan(output)
        if labels is not None:
            output = replace(output, loss=head_loss(network, self.family, self.task, output, labels))
        return call.finish(output)

    if TYPE_CHECKING:
        __call__ = forward  # `nn.Module` calls it, and the hooks around it

    def check_nan(self, output: Output | Tensor) -> None:
        """Warn of NaN, once; names the parameters with NaN, if there are any."""
        fields = {"": output} if isinstance(output, Tensor) else output.present()
        first = next((x for name, x in fields.items() if name != "loss" and isinstance(x, Tensor)), None)
        if self._nan_seen or first is None or first.is_meta or not first.numel():
            return
        recorded = torch.compiler.is_exporting() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        if recorded:  # the number would become a constant
            return
        self._nan_seen = bool(first.max().isnan())
        if self._nan_seen and (broken := nan_parameters(self.network)):
            warnings.warn(
                f"the output holds NaN, because {len(broken)} parameters of the model do: {name_list(broken)}; "
                "the checkpoint is damaged, or its training diverged",
                stacklevel=3,
            )

    def get_encoder(self) -> Callable[..., Output]:
        """The encoder of an encoder-decoder, called by itself: model.get_encoder()(ids).last_hidden_state [B, S, D]"""
        return encoder_of(self.network, self.family.model_type)

    def taps(self) -> list[str]:
        """The names of all activations that a Tape can record."""
        return self.network.taps()

    def get_text_features(self, **inputs: Any) -> Tensor:
        """Embeddings of texts in the space that they share with images, of any length (CLIP). [texts, E]"""
        return shared_features(self.network, self.family.model_type, self.task, 0, inputs)

    def get_image_features(self, **inputs: Any) -> Tensor:
        """Embeddings of images in the space that they share with texts, of any length (CLIP). [images, E]"""
        return shared_features(self.network, self.family.model_type, self.task, 1, inputs)

    # ----------------------------------------------------------------------------------------- text generation, speech

    def generate(
        self,
        prompt: Any = None,
        generation_config: Any = None,
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
        A speech model takes one or several audio files, or samples with `sample_rate_hz`, and answers with transcripts.

        A conversation, [{"role": "user", "content": "Hello"}], is formatted by the tokenizer's chat template; the
        assistant's answer is generated, or continued where the conversation ends with it.

        The default is greedy decoding of 20 tokens, or of the length in generation_config.json; other values of that
        file are the defaults of options that you do not give (`glassformer.generation.options`).
        The result of a row does not depend on the other rows of the batch.

        Args:
            prompt: one text or conversation, several, or token ids, padded on the left. [B, T] Audio: a file, samples,
                or `input_features`. By name, too: `inputs`, `input_ids`, `input_features`
            generation_config: options in an object; those of the call win
            attention_mask: 0 where ids are padding. [B, T]
            options: `max_new_tokens`, `do_sample`, `temperature`, `top_p`, `num_beams`, `stop_strings`, …, all of them
                in `glassformer.generation.options.GenerationOptions`, under their names in Hugging Face transformers;
                `streamer`, `return_dict_in_generate`, … (`glassformer.generation.arguments`)
        Returns: a text for a text, a list for several, ids [B, T + new] for ids; with `num_return_sequences` n, the n
            answers to a prompt are adjacent; with `return_scores`, a `Generated`.
        Raises: DataError: an empty prompt, padding on the right, or no room for this many tokens.
            ConfigError: unknown options, out of range, or in conflict.
            WeightsError: the logits are NaN. UnsupportedError: the model was loaded for another task.
            Interrupted: by Ctrl-C; `.partial` is what was generated.
        """
        from glassformer.generation.generate import generate

        return generate(self, prompt, attention_mask, {"generation_config": generation_config, **options})

    def stream(
        self, prompt: str | Chat | Tensor, *, attention_mask: Tensor | None = None, **options: Any
    ) -> Iterator[Any]:
        """Streaming generation, as `generate`: a text gives pieces of text, ids give the next token of each row.

            for piece in model.stream("Once upon a time"):
                print(piece, end="", flush=True)

        A piece holds whole characters, and the pieces together are the text that `generate`
        gives. No beam search, where no token is certain before the end.

        Args:
            prompt: one text or conversation, or ids [B, T]
            others: as in `generate`
        Returns: an iterator of texts, or of tokens. [B] each
        """
        from glassformer.generation.generate import stream

        return stream(self, prompt, attention_mask, options)

    def transcribe(self, sound: Any, *, sample_rate_hz: int | None = None, **options: Any) -> Transcription:
        """Transcribe a recording of any length, with times; options in `glassformer.speech.options`.

        Args:
            sound: an audio or video file, or samples with `sample_rate_hz`
        Raises: DataError: it cannot be read. UnsupportedError: the model does not transcribe speech.
        """
        from glassformer.speech.options import TranscriptionOptions
        from glassformer.speech.transcribe import transcribe

        return transcribe(self, sound, TranscriptionOptions.read(options), sample_rate_hz)

    def compute_transition_scores(
        self, sequences: Tensor, scores: Sequence[Tensor], beam_indices: Any = None, normalize_logits: bool = False
    ) -> Tensor:
        """The score of each generated token, of what `generate(…, return_dict_in_generate=True)` gave. [R, new]"""
        from glassformer.generation.output import transition_scores

        return transition_scores(sequences, scores, beam_indices, normalize_logits)

    # ------------------------------------------------------------------------- sentence embeddings, and audio as codes

    encode = delegate("embedder", SentenceEmbedder.encode)
    encode_query = delegate("embedder", SentenceEmbedder.encode_query)
    encode_document = delegate("embedder", SentenceEmbedder.encode_document)
    similarity = delegate("embedder", SentenceEmbedder.similarity)
    similarity_pairwise = delegate("embedder", SentenceEmbedder.similarity_pairwise)
    explain_similarity = delegate("embedder", SentenceEmbedder.explain_similarity)
    score = delegate("embedder", SentenceEmbedder.score)
    rank = delegate("embedder", SentenceEmbedder.rank)
    get_sentence_embedding_dimension = delegate("embedder", SentenceEmbedder.get_sentence_embedding_dimension)
    get_embedding_dimension = get_sentence_embedding_dimension

    encode_audio = delegate("codec", AudioCoder.encode_audio)
    decode_audio = delegate("codec", AudioCoder.decode_audio)
    continue_codes = delegate("codec", AudioCoder.continue_codes)
    convert_codes = delegate("codec", AudioCoder.convert_codes)

    @property
    def similarity_fn_name(self) -> str:
        """How the folder compares vectors: "cosine" unless it says otherwise."""
        return self.embedder.similarity_fn_name

    @property
    def max_seq_length(self) -> int | None:
        """Tokens of a text at most, special ones included; what is longer is cut. None = no limit."""
        return self.embedder.max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, limit: int | None) -> None:
        self.embedder.max_seq_length = limit

    # ------------------------------------------------------------------------------------------------------ inspection

    def inspect(
        self,
        *texts: str,
        progress: Callable[[int, int], None] | None = None,
        limit_bytes: int = 2**30,
        truncation: bool = False,
        codec: str | Path | Model | None = None,
        **fields: Tensor,
    ) -> Session:
        """Run a forward pass on one text, or on two as a pair, and store it, to inspect attention and hidden states.

        An encoder-decoder reads the first text, and its decoder the second, or else its own answer. A model of pictures
        or sounds takes the name of a file first; one over codes too, which a codec makes.

        Args:
            progress: called after each block with the number of finished blocks and of all.
            limit_bytes: RAM limit of the session, in addition to the weights
            truncation: cut texts that are too long
            codec: of a model over codes: a folder, a Hub name or a model; None = the one that this package carries
            fields: other inputs, as in a call: `bbox`, `visual_feats` and `visual_pos`, of one row.
        Returns: a `Session`: `session.head(4, 11).probs(3)`, `session.overview(4)`, `session.states(4)`, …
        Raises: DataError: the texts are empty or too long. UnsupportedError: the model has no attention.
        """
        from glassformer.inspect.inputs import open_inputs
        from glassformer.inspect.session import Session

        maker = load(codec or CODEC) if self.network.sizes.codebooks and not isinstance(codec, Model) else codec
        opened = open_inputs(self, texts, fields, truncation=truncation, codec=maker)
        return Session(self.network, opened, progress=progress, limit_bytes=limit_bytes)

    def attribute(
        self, *texts: str, target: str | int | None = None, truncation: bool = False, **options: Any
    ) -> Attribution:
        """Attribution: which words, heads and feed-forward layers made an output.

            model.attribute("so glad to see you", target="joy").words          a class
            model.attribute("The capital of France is", target=" Paris")       the next token
            model.attribute("Ada met Grace", target="B-PER", at="Ada")         the tag of a word
            model.attribute(question, text)                                    the span of an answer

        Direct logit attribution, gradient × input, and integrated gradients or, where these miss too much, Shapley
        values of a short text and, of a longer one, what leaving out each word changes.

        Args:
            texts: as in `inspect`
            target, options: as in `Session.attribute`
        Returns: an `Attribution`: `.words`, `.parts`, `.gap`, `.notes`.
        Raises: DataError: no such output, word or token. UnsupportedError: no head that gives logits of one stream.
        """
        return self.inspect(*texts, truncation=truncation).attribute(target, **options)

    def writing(self, prompt: str, *, truncation: bool = False) -> GenerationTrace:
        """Trace text generation: a tree of tokens with the alternatives at each step, from which to branch.

            trace = model.writing("Once upon a time")
            result = trace.write(num_beams=4)                    as generate does
            trace.tree.choices[0].top                            the most likely first tokens
            trace.write(after=0, tokens=[263])                   continue from another first token

        Args:
            prompt: as in `generate`; of a speech model, an audio file
            truncation: cut one that is too long
        Raises: DataError: the prompt is empty or too long. UnsupportedError: the model was loaded for another task.
        """
        from glassformer.inspect.generation_trace import trace_generation

        return trace_generation(self, prompt, truncation=truncation)

    def look(
        self,
        texts: str | Sequence[str] | None = None,
        *,
        lesson: str | Path | None = None,
        view: str | None = None,
        layer: int | None = None,
        heads: int | Sequence[int] | None = None,
        query: int | str | None = None,
        key: int | str | None = None,
        pair: Sequence[int] | None = None,
        theme: str | None = None,
        options: Mapping[str, Any] | None = None,
        html: str | Path | None = None,
        port: int | None = None,
        browser: bool | None = None,
        block: bool | None = None,
        truncation: bool = False,
        corpus: str | Path | None = None,
        codec: str | Path | None = None,
        against: Model | str | Path | None = None,
        **unknown: Any,
    ) -> Look:
        """Visualise the attention of one text, or of two as a pair, in a web browser: the attention explorer.

            model.look(["time flies", "fruit flies"], view="head", layer=4, heads=11)
            model.look("time flies", view="neuron", layer=4, heads=9, query="time", key="flies")     at this cell
            model.look(lesson="attention")                      a lesson, on its own text or on one of yours

        A script serves it until Ctrl-C; a notebook's cell is the page, unless `port`, `browser` or `block` is given.

        Args:
            texts: None = those of the lesson
            lesson: a name that `glassformer lesson --list` has, or a JSON file
            view: the name of a view
            layer, heads: the initial ones, from 0
            query, key: the pinned tokens: numbers from 0, or texts
            pair: of two texts, from which to which: (0, 1)
            theme: "light", "dark"; None = the system's
            options: with view="generate", which shows text generation: as in `generate`
            html: write the page to this file (self-contained) instead of serving it
            port: None = a free one
            browser: open one; None = if there is a display
            block: None = in a script
            truncation: cut long texts
            corpus: an index's folder, to search in
            codec: as in `inspect`
            against: a model to compare with on the same text, by itself or its name, or another precision: "int8"
        Returns: a `Look`: `.url`, `.session`, `.save(path)`, `.close()`.
        Raises: DataError: the texts are empty or too long, or no such lesson. ConfigError: the port is taken, or no
            such token. UnsupportedError: the model has no attention. UnknownOptionError: another argument.
        """
        from glassformer.explorer.look import InitialView, look

        _refuse_unknown(unknown)
        factory = self.session_factory(truncation=truncation, corpus=corpus, codec=codec, against=against)
        start = InitialView(
            view=view, layer=layer, heads=heads, query=query, key=key, pair=pair, theme=theme, options=options
        )
        return look(factory, texts, start, lesson=lesson, html=html, port=port, browser=browser, block=block)

    def session_factory(
        self,
        *,
        truncation: bool = False,
        corpus: str | Path | None = None,
        codec: str | Path | None = None,
        against: Model | str | Path | None = None,
    ) -> SessionFactory:
        """Facts about the model, and what makes its sessions: all that the attention explorer knows of it."""
        from glassformer.explorer.contexts import searched_corpus
        from glassformer.explorer.describe import model_facts
        from glassformer.explorer.difference import names_apart
        from glassformer.explorer.session_runs import OtherModel, SessionFactory
        from glassformer.speech.transcription_trace import transcriber

        options: Any = {"truncation": True} if truncation else {}
        facts = model_facts(self)
        codecs: Any = {"codec": load(codec or CODEC)} if self.network.sizes.codebooks else {}

        def inspect_by(model: Model) -> Callable[..., Session]:
            return partial(model.inspect, **options, **codecs)

        @lru_cache(maxsize=1)
        def in_precision(precision: str) -> OtherModel:
            return OtherModel((facts.dtype, precision), inspect_by(self._in_precision(precision)))

        other: OtherModel | None = None
        if isinstance(against, str) and against in PRECISIONS:
            other = in_precision(against)
        elif against is not None:
            model = against if isinstance(against, Model) else load(against, task=self.task)
            other = OtherModel(names_apart(facts, model_facts(model)), inspect_by(model))
        factory = SessionFactory(
            facts if other is None else replace(facts, against=other.names[1]),
            inspect_by(self),
            partial(self.writing, **options),
            in_precision,
            transcriber(self),
            self.explain_similarity if facts.can_compare else None,
            count_tokens=(lambda text: len(self.tokenizer([text]).rows[0].ids)) if facts.modality is None else None,
            against=other,
        )
        return searched_corpus(factory, self, corpus)

    def _in_precision(self, precision: str) -> Model:
        """A copy of the model, with its weights in another precision. Raises: as `precision_copy`."""
        from glassformer.compression.precision_copy import precision_copy

        return copy.deepcopy(self, {id(self.network): precision_copy(self.network, precision)})

    # ------------------------------------------------------------------------------- training, and the table of tokens

    def gradient_checkpointing_enable(self, *_: Any, **__: Any) -> None:
        """Activation checkpointing in training mode: calls store each block's input, and compute the rest again."""
        self.recompute = True

    def gradient_checkpointing_disable(self) -> None:
        """Store all activations, as calls do by default."""
        self.recompute = False

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of token embeddings.

        Raises: UnsupportedError: the model reads no text.
        """
        return self.network.embedding.tokens

    def set_input_embeddings(self, table: nn.Embedding) -> None:
        """Put other token embeddings in the place of the model's; a layer that is tied to them follows.

        Raises: DataError: another shape.
        """
        replace_embeddings(self.network, table)

    def resize_token_embeddings(
        self, size: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize the vocabulary, such as to a tokenizer with added tokens; other parameters stay the same objects.

        Args:
            size: the number of rows; None = as it is
            pad_to_multiple_of: rows are added until it divides them
            mean_resizing: no effect: new rows are the mean of the others
        Returns: the table of token embeddings.
        Raises: ConfigError: no count of rows, or there are adapters.
            UnsupportedError: the family has no one vocabulary.
        """
        check_not_adapted(self.network)
        self.network.check_trainable("given another vocabulary")
        unprepare(self.network)
        before = self.network.vocabulary
        rows = before if size is None else size
        rows = -(-rows // pad_to_multiple_of) * pad_to_multiple_of if pad_to_multiple_of else rows
        if rows != before:
            key = vocabulary_key(self.family, self.config)
            self.network, self.spec = resize_vocabulary(self.network, self.family, self.config, self.task, rows)
            self.config[key] = rows
        return self.get_input_embeddings()

    # --------------------------------------------------------------------------------------- adapters, by PEFT's names

    @property
    def active_adapters(self) -> list[str]:
        """The names of the adapters that take part in what the model computes."""
        return self.adapters.active

    def load_adapter(self, folder: str | Path, adapter_name: str = DEFAULT, **options: bool) -> Adapters:
        """Load adapters from a folder that PEFT or `save_adapter` has written, or from the Hub: `AdapterSet.load`."""
        adapters = self.adapters.load(folder, adapter_name, **options)
        self.report.new = [name for name in self.report.new if name not in adapters.full_parameters]
        return adapters

    add_adapter = delegate("adapters", AdapterSet.add, "add_adapter")
    save_adapter = delegate("adapters", AdapterSet.save, "save_adapter")
    set_adapter = delegate("adapters", AdapterSet.activate, "set_adapter")
    disable_adapter = delegate("adapters", AdapterSet.disabled, "disable_adapter")
    delete_adapter = delegate("adapters", AdapterSet.delete, "delete_adapter")
    add_weighted_adapter = delegate("adapters", AdapterSet.combine, "add_weighted_adapter")

    def merge_and_unload(self) -> Self:
        """Merge the active adapters into the weights, for good, and remove the others. Returns: the model itself."""
        self.adapters.merge_and_remove()
        return self

    def unload(self) -> Self:
        """Remove all adapters: the base model as it was. Returns: the model itself."""
        self.adapters.remove()
        return self

    # --------------------------------------------------------------------------------------------- inference and files

    def prepare(self, precision: str = "fp32") -> Self:
        """Pack the weights for fast inference, in a precision: "fp32", "fp16", "bf16" or "int8" (quantization)."""
        prepare(self.network, precision)
        return self

    def unprepare(self) -> Self:
        """Restore the original weights, bit for bit."""
        unprepare(self.network)
        return self

    def save_pretrained(self, folder: str | Path, *, max_shard_bytes: int = 5_000_000_000, **reference: Any) -> None:
        """Save config, weights and tokenizer in the Hugging Face layout, which transformers loads.

        Args:
            reference: keywords of Hugging Face transformers, such as `max_shard_size`; others are refused.
        Raises: WeightsError: the files cannot be written. ConfigError: the model has adapters that are not merged.
        """
        save(self, folder, max_shard_bytes=shard_bytes(reference, max_shard_bytes))

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload the model to the Hub; options of `hub.push.push_folder`. Returns: the address of the commit."""
        from glassformer.hub.push import push_saved

        return push_saved(self.save_pretrained, name, **options)

    def take_weights(self, folder: str | Path) -> None:
        """Load the weights of another save of the same model, such as the best checkpoint of a training run.

        Raises: WeightsError: its tensors do not fit. ConfigError: the model is quantised.
        """
        self.network.check_trainable("given the weights of another save")
        with open_checkpoint(as_path(folder, "folder"), allow_pickle=False) as checkpoint:
            load_weights(self.network, checkpoint, names_of(self), dtype=self.dtype, device=self.device)


def _refuse_unknown(arguments: Iterable[str]) -> None:
    """Raises: UnknownOptionError: an argument that `Model.look` does not have, with the one that was meant."""
    known = [name for name, x in signature(Model.look).parameters.items() if x.kind is x.KEYWORD_ONLY]
    for name in arguments:
        hint = f"; it is {OTHER_NAMES[name]} here" if name in OTHER_NAMES else nearest(name, known)
        raise UnknownOptionError(f"look(…) takes no {safe_repr(name)}{hint}; allowed: {', '.join(known)}")


def _drop_prefix(module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any]) -> None:
    """After `state_dict`: the network's names."""
    inner = prefix + INNER
    for name in [name for name in state if name.startswith(inner)]:
        state[prefix + name.removeprefix(inner)] = state.pop(name)


def _add_prefix(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Before `load_state_dict`: where they are below this module."""
    inner = prefix + INNER
    for name in [name for name in state if name.startswith(prefix) and not name.startswith(inner)]:
        state[inner + name.removeprefix(prefix)] = state.pop(name)


def _load(read: Callable[P, ModelParts]) -> Callable[P, Model]:
    @wraps(read)
    def load(*args: P.args, **options: P.kwargs) -> Model:
        return Model(read(*args, **options))

    load.__module__, load.__name__, load.__qualname__ = __name__, "load", "load"  # by which it is pickled
    return load


load = _load(read_pretrained)
"""Load a model folder in the Hugging Face layout, or a model of the Hub by name."""
