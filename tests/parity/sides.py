"""The two sides of a comparison: making a checkpoint with the reference library, and running both on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers
from torch import Tensor, nn
from transformers.core_model_loading import revert_weight_conversion

import glassformer
from glassformer import Model
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Tape
from glassformer.evaluation.parity import widened
from glassformer.models import FAMILIES
from tests.parity.families import Row

PRECISIONS = [torch.float32, torch.float64]
HIDDEN_ID = 0  # padding in all tiny configs
BEHIND_PADDING = {"roberta", "xlm-roberta"}  # whose positions begin behind the number of padding

Folders = Callable[..., Path]


def make(
    row: Row,
    architecture: str,
    folder: Path,
    *,
    as_written: bool = False,
    dtype: torch.dtype = torch.float32,
    **changes: Any,
) -> Path:
    """A checkpoint of the reference library, every parameter of it perturbed.

    as_written: config.json holds our sparse config in its own spelling, not the library's full one.
    """
    torch.manual_seed(7)
    config = row.config(**changes)
    kind = getattr(transformers, architecture)
    model = kind(kind.config_class.from_dict(dict(config)))
    perturb(model)
    model.to(dtype).save_pretrained(folder)
    if as_written:
        write_config(folder, {**config, "architectures": [architecture]})
    return folder


def perturb(model: nn.Module, size: float = 0.25) -> None:
    """Move every saved number that is not fixed: fresh biases are 0 and gains 1, and would hide a swap or a loss."""
    saved = model.state_dict()
    constants = [x for name, x in model.named_buffers() if name in saved and x.is_floating_point()]
    with torch.no_grad():
        for tensor in (*(x for x in model.parameters() if x.requires_grad), *constants):
            tensor += torch.randn_like(tensor) * size


def read_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(config))


# ------------------------------------------------------------------------------------------------------- loading


def load_theirs(
    folder: Path, row: Row, dtype: torch.dtype = torch.float32, attention: str = "eager"
) -> nn.Module:
    """The reference's model of a folder; every tensor must have found its place."""
    architecture = read_config(folder)["architectures"][0]
    with lifted(row, dtype):
        model, report = getattr(transformers, architecture).from_pretrained(
            folder,
            local_files_only=True,
            dtype=dtype,
            attn_implementation=attention if row.reference_fuses else "eager",
            experts_implementation="eager",  # the grouped product has no fp64
            output_loading_info=True,
        )
    computed = {f"{prefix}{name}" for name in row.computed for prefix in ("", f"{row.prefix}.")}
    assert not any(set(names) - computed for names in report.values()), report
    if dtype == torch.float64:
        unround_waves(model)
    eval_mode: nn.Module = model.eval()
    return eval_mode


def unround_waves(model: nn.Module) -> None:
    """Fill tables of waves by the reference's own formula, which rounds its answer to fp32, once more without that."""
    with patch.object(torch, "FloatTensor", torch.DoubleTensor), torch.no_grad():
        for module in model.modules():
            if hasattr(module, "create_weight"):
                module.weight.copy_(module.create_weight())


def load_ours(folder: Path, dtype: torch.dtype = torch.float32, **options: Any) -> Model:
    """Our model of the same folder; `strict`, so that no tensor is left over."""
    model = glassformer.load(folder, dtype=dtype, strict=True, offline=True, **options)
    assert not model.report.new and not model.report.warnings, model.report
    return model


