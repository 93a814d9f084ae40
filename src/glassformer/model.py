"""The face of the library: `load` a model, hold it, use it.

    model = load("folder-or-name")
    model(input_ids=ids).last_hidden_state          the network's own numbers
    model.encode(["one text", "another"])           vectors, fast
    model.generate("Once upon a time")              text
    model(input_ids=ids, tape=Tape("attn.probs"))   and any tensor on the way

The work is done below, in the layers this calls.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch import Tensor, nn

from glassformer.compression.adapters import not_adapted
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, Flow, Output, Tape
from glassformer.core.heads import Head, first_token
from glassformer.edge import (
    check_ids,
    check_numbers,
    check_read,
    check_segments,
    device_of,
    dtype_of,
    keep_of,
    prompts_of,
    refuse,
)
from glassformer.engine.prepare import prepare, prepared_precision, unprepare
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.files import shown
from glassformer.files.strict_json import read_object
from glassformer.hub import resolve
from glassformer.models import Family, Network, Reader
from glassformer.models.choice import LABELLED, bare_task, family_of, names_of, put_on, task_of
from glassformer.text.chat import Chat, as_prompt, is_chat
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.fit import LoadReport, fill, first_ten, gather, holding_nan
from glassformer.weights.header import read_file_header
from glassformer.weights.read import open_checkpoint
from glassformer.weights.write import write_checkpoint, write_json

if TYPE_CHECKING:
    import numpy as np

    from glassformer.audio import SoundProcessor
    from glassformer.explorer import Look
    from glassformer.generation.options import Options
    from glassformer.generation.sample import Generated
    from glassformer.generation.settings import Settings
    from glassformer.generation.writer import Writer
    from glassformer.inspect.reading import Reading
    from glassformer.inspect.session import Session
    from glassformer.inspect.writing import Writing
    from glassformer.vision import ImageProcessor

    Processor = ImageProcessor | SoundProcessor

LABEL_KEYS = frozenset({"num_labels", "id2label"})
"""Overridden, they ask for another head than the folder's."""

