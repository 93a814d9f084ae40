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

from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, Flow, Output, Tape
from glassformer.core.heads import first_token
from glassformer.edge import (
    check_ids,
    check_prompts_end,
    check_room,
    device_of,
    dtype_of,
    keep_of,
    prompts_of,
    refuse,
)
from glassformer.engine.prepare import prepare, prepared_precision, unprepare
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError, nearest
from glassformer.hub import resolve
from glassformer.models import FAMILIES, Family, Network, Reader
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.files import shown
from glassformer.weights.fit import LoadReport, fill, gather
from glassformer.weights.header import read_file_header
from glassformer.weights.read import open_checkpoint
from glassformer.weights.strict_json import read_object
from glassformer.weights.write import write_checkpoint, write_json

if TYPE_CHECKING:
    import numpy as np

    from glassformer.explorer import Look
    from glassformer.inspect.session import Session

ANSWER_TOKENS = 40
"""How far an encoder-decoder answers when it is looked at and no target is given."""


def load(
    name_or_folder: str | Path,
    *,
    task: str | None = None,
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
            ("fill", "classify", …); None = the head that `architectures` in `config.json` names.
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
    config = read_object(folder / "config.json", ConfigError)
    family = _family(config, folder)
    asked, own = _task(family, config, task)
    reader = Reader(config)
    spec = family.spec(reader)
    unread = reader.leftovers()
    network = family.blank(spec, asked)
    with open_checkpoint(folder, allow_pickle=allow_pickle) as checkpoint:
        report = fill(
            network,
            checkpoint,
            family.names(spec, asked),
            dtype=to_dtype,
            device=to_device,
            strict=strict,
            # The head of another task is new; so is the pooler of a bare body that was saved without it.
            may_be_new=lambda name: name.startswith("head.") and (not own or asked == "feature-extraction"),
            initialise=lambda module: family.initialise(module, spec),
        )
    report.warnings += unread
    tokenizer = Tokenizer.find(folder, model_type=family.model_type)
    model = Model(
        network.eval(), family, spec, config, asked, tokenizer=tokenizer, report=report, folder=folder
    )
    if tokenizer is not None and tokenizer.largest_id >= model.vocabulary:
        raise ConfigError(
            f"{folder}: the tokenizer makes ids up to {tokenizer.largest_id}, the model's embedding has "
            f"{model.vocabulary} rows; they belong to different models"
        )
    return model


class Model:
    """A network with its tokenizer and config; made by `load`.

    network: the bare tree of parts · tokenizer: or None, where the folder has none · config: as in `config.json`
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
        report: LoadReport | None = None,
        folder: Path | None = None,
    ) -> None:
        self.network = network
        self.family = family
        self.spec = spec
        self.config = dict(config)
        self.task = task
        self.report = report or LoadReport()
        self.folder = folder
        self._tokenizer = tokenizer

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
        tokenizer: Tokenizer | None = None,
        device: torch.device | str | None = None,
    ) -> Model:
        """A new model with fresh weights, in training mode; on the device "meta" it has shapes and no weights."""
        family = _family(config, None)
        asked, _ = _task(family, config, task)
        reader = Reader(config)
        spec = family.spec(reader)
        report = LoadReport(warnings=reader.leftovers())
        to_device = device_of(device)
        if to_device.type == "meta":
            network = family.blank(spec, asked)
        else:
            network = family.build(spec, asked).to(to_device)
            family.initialise(network, spec)
        return cls(network, family, spec, config, asked, tokenizer=tokenizer, report=report)

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise DataError(
                "this model has no tokenizer: its folder holds neither tokenizer.json nor vocabulary files"
            )
        return self._tokenizer

    # ------------------------------------------------------------------------------------------------ one call

    def __call__(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        labels: Tensor | dict[str, Tensor] | None = None,
        cache: KeyValueCache | None = None,
        tape: Tape | None = None,
        **refused: Any,
    ) -> Output:
        """Run the network once.

        Args:
            input_ids: token ids. [B, T]
            attention_mask: 1 for text, 0 for padding, on either side. [B, T], with a cache [B, past + T]
            token_type_ids: segment ids. [B, T]; None = all 0
            position_ids: where tokens stand. [B, T]; None = counted, without padding
            decoder_input_ids, decoder_attention_mask: the target side of an encoder-decoder. [B, T]
            labels: what the head should have said; fills `loss`. -100 does not count
            cache: extended by this call's keys and values
            tape: listens to tensors of `model.taps()`, or replaces them
        Returns: an Output with the reference library's field names, and `taps` where a tape was given.
        Raises: DataError: ids out of range, or more tokens than positions. ConfigError: shapes that do not fit.
        """
        refuse("model", refused)
        for name, ids in (("input_ids", input_ids), ("decoder_input_ids", decoder_input_ids)):
            if ids is not None:
                check_ids(name, ids, self.vocabulary)
        if token_type_ids is not None:
            segments = self.network.embedding.spec.segments
            if not segments:
                raise ConfigError(
                    f"a {self.family.model_type!r} model knows no segments; leave token_type_ids out"
                )
            check_ids("token_type_ids", token_type_ids, segments, like=input_ids)
        if position_ids is not None:
            check_ids("position_ids", position_ids, self.network.max_tokens, like=input_ids)
        if tape is not None and not isinstance(tape, Tape):
            raise ConfigError(f"tape is {shown(tape)}; it must be a Tape, such as Tape('attn.probs')")
        batch = Batch(
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            decoder_input_ids=decoder_input_ids,
            decoder_keep=keep_of("decoder_attention_mask", decoder_attention_mask, decoder_input_ids, cache),
        )
        past = cache if decoder_input_ids is None else None
        flow = Flow(
            keep=keep_of("attention_mask", attention_mask, input_ids, past),
            positions=position_ids,
            cache=cache,
            tape=tape and tape.attach(self.network),
        )
        self._look_for_first_token(input_ids, flow)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self._has_gradients):
            output: Output = self.network(batch, flow)
        if labels is not None:
            if self.network.head is None:
                raise ConfigError(
                    "labels need a head, and this model was loaded without one; load it with "
                    f"task={' or '.join(repr(task) for task in self.family.tasks if task != self.task)}"
                )
            output = replace(output, loss=self.network.head.loss(output, labels))
        return output if tape is None else replace(output, taps=tape.taps)

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
        """How many ids the embedding knows."""
        return self.network.embedding.spec.vocabulary

    # ------------------------------------------------------------------------------------------------ one verb

    def encode(self, texts: str | Sequence[str], **options: Any) -> np.ndarray:
        """Turn texts into vectors, fast; options as in `glassformer.engine.encoder.encode`.

        Returns: float32. [N, D] for a sequence of N texts, [0, D] for an empty one; [D] for a single string.
        """
        from glassformer.engine.encoder import encode

        vectors = encode(
            self.network, self.tokenizer, [texts] if isinstance(texts, str) else texts, self.folder, **options
        )
        return cast("np.ndarray", vectors[0]) if isinstance(texts, str) else vectors

    def generate(
        self,
        prompt: str | Sequence[str] | Tensor,
        *,
        attention_mask: Tensor | None = None,
        max_new_tokens: int = 20,
        use_cache: bool = True,
        **refused: Any,
    ) -> Any:
        """Continue prompts greedily: text gives text (the new part alone), ids give ids (prompt and new).

        An encoder-decoder reads the prompt and answers it; its ids begin with its start token, not with the prompt.

        Args:
            prompt: one text, several, or token ids, padded on the left. [B, T]
            attention_mask: 0 where ids are padding. [B, T]
            max_new_tokens: stop after so many, or at the end token.
            use_cache: keep keys and values between steps; the same tokens either way, faster.
        Returns: a text for a text, a list for several, ids [B, T + new] for ids.
        Raises: DataError: an empty prompt, padding on the right, or no room for so many tokens.
            UnsupportedError: the model was loaded for another task.
        """
        refuse("generate", refused)
        if isinstance(prompt, Tensor):
            return self._continue(prompt, attention_mask, max_new_tokens, use_cache)
        texts = prompts_of(prompt)
        if not texts:
            return []
        several = len(texts) > 1  # one text needs no padding, for which not every tokenizer has a token
        encoded = self.tokenizer(texts, padding=several, padding_side="left", return_tensors="pt")
        ids = encoded["input_ids"].to(self.device)
        grown = self._continue(ids, encoded["attention_mask"].to(self.device), max_new_tokens, use_cache)
        begun = 1 if self._translates else ids.shape[1]
        answers = [self.tokenizer.decode(row, skip_special_tokens=True) for row in grown[:, begun:].tolist()]
        return answers[0] if isinstance(prompt, str) else answers

    @property
    def _translates(self) -> bool:
        """Does it answer a text with another (an encoder-decoder), instead of continuing it?"""
        return self.task == "translation"

    def inspect(
        self,
        *texts: str,
        progress: Callable[[int, int], None] | None = None,
        limit_bytes: int = 2**30,
    ) -> Session:
        """Run one text, or two as a pair, and keep the pass so that all of its attention can be looked at.

        An encoder-decoder reads the first and has its decoder read the second; without one, its own answer.

        Args:
            progress: called after each block with the number done and of all.
            limit_bytes: what the session may hold beside the weights.
        Returns: a `Session`: `session.head(4, 11).probs(3)`, `session.overview(4)`, `session.states(4)`, …
        Raises: DataError: the texts are empty or too long. UnsupportedError: there is no attention to look at.
        """
        from glassformer.inspect.reading import read_texts, read_translation, start_of
        from glassformer.inspect.session import Session

        if self._translates:
            begin = start_of(self._own_ids("decoder_start_token_id") or self._own_ids("bos_token_id"))
            limit = self.network.max_tokens
            room = ANSWER_TOKENS if limit is None else min(ANSWER_TOKENS, limit - 1)  # beside the start token
            reading = read_translation(
                self.tokenizer,
                texts,
                start_id=begin,
                limit=limit,
                answer=lambda ids: self._continue(ids.to(self.device), None, room, True),
            )
        else:
            reading = read_texts(self.tokenizer, texts, segments=self.network.embedding.spec.segments)
        return Session(self.network, reading, progress=progress, limit_bytes=limit_bytes)

    def look(self, texts: str | Sequence[str], **options: Any) -> Look:
        """Look at every attention head of one text, or of two as a pair, in a browser.

            model.look(["time flies", "fruit flies"], view="head", layer=4, heads=11)
            model.look("time flies", html="page.html")          one file that needs no server

        Serves a page on this machine and opens it. A script waits there until Ctrl-C; a shell or a notebook gets its
        prompt back, and a notebook shows the page itself where the value ends a cell.

        Args:
            port: None = a free one · browser: open one; None = where there is a screen
            html: write the page there as one file instead of serving it
            view: "model", "head", "matrix" or "neuron" · layer, heads: what it shows first, counted from 0
            theme: "light" or "dark"; None = as the system · block: wait for Ctrl-C; None = in a script
        Returns: a `Look`: `.url`, `.session`, `.save(path)`, `.close()`.
        Raises: DataError: the texts are empty or too long. ConfigError: the port is taken.
            UnsupportedError: there is no attention to look at.
        """
        from glassformer.explorer import look

        return look(self, texts, **options)

    def _continue(self, ids: Tensor, mask: Tensor | None, max_new_tokens: int, cached: bool) -> Tensor:
        from glassformer.generation.greedy import greedy

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
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 0:
            raise ConfigError(
                f"max_new_tokens is {shown(max_new_tokens)}; it must be a whole number from 0 up"
            )
        if ids.dim() == 2 and ids.shape[1] == 0:
            raise DataError("the prompt is empty; give at least one token, such as the tokenizer's bos_token")
        check_ids("input_ids", ids, self.vocabulary)
        keep = keep_of("attention_mask", mask, ids, None)
        source = None
        if self._translates:
            source = Batch(input_ids=ids)
            begin = self._own_ids("decoder_start_token_id") or self._own_ids("bos_token_id")
            if not begin:
                raise ConfigError(
                    "config.json names no decoder_start_token_id, with which a translation begins"
                )
            ids = torch.full((len(ids), 1), begin[0], device=ids.device)
        elif keep is not None:
            check_prompts_end(keep)
        check_room(ids.shape[1], max_new_tokens, self.network.max_tokens)
        stops = self._own_ids("eos_token_id")
        return greedy(
            self.network,
            ids,
            keep=None if keep is None or source else keep[:, 0],
            memory_of=source,
            memory_keep=keep,
            max_new_tokens=max_new_tokens,
            stop_ids=stops,
            pad_id=next(iter(self._own_ids("pad_token_id") + stops), 0),
            cached=cached,
        )

    def _own_ids(self, key: str) -> tuple[int, ...]:
        """The token ids that the config names, one or several; ids without a row (-1 is usual) mean none."""
        named = self.config.get(key)
        ids = [] if named is None else named if isinstance(named, list) else [named]
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in ids):
            raise ConfigError(
                f"config.json: {key} is {shown(named)}; it must be a token id, a list of them, or null"
            )
        return tuple(number for number in ids if 0 <= number < self.vocabulary)

    def prepare(self, precision: str = "fp32") -> Self:
        """Take on packed weights for fast inference, in a named precision: "fp32", "bf16" or "int8"."""
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
        """Write config, weights and tokenizer in the Hugging Face layout; the reference library loads it."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise WeightsError(f"{folder}: is a file; give a folder to write the model to")
        bare = self.task == "feature-extraction"
        tensors = gather(self.network, self.family.names(self.spec, self.task), prefixed=not bare)
        write_checkpoint(folder, tensors, max_shard_bytes=max_shard_bytes)
        dtype = str(self.dtype).removeprefix("torch.")
        own = {key: value for key, value in self.config.items() if key not in ("torch_dtype", "dtype")}
        write_json(
            folder / "config.json",
            {**own, "architectures": [self.family.architecture(self.task)], "dtype": dtype},
        )
        if self._tokenizer is not None:
            self._tokenizer.save(folder)

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


def _family(config: Mapping[str, Any], folder: Path | None) -> Family:
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        where = f"{folder / 'config.json'}: " if folder else ""
        raise UnsupportedError(
            f"{where}model_type {shown(kind)} is not supported; supported: {', '.join(FAMILIES)}"
            f"{nearest(kind, FAMILIES) if isinstance(kind, str) and len(kind) < 100 else ''}"
        )
    return FAMILIES[kind]


def _task(family: Family, config: Mapping[str, Any], asked: str | None) -> tuple[str, bool]:
    """The task of the head, asked for or named by the config; and whether the checkpoint has that very head.

    A config that names no architecture describes the family's bare body.
    """
    named = config.get("architectures") or [next(iter(family.architectures))]
    first = named[0] if isinstance(named, list) and isinstance(named[0], str) else None
    own = None if first is None else family.architectures.get(first)
    if asked is not None:
        task = family.task(asked)
        return task, task == own
    if own is None:
        raise UnsupportedError(
            f"config.json: architectures = {shown(named)} is not supported; a {family.model_type!r} model can be: "
            f"{', '.join(family.architectures)}; to load its body with one of their heads, give "
            f"task={' or '.join(map(repr, family.tasks))}"
        )
    return own, True