def as_saved(theirs: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The reference's tensors under the names and in the layout of its files, which are not those of its modules."""
    saved: dict[str, Tensor] = revert_weight_conversion(theirs, dict(tensors))
    return saved


def lifted(row: Row, dtype: torch.dtype) -> Any:
    """Within it, the reference computes wholly in fp64 where that was asked for and can be had."""
    return widened(dtype) if row.lifted else nullcontext()


def tolerance(row: Row, dtype: torch.dtype) -> float:
    return row.fp64 if dtype == torch.float64 else row.fp32


def close(ours: Tensor, theirs: Tensor, within: float, what: str = "") -> None:
    torch.testing.assert_close(
        ours, theirs.to(ours.dtype), atol=within, rtol=within, msg=lambda text: f"{what}: {text}"
    )


# -------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True)
class Inputs:
    """One batch: three texts of different lengths, or of one where nothing is padded."""

    ids: Tensor
    keep: Tensor
    segments: Tensor | None
    first: int = 0  # the number that the reference gives to the first position

    @property
    def positions(self) -> Tensor:
        """Our rule, told to the reference: padding is not counted."""
        return (self.keep.long().cumsum(-1) - 1).clamp(min=0)

    @property
    def ours(self) -> dict[str, Any]:
        given = {"input_ids": self.ids, "attention_mask": self.keep.long()}
        return given if self.segments is None else {**given, "token_type_ids": self.segments}

    @property
    def theirs(self) -> dict[str, Any]:
        return {**self.ours, "position_ids": self.positions + self.first}

    def right(self) -> Inputs:
        """The same texts, padded on the right."""
        segments = None if self.segments is None else pushed_left(self.segments, self.keep)
        return Inputs(
            pushed_left(self.ids, self.keep), pushed_left(self.keep, self.keep), segments, self.first
        )

    def seen(self, field: str) -> Tensor:
        """Which places of a field of our output are text. [B, T] bool"""
        return self.keep

    def seen_there(self, field: str) -> Tensor:
        """The same for theirs."""
        return self.seen(field)


class Twice(Inputs):
    """For an encoder-decoder that reads its source a second time; theirs knows padding on the right alone."""

    @property
    def theirs(self) -> dict[str, Any]:
        return self.right().ours

    def seen_there(self, field: str) -> Tensor:
        return self.right().seen(field)


@dataclass(frozen=True, kw_only=True)
class Pairs(Inputs):
    """For an encoder-decoder: `ids` and `keep` are the target's. Theirs counts padding, so it gets none on the left."""

    source: Tensor
    source_keep: Tensor

    @property
    def ours(self) -> dict[str, Any]:
        return {
            "input_ids": self.source,
            "attention_mask": self.source_keep.long(),
            "decoder_input_ids": self.ids,
            "decoder_attention_mask": self.keep.long(),
        }

    @property
    def theirs(self) -> dict[str, Any]:
        return self.right().ours

    def right(self) -> Pairs:
        return Pairs(
            ids=pushed_left(self.ids, self.keep),
            keep=pushed_left(self.keep, self.keep),
            segments=None,
            source=pushed_left(self.source, self.source_keep),
            source_keep=pushed_left(self.source_keep, self.source_keep),
        )

    def seen(self, field: str) -> Tensor:
        return self.source_keep if field.startswith("encoder") else self.keep

    def seen_there(self, field: str) -> Tensor:
        return self.right().seen(field)


def pushed_left(x: Tensor, keep: Tensor) -> Tensor:
    """The columns of each row of x [B, T] that `keep` shows first, then the others."""
    return x.gather(1, (~keep).int().argsort(dim=1, stable=True))


def draw_inputs(config: Mapping[str, Any], padding: str, *, tokens: int = 11, seed: int = 3) -> Inputs:
    """Random ids, with padding "none", "right" or "left"."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([tokens, tokens - 4, 2] if padding != "none" else [tokens] * 3)
    places = torch.arange(tokens)[None]
    keep = places >= tokens - lengths[:, None] if padding == "left" else places < lengths[:, None]
    ids = torch.randint(1, config["vocab_size"], (3, tokens), generator=draw)  # 0 hides
    count = config.get("type_vocab_size", 2 if config["model_type"] == "bert" else 0)
    segments = torch.randint(0, count, (3, tokens), generator=draw) if count else None
    ids = ids.where(keep, HIDDEN_ID)
    tasks = FAMILIES[config["model_type"]].architectures
    if "translation" not in tasks.values():
        first = config["pad_token_id"] + 1 if config["model_type"] in BEHIND_PADDING else 0
        return Inputs(ids, keep, segments, first)
    if tasks[config["architectures"][0]] in ("text-classification", "question-answering"):
        return Twice(ended(ids, keep, config["eos_token_id"]), keep, None)
    source = draw_source(config, padding, tokens + 2)
    return Pairs(ids=ids, keep=keep, segments=None, source=source.ids, source_keep=source.keep)


def draw_source(config: Mapping[str, Any], padding: str, tokens: int) -> Inputs:
    """What an encoder reads: drawn as for an encoder alone, of other lengths than the target."""
    return draw_inputs(
        {"model_type": "gpt2", "vocab_size": config["vocab_size"]}, padding, tokens=tokens, seed=4
    )


def ended(ids: Tensor, keep: Tensor, end_id: int) -> Tensor:
    """The same texts with an end token as the last visible one, and nowhere else."""
    others = ids.where(ids != end_id, end_id + 1)
    places = torch.arange(ids.shape[1]) * keep
    return others.masked_fill(places == places.amax(dim=1, keepdim=True).where(keep, -1), end_id)


def draw_labels(task: str, inputs: Inputs, config: Mapping[str, Any], *, seed: int = 5) -> Any:
    """Labels for a head: (what we take, the reference's keywords); None where it has no loss."""
    draw = torch.Generator().manual_seed(seed)
    (B, T), keep = inputs.ids.shape, inputs.keep

    def number(below: int, *shape: int) -> Tensor:
        return torch.randint(0, below, shape, generator=draw)

    seen = keep & keep.roll(1, dims=1)  # not the first token after padding: nothing visible predicts it
    seen[:, 0] = keep[:, 0]
    words = number(config["vocab_size"], B, T).where(seen & (number(4, B, T) > 0), -100)
    kinds = len(config.get("id2label", (0, 1)))
    one = {
        "text-generation": words,
        "fill-mask": words,
        "next-sentence-prediction": number(2, B),
        "text-classification": number(kinds, B),
        "token-classification": number(kinds, B, T).where(keep, -100),
    }
    if task in one:
        return one[task], {"labels": one[task]}
    if task == "translation":
        return words, {"labels": pushed_left(words, keep)}
    several = {
        "pre-training": {"labels": words, "next_sentence_label": number(2, B)},
        "question-answering": {"start_positions": number(T, B), "end_positions": torch.tensor([1, T + 3, 0])},
    }
    return (several[task], several[task]) if task in several else None


# -------------------------------------------------------------------------------------------------------- running


def cached(model: Model, inputs: Inputs, chunks: list[int], tape: Tape | None = None) -> Tensor:
    """Our logits when the batch is fed in chunks over a cache. [B, T, V]"""
    cache, parts, end = KeyValueCache(block_tokens=4), [], 0
    for chunk in chunks:
        start, end = end, end + chunk
        output = model(inputs.ids[:, start:end], inputs.keep[:, :end].long(), cache=cache, tape=tape)
        assert output.logits is not None
        parts.append(output.logits)
    return torch.cat(parts, dim=1)