ANSWER_TOKENS = 40
"""How far an encoder-decoder answers when it is looked at and no target is given."""


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
        name_or_folder: an existing folder wins; another name is taken from the Hub's cache, or fetched.
        task: which head: a Hugging Face pipeline name ("fill-mask", "text-classification", …) or a short verb
            ("fill", "classify", …); None = the head that `architectures` in `config.json` names. The head of another
            task than the folder's is new; so is a tagger's of a folder that classifies texts, though names would fit.
        head: a head of your own on the bare body: a `core.Head` class, or a function, that is given the width D of the
            body's states. Its tensors are read from the folder if it was saved with it, else they are new.
        overrides: keys of `config.json` that shall be read otherwise: {"num_labels": 6, "id2label": None} makes the
            head for other labels (what of it does not fit the files is new), {"hidden_dropout_prob": 0.0} trains
            without dropout.
        dtype: None = the checkpoint's own.
        device: None = the CPU; "auto" = the accelerator if there is one.
        revision: a branch, tag or commit of the Hub.
        allow_pickle: also read old `.bin` and `.pt` files, in a child process that can do nothing else.
        offline: never open a connection.
        strict: a tensor in the files that the model does not use is an error.
    Returns: the model in eval mode; `model.report` says what became of every tensor.
    Raises: DataError, ConfigError, WeightsError, UnsupportedError: what is wrong with the folder, and what to do.
    """
    if not isinstance(name_or_folder, (str, Path)):
        raise DataError(
            f"the model is {shown(name_or_folder)}; give a folder, or a name on the Hub such as 'org/name'"
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
    config = {**read_object(folder / "config.json", ConfigError), **(overrides or {})}
    family = family_of(config, folder)
    asked, held = task_of(family, config, task if head is None else bare_task(task))
    of_other_labels = asked != held and {asked, held} <= LABELLED
    relabelled = not LABEL_KEYS.isdisjoint(overrides or ())
    reader = Reader(config)
    spec = family.spec(reader)
    unread = reader.leftovers()
    network = family.blank(spec, asked)
    if head is not None:
        with torch.device("meta"):
            put_on(network, head)
    names = names_of(family, spec, asked, network, own_head=head is not None)
    with open_checkpoint(folder, allow_pickle=allow_pickle) as checkpoint:
        report = fill(
            network,
            checkpoint,
            names,
            dtype=to_dtype,
            device=to_device,
            strict=strict,
            # The head of another task is new; so is the pooler of a bare body that was saved without it.
            may_be_new=lambda name: (
                name.startswith("head.") and (asked != held or asked == "feature-extraction" or relabelled)
            ),
            starts_anew=lambda name: of_other_labels and name.startswith("head."),
            initialise=lambda module: family.initialise(module, spec),
        )
    report.warnings += unread
    tokenizer = Tokenizer.find(folder, model_type=family.model_type)
    model = Model(
        network.eval(),
        family,
        spec,
        config,
        asked,
        tokenizer=tokenizer,
        processor=_processor(family, folder),
        report=report,
        folder=folder,
        own_head=head is not None,
        generation_config=_generation_config(folder),
    )
    if tokenizer is not None and model.vocabulary and tokenizer.largest_id >= model.vocabulary:
        raise ConfigError(
            f"{folder}: the tokenizer makes ids up to {tokenizer.largest_id}, the model's embedding has "
            f"{model.vocabulary} rows; they belong to different models"
        )
    return model


class Model:
    """A network with its tokenizer and config; made by `load`.

    network: the bare tree of parts · config, generation_config: as in the files of these names
    own_head: the caller's, put on the bare body
    tokenizer: texts to ids · processor: pictures or sounds to numbers; an error says where the folder has none
    task: what its head does · report: what became of every tensor when it was loaded
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
        self._found_nan = False
        self._tokenizer = tokenizer
        self._processor = processor

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, **options: Any) -> Model:
        """The same as `load`, under the name that others use."""
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
        """A new model with fresh weights, in training mode; on the device "meta" it has shapes and no weights."""
        family = family_of(config, None)
        asked, _ = task_of(family, config, task if head is None else bare_task(task))
        reader = Reader(config)
        spec = family.spec(reader)
        report = LoadReport(warnings=reader.leftovers())
        to_device = device_of(device)
        meta = to_device.type == "meta"
        network = family.blank(spec, asked) if meta else family.build(spec, asked).to(to_device)
        if head is not None:
            with to_device:
                put_on(network, head)
        if not meta:
            family.initialise(network, spec)
        return cls(
            network,
            family,
            spec,
            config,
            asked,
            tokenizer=tokenizer,
            report=report,
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
    def processor(self) -> Processor:
        if self._processor is None:
            what = self.family.opens
            raise DataError(
                f"a {self.family.model_type!r} model reads text alone"
                if what is None
                else f"this model cannot read a {what}: its folder holds no preprocessor_config.json, which says how"
            )
        return self._processor

    # ------------------------------------------------------------------------------------------------ one call

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
        **refused: Any,
    ) -> Output:
        """Run the network once, on the fields that it reads (`network.READS`).

        Args:
            input_ids: token ids. [B, T]
            attention_mask: 1 for text, 0 for padding, on either side. [B, T], with a cache [B, past + T];
                of a sound [B, samples]
            token_type_ids: segment ids. [B, T], of a table's tokens [B, T, columns]; None = all 0
            position_ids: where tokens stand. [B, T]; None = counted, without padding
            bbox: where words stand on a page: left, top, right, bottom, in thousandths of it. [B, T, 4]
            decoder_input_ids, decoder_attention_mask: the target side of an encoder-decoder. [B, T]
            input_values: sound, as a wave; `processor` makes it. [B, samples]
            input_features: sound, as a log-mel spectrogram; `processor` makes it. [B, M, frames]
            pixel_values: pictures; `processor` makes them. [B, channels, height, width]
            visual_feats, visual_pos, visual_attention_mask: regions found in a picture: what a detector says of each
                [B, R, width], their corners as parts of the picture's size [B, R, 4], and which are padding [B, R]
            labels: what the head should have said; fills `loss`. -100 does not count
            cache: extended by this call's keys and values
            tape: listens to tensors of `model.taps()`, or replaces them
        Returns: an Output with the reference library's field names, and `taps` where a tape was given.
        Raises: DataError: ids out of range, or more tokens than positions. ConfigError: shapes that do not fit.
        """
        refuse("model", refused)
        numbers = {
            "input_values": (input_values, "[B, samples]"),
            "input_features": (input_features, "[B, mel bins, frames]"),
            "pixel_values": (pixel_values, "[B, channels, height, width]"),
            "visual_feats": (visual_feats, "[B, regions, width]"),
            "visual_pos": (visual_pos, "[B, regions, 4]"),
        }
        for name, ids in (("input_ids", input_ids), ("decoder_input_ids", decoder_input_ids)):
            if ids is not None:
                check_ids(name, ids, self.vocabulary or None)
        for name, (x, shape) in numbers.items():
            if x is not None:
                check_numbers(name, x, shape)
        if token_type_ids is not None:
            segments = self.network.segments
            if not segments:
                raise ConfigError(
                    f"a {self.family.model_type!r} model knows no segments; leave token_type_ids out"
                )
            check_segments(token_type_ids, segments, like=input_ids)
        if position_ids is not None:
            if input_ids is None:
                raise ConfigError("position_ids say where tokens stand, and no input_ids were given")
            check_ids("position_ids", position_ids, self.network.max_tokens, like=input_ids)
        if tape is not None and not isinstance(tape, Tape):
            raise ConfigError(f"tape is {shown(tape)}; it must be a Tape, such as Tape('attn.probs')")
        batch = Batch(
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            bbox=bbox,
            decoder_input_ids=decoder_input_ids,
            decoder_keep=keep_of("decoder_attention_mask", decoder_attention_mask, decoder_input_ids, cache),
            visual_keep=keep_of("visual_attention_mask", visual_attention_mask, visual_feats, None),
            **{name: x for name, (x, _) in numbers.items()},
        )
        check_read(batch, self.network.READS, self.family.model_type)
        past = cache if decoder_input_ids is None else None
        flow = Flow(
            keep=keep_of(
                "attention_mask", attention_mask, input_values if input_ids is None else input_ids, past
            ),
            positions=position_ids,
            cache=cache,
            tape=tape and tape.attach(self.network),
        )
        self._look_for_first_token(input_ids, flow)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self._has_gradients):
            output: Output = self.network(batch, flow)
        self._watch(next((x for x in output.given().values() if isinstance(x, Tensor)), None))
        if labels is not None:
            if self.network.head is None:
                raise ConfigError(
                    "labels need a head, and this model was loaded without one; load it with "
                    f"task={' or '.join(repr(task) for task in self.family.tasks if task != self.task)}"
                )
            output = replace(output, loss=self.network.head.loss(output, labels))
        return output if tape is None else replace(output, taps=tape.taps)

    def _watch(self, x: Tensor | None) -> None:
        """Warn, once, where answers hold NaN because weights do."""
        if self._found_nan or x is None or not x.numel() or x.is_meta or not bool(x.max().isnan()):
            return
        self._found_nan = True
        if broken := holding_nan(self.network):
            warnings.warn(
                f"the answers hold NaN, because {len(broken)} tensors of the model do: {first_ten(broken)}; "
                "the checkpoint is damaged, or its training went astray",
                stacklevel=3,
            )

    @property
    def _has_gradients(self) -> bool:
        """Narrow packed weights have none: in eval mode nobody expects them, in training mode they are an error."""
        return self.network.training or prepared_precision(self.network) in (None, "fp32")

    def _look_for_first_token(self, ids: Tensor | None, flow: Flow) -> None:
        """Warn where a head judges texts by their first token and that is an ordinary word."""
        head, tokenizer = self.network.head, self._tokenizer
        if ids is None or tokenizer is None or head is None or not head.reads_first_token:
            return
        marker = tokenizer.cls_token_id
        if marker is not None and "logits" in head.FIELDS and bool((first_token(ids, flow) != marker).any()):
            warnings.warn(
                f"the {self.task} head reads the first token, which should be {tokenizer.cls_token!r}; "
                "encode texts with add_special_tokens=True",
                stacklevel=3,
            )

    @property
    def vocabulary(self) -> int:
        """How many token ids the network knows; 0 where it reads and writes no text."""
        return self.network.vocabulary

    # ------------------------------------------------------------------------------------------------ one verb

    def encode(self, texts: str | Sequence[str], **options: Any) -> np.ndarray:
        """Turn texts into vectors, fast; options as in `glassformer.engine.encoder.encode`.

        Returns: float32. [N, D] for a sequence of N texts, [0, D] for an empty one; [D] for a single string.
        """
        from glassformer.engine.encoder import encode

        vectors = encode(
            self.network, self.tokenizer, [texts] if isinstance(texts, str) else texts, self.folder, **options
        )
        self._watch(torch.from_numpy(vectors))
        return cast("np.ndarray", vectors[0]) if isinstance(texts, str) else vectors

    def generate(
        self,
        prompt: str | Chat | Sequence[str | Chat] | Tensor,
        *,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Continue prompts: text gives text (the new part alone), ids give ids (prompt and new).

            model.generate("Once upon a time")                                                  the likeliest tokens
            model.generate("Once upon a time", do_sample=True, top_p=0.9, seed=1)               drawn ones
            model.generate(article, num_beams=4, no_repeat_ngram_size=3, max_new_tokens=60)     the best of a search
            model.generate("Once upon a time", penalty_alpha=0.6, top_k=4)                      unlike what was said
            model.generate(article, prompt_lookup_num_tokens=8)         as the first, faster: guessed from the text
            model.generate(article, assistant_model=smaller)            as the first, faster: guessed by a smaller model

        An encoder-decoder reads the prompt and answers it; its ids begin with its start token, not with the prompt.
        One that listens takes the file of a sound, or several, and answers with what is said.

        A conversation, [{"role": "user", "content": "Hello"}], is written by the tokenizer's chat template, and the
        assistant's answer generated; where it ends with the assistant's words, they are continued.

        It searches greedily, for 20 tokens, unless asked otherwise, whatever the folder's generation_config.json
        recommends; the rest of that file holds where you name nothing (`glassformer.generation.options`).
        What a row becomes does not depend on the rows beside it.

        Args:
            prompt: one text or conversation, several, or token ids, padded on the left. [B, T] A sound: its file, or
                `input_features`
            attention_mask: 0 where ids are padding. [B, T]
            options: `max_new_tokens`, `do_sample`, `temperature`, `top_p`, `num_beams`, `stop_strings`, …, all of them
                in `glassformer.generation.options.Options`, under the names that Hugging Face uses.
        Returns: a text for a text, a list for several, ids [B, T + new] for ids; with `num_return_sequences` n, the n
            answers to a prompt are neighbours; with `return_scores`, a `Generated`.
        Raises: DataError: an empty prompt, padding on the right, or no room for so many tokens.
            ConfigError: options that are unknown, out of range, or do not go together.
            WeightsError: the logits are NaN. UnsupportedError: the model was loaded for another task.
            Interrupted: by Ctrl-C; `.partial` is what was generated.
        """
        from glassformer.generation.sample import Interrupted

        asked = self._asked(options)
        texts = None if isinstance(prompt, Tensor) else prompts_of(prompt)
        if texts is not None and not texts:
            return []
        read, mask = self._given(texts or prompt, attention_mask)
        try:
            found = self._writer(asked).write(read, mask, asked)
        except Interrupted as interrupt:
            if texts is not None:
                interrupt.partial.texts = self._said(interrupt.partial)
            raise
        if texts is not None:
            found.texts = self._said(found)
        if asked.return_scores or asked.top:
            return found
        if found.texts is None:
            return found.ids
        single = isinstance(prompt, str) or is_chat(prompt)
        return found.texts[0] if single and len(found.texts) == 1 else found.texts

    def stream(
        self, prompt: str | Chat | Tensor, *, attention_mask: Tensor | None = None, **options: Any
    ) -> Iterator[Any]:
        """The same as `generate`, as it comes: a text gives pieces of text, ids give the next token of each row.

            for piece in model.stream("Once upon a time"):
                print(piece, end="", flush=True)

        A piece holds whole characters, and the pieces together are the text that `generate` gives.

        Args: as in `generate`; one text or conversation, and no beams, for which nothing is certain before the end.
        Returns: an iterator of texts, or of tokens. [B] each
        """
        from glassformer.generation.pieces import Pieces

        asked = self._asked(options)
        if asked.num_beams > 1 or asked.return_scores or asked.top:
            raise ConfigError(
                "stream(…) gives tokens as they are chosen, without scores and without beams; use generate(…)"
            )
        if not isinstance(prompt, (str, Tensor)) and not is_chat(prompt):
            raise DataError(
                f"the prompt is {shown(prompt)}; stream(…) takes one text or conversation, or token ids [B, T]"
            )
        if not isinstance(prompt, Tensor) and asked.num_return_sequences > 1:
            raise ConfigError("stream(…) continues one text once; leave num_return_sequences out")
        read, mask = self._given(prompt if isinstance(prompt, Tensor) else prompts_of(prompt), attention_mask)
        tokens = (step.tokens for step in self._writer(asked).decoding(read, mask, asked))
        if isinstance(prompt, Tensor):
            return tokens
        return Pieces(self.tokenizer).of(int(token) for token in tokens)

    def _asked(self, options: Mapping[str, Any]) -> Options:
        from glassformer.generation.options import Options

        return Options.read(options, self._settings)

    def _given(self, prompt: Sequence[Any] | Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What is read, ids or the features of a sound, and its mask."""
        if isinstance(prompt, Tensor):
            return prompt, mask
        if mask is not None:
            raise ConfigError(
                "attention_mask says which ids are padding, and the prompt is text; leave it out"
            )
        if self.family.opens:
            if not self._translates:
                raise UnsupportedError(
                    f"a {self.family.model_type!r} model loaded for {self.task!r} writes no text about a "
                    f"{self.family.opens}; call it, model(**model.processor(file)), or give token ids"
                )
            return self.processor(prompt)["input_features"].to(self.device), None
        several = len(prompt) > 1  # one text needs no padding, for which not every tokenizer has a token
        talk = is_chat(prompt[0])  # whose template writes the special tokens itself
        encoded = self.tokenizer(
            [as_prompt(self.tokenizer, chat) for chat in prompt] if talk else prompt,
            add_special_tokens=not talk,
            padding=several,
            padding_side="left",
            return_tensors="pt",
        )
        return encoded["input_ids"].to(self.device), encoded["attention_mask"].to(self.device)

    def _said(self, found: Generated) -> list[str]:
        texts = [self.tokenizer.decode(row, skip_special_tokens=True) for row in found.new_ids.tolist()]
        return [text.strip() for text in texts] if self.family.opens else texts

    def _writer(self, asked: Options) -> Writer:
        """Raises: UnsupportedError: the model, or the one that guesses for it, has no head that writes."""
        from glassformer.generation.options import Options
        from glassformer.generation.writer import Writer

        if not self._translates and self.task != "text-generation":
            able = "text-generation" in self.family.tasks
            raise UnsupportedError(
                f"generate needs a language-model head; this model was loaded for {self.task!r}; "
                + (
                    "load it with task='text-generation'"
                    if able
                    else f"no {self.family.model_type!r} model has one"
                )
            )
        special = frozenset() if self._tokenizer is None else self._tokenizer.special_ids
        draft: Model | None = asked.assistant_model
        if draft is not None:
            self._check_words(draft)
        return Writer(
            self.network,
            self._settings,
            self._translates,
            lambda: self.tokenizer,
            special,
            None if draft is None else draft._writer(Options()),
        )

    def _check_words(self, other: Model) -> None:
        """Raises: ConfigError: the two have tokenizers, of which one means something else by a token."""
        if self._tokenizer is None or other._tokenizer is None:
            return
        ours, theirs = (tokenizer.engine.get_vocab() for tokenizer in (self._tokenizer, other._tokenizer))
        if ours != theirs:
            word = next(word for word in (*ours, *theirs) if ours.get(word) != theirs.get(word))
            here, there = (f"token {words[word]}" if word in words else "none" for words in (ours, theirs))
            raise ConfigError(
                f"the assistant_model has another vocabulary: {shown(word)} is {there} there, {here} here; take a "
                "smaller model of the same vocabulary"
            )

    @property
    def _settings(self) -> Settings:
        from glassformer.generation.settings import Settings

        return Settings(self.generation_config, self.config, self.vocabulary)

    @property
    def writes(self) -> bool:
        """Does it write text: what continues a prompt, or answers it?"""
        return self._translates or (self.task == "text-generation" and self.family.opens is None)

    @property
    def _translates(self) -> bool:
        """Does it answer what it reads with a text (an encoder-decoder), instead of continuing it?"""
        writes = self.task in ("translation", "automatic-speech-recognition")
        return writes and "decoder_input_ids" in self.network.READS

    def inspect(
        self,
        *texts: str,
        progress: Callable[[int, int], None] | None = None,
        limit_bytes: int = 2**30,
        **fields: Tensor,
    ) -> Session:
        """Run one text, or two as a pair, and keep the pass so that all of its attention can be looked at.

        An encoder-decoder reads the first and has its decoder read the second; without one, its own answer. A model
        of pictures or sounds takes the name of a file first.

        Args:
            progress: called after each block with the number done and of all.
            limit_bytes: what the session may hold beside the weights.
            fields: what is read beside the text, as in a call: `bbox`, `visual_feats` and `visual_pos`, of one row.
        Returns: a `Session`: `session.head(4, 11).probs(3)`, `session.overview(4)`, `session.states(4)`, …
        Raises: DataError: the texts are empty or too long. UnsupportedError: there is no attention to look at.
        """
        from glassformer.inspect.reading import read_texts, read_translation, with_fields
        from glassformer.inspect.session import Session

        if self.family.opens:
            reading = self._opened(texts)
        elif self._translates:
            limit = self.network.max_tokens
            reading = read_translation(
                self.tokenizer,
                texts,
                begun=lambda ids: self._begun(ids.to(self.device)),
                limit=limit,
                answer=lambda ids: self._continue(ids.to(self.device), None, self._room(), True),
            )
        else:
            segments = self.network.segments
            reading = read_texts(
                self.tokenizer,
                texts,
                segments=segments if isinstance(segments, int) else 0,
                limit=self.network.max_tokens,
            )
        if fields:
            reading = with_fields(reading, fields, self.network)
        check_read(reading.batch, self.network.READS, self.family.model_type)
        return Session(self.network, reading, progress=progress, limit_bytes=limit_bytes)

    def writing(self, prompt: str) -> Writing:
        """Watch what it writes from a prompt: a tree with what else could have come at each step, open to branches.

            writing = model.writing("Once upon a time")
            written = writing.write(num_beams=4)                 as generate does
            writing.tree.choices[0].top                          the likeliest first tokens
            writing.write(after=0, tokens=[263])                 another first token, and on from there

        Args:
            prompt: as in `generate`; of a model that listens, the file of a sound.
        Raises: DataError: the prompt is empty or too long. UnsupportedError: the model was loaded for another task.
        """
        from glassformer.inspect.reading import read_source, read_texts
        from glassformer.inspect.writing import Writing

        if not isinstance(prompt, str):
            raise DataError(f"the prompt is {shown(prompt)}; give one text")
        writer, limit = self._writer(self._asked({})), self.network.max_tokens
        if not self.writes:
            raise UnsupportedError(f"a {self.family.model_type!r} model writes no text that could be watched")
        if self.family.opens:
            reading = self._sensed(prompt, self.processor(prompt))
        elif self._translates:
            reading = read_source(self.tokenizer, prompt, limit=limit)
        else:
            reading = read_texts(self.tokenizer, [prompt], segments=0, limit=limit)
        return Writing(writer, reading, self.tokenizer)

    def _sensed(self, file: str, fields: Mapping[str, Tensor]) -> Reading:
        """A picture or a sound, of which these are the numbers."""
        from glassformer.inspect.reading import read_sense

        read = {name: x.to(self.device) for name, x in fields.items() if name in self.network.READS}
        batch = Batch(**read)
        return read_sense(file, batch, self.network.places(batch))

    def _opened(self, texts: Sequence[str]) -> Reading:
        """A picture or a sound from its file, and the text that is read beside it."""
        from glassformer.inspect.reading import answered, beside, read_texts

        fields = self.processor(texts[0]) if texts else {}
        fields = {name: x.to(self.device) for name, x in fields.items()}
        writes = "decoder_input_ids" in self.network.READS
        if writes and not self._translates:
            raise UnsupportedError(
                "this model was loaded without the head that writes, so there is no answer to look at; load it with "
                "task='automatic-speech-recognition'"
            )
        beside_text = "input_ids" in self.network.READS and "input_ids" not in fields
        if not (len(texts) == 1 + beside_text or (writes and len(texts) == 2)):
            wanted = (
                f"the file of a {self.family.opens}" + " and a text" * beside_text + " (and a text)" * writes
            )
            raise DataError(f"this model is looked at with {wanted}; got {shown(texts)}")
        sense = self._sensed(str(texts[0]), fields)
        limit = self.network.max_tokens
        if writes:
            return answered(
                sense,
                self.tokenizer,
                texts[1] if len(texts) == 2 else None,
                begun=lambda: self._begun(fields["input_features"]),
                limit=limit,
                answer=lambda: self._continue(fields["input_features"], None, self._room(), True),
            )
        return (
            beside(sense, read_texts(self.tokenizer, texts[1:], segments=0, limit=limit))
            if beside_text
            else sense
        )

    def _begun(self, read: Tensor) -> list[int]:
        """What an answer to this begins with, whatever comes then: the start token, and those that are forced."""
        forced = max(self._settings.forced, default=0)
        # One more than is kept, for some folders also force what stands last.
        begun: list[int] = self._continue(read, None, forced + 1, True)[0, : forced + 1].tolist()
        return begun

    def _room(self) -> int:
        """How far it answers when it is looked at: the start token takes a position too."""
        limit = self.network.max_tokens
        return ANSWER_TOKENS if limit is None else min(ANSWER_TOKENS, limit - 1)

    def look(self, texts: str | Sequence[str], **options: Any) -> Look:
        """Look at every attention head of one text, or of two as a pair, in a browser.

            model.look(["time flies", "fruit flies"], view="head", layer=4, heads=11)
            model.look("time flies", html="page.html")          one file that needs no server

        Serves a page on this machine and opens it. A script waits there until Ctrl-C; a shell or a notebook gets its
        prompt back, and a notebook shows the page itself where the value ends a cell.

        Args:
            port: None = a free one · browser: open one; None = where there is a screen
            html: write the page there as one file instead of serving it
            view: "model", "head", "matrix", "neuron" or "generate" · layer, heads: what it shows first, counted from 0
            options: with view="generate", which shows the text as it is written: as in `generate`
            theme: "light" or "dark"; None = as the system · block: wait for Ctrl-C; None = in a script
        Returns: a `Look`: `.url`, `.session`, `.save(path)`, `.close()`.
        Raises: DataError: the texts are empty or too long. ConfigError: the port is taken.
            UnsupportedError: there is no attention to look at.
        """
        from glassformer.explorer import look

        return look(self, texts, **options)

    def _continue(self, read: Tensor, mask: Tensor | None, max_new_tokens: int, cached: bool) -> Tensor:
        """The ids of a greedy search."""
        asked = self._asked({"max_new_tokens": max_new_tokens, "use_cache": cached})
        return self._writer(asked).write(read, mask, asked).ids

    def prepare(self, precision: str = "fp32") -> Self:
        """Take on packed weights for fast inference, in a named precision: "fp32", "fp16", "bf16" or "int8"."""
        prepare(self.network, precision)
        return self

    def unprepare(self) -> Self:
        """Give back the plain weights, bit for bit."""
        unprepare(self.network)
        return self

    def taps(self) -> list[str]:
        """The names of all tensors that a Tape can listen to."""
        return self.network.taps()

    # ----------------------------------------------------------------------------------- as torch users expect

    def save_pretrained(self, folder: str | Path, *, max_shard_bytes: int = 5_000_000_000) -> None:
        """Write config, weights and tokenizer in the Hugging Face layout; the reference library loads it.

        Raises: WeightsError: the disk refuses. ConfigError: the model has adapters that are not merged.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise WeightsError(f"{folder}: is a file; give a folder to write the model to")
        not_adapted(self.network)
        bare = self.task == "feature-extraction" and not self.own_head
        names = names_of(self.family, self.spec, self.task, self.network, own_head=self.own_head)
        tensors = gather(self.network, names, prefixed=not bare)
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
        """Take the weights of another save of this very model, such as the best of a training run.

        Raises: WeightsError: its tensors do not fit.
        """
        names = names_of(self.family, self.spec, self.task, self.network, own_head=self.own_head)
        with open_checkpoint(Path(folder), allow_pickle=False) as checkpoint:
            fill(self.network, checkpoint, names, dtype=self.dtype, device=self.device)

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


def _generation_config(folder: Path) -> dict[str, Any]:
    """How its makers let it generate; empty where the folder does not say."""
    path = folder / "generation_config.json"
    return read_object(path, ConfigError) if path.is_file() else {}


def _processor(family: Family, folder: Path) -> Processor | None:
    """What turns the files that a family opens into numbers; None where the folder does not say how."""
    if family.opens == "picture":
        from glassformer.vision import ImageProcessor

        return ImageProcessor.find(folder)
    if family.opens == "sound":
        from glassformer.audio import SoundProcessor

        return SoundProcessor.find(folder)
    return None
