"""The batches that both sides are given: texts, texts in pairs, pictures, sounds; and labels for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.language_heads import next_token_labels
from glassformer.models import FAMILIES
from tests.senses import draw_boxes, draw_fields, frames_seen, network_of, senses

HIDDEN_ID = 0  # padding in all tiny configs
DECODERS_ALONE = {"bart", "marian", "mbart", "pegasus"}
TOLD_NO_POSITIONS = {
    *DECODERS_ALONE,
    "dpr",
    "lxmert",
    "tapas",
}  # whose reference counts padding: it takes none, or counts them in each cell
BY_IDS = {
    "camembert",
    "mpnet",
    "roberta",
    "xlm-roberta",
}  # whose positions count all ids but padding's, and begin behind it


@dataclass(frozen=True)
class Inputs:
    """One batch: three texts of different lengths, or of one where nothing is padded."""

    ids: Tensor
    keep: Tensor
    token_types: Tensor | None
    padding: int | None = None  # the id that takes no position, where positions are counted by ids
    beside: Mapping[str, Tensor] = field(default_factory=dict)  # what else is read: boxes, regions of a picture

    @property
    def positions(self) -> Tensor:
        """Our rule, told to the reference: padding is not counted, and has the position of its place.

        Where positions are counted by ids, the rule is the reference's.
        """
        if self.padding is not None:
            text = self.ids != self.padding
            return torch.where(text, text.long().cumsum(-1) - 1, -1)
        counted = self.keep.long().cumsum(-1) - 1
        return torch.where(self.keep, counted, torch.arange(self.keep.shape[1]).clamp(max=counted.amax().clamp(min=0)))

    @property
    def ours(self) -> dict[str, Any]:
        given = {"input_ids": self.ids, "attention_mask": self.keep.long(), **self.beside}
        return given if self.token_types is None else {**given, "token_type_ids": self.token_types}

    @property
    def theirs(self) -> dict[str, Any]:
        return self.ours if self.padding is not None else {**self.ours, "position_ids": self.positions}

    @property
    def first(self) -> int:
        """The number that the reference gives to the first position."""
        return 0 if self.padding is None else self.padding + 1

    def right(self) -> Inputs:
        """The same texts, padded on the right."""
        token_types = None if self.token_types is None else pushed_left(self.token_types, self.keep)
        beside = {
            name: pushed_left(x, self.keep) if x.shape[:2] == self.keep.shape else x for name, x in self.beside.items()
        }
        ids, keep = pushed_left(self.ids, self.keep), pushed_left(self.keep, self.keep)
        return replace(self, ids=ids, keep=keep, token_types=token_types, beside=beside)

    def seen(self, field: str) -> Tensor:
        """Which places of a field of our output are text. [B, T] bool"""
        return self.keep

    def seen_there(self, field: str) -> Tensor:
        """The same for theirs."""
        return self.seen(field)


class Twice(Inputs):
    """For a reference that counts padding, and cannot be told not to: it gets its texts padded on the right."""

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
    def read(self) -> dict[str, Any]:
        """What the encoder is given."""
        return {"input_ids": self.source, "attention_mask": self.source_keep.long()}

    @property
    def ours(self) -> dict[str, Any]:
        return {**self.read, "decoder_input_ids": self.ids, "decoder_attention_mask": self.keep.long()}

    @property
    def theirs(self) -> dict[str, Any]:
        return self.right().ours

    def right(self) -> Pairs:
        return replace(
            self,
            ids=pushed_left(self.ids, self.keep),
            keep=pushed_left(self.keep, self.keep),
            source=pushed_left(self.source, self.source_keep),
            source_keep=pushed_left(self.source_keep, self.source_keep),
        )

    def seen(self, field: str) -> Tensor:
        return self.source_keep if field.startswith("encoder") else self.keep

    def seen_there(self, field: str) -> Tensor:
        return self.right().seen(field)


class Transcripts(Pairs):
    """Pairs whose source is a spectrogram [B, M, frames], all of it heard: `source_keep` is of what becomes of it."""

    @property
    def read(self) -> dict[str, Any]:
        return {"input_features": self.source}

    def right(self) -> Transcripts:
        ids, keep = pushed_left(self.ids, self.keep), pushed_left(self.keep, self.keep)
        return replace(self, ids=ids, keep=keep)


@dataclass(frozen=True)
class Sensed:
    """Three pictures or sounds, with texts next to them where the model reads both.

    keep: which patches or frames of their states are real. [B, T] bool; [B, 1] where all are
    """

    given: Mapping[str, Tensor]
    keep: Tensor

    @property
    def ours(self) -> dict[str, Any]:
        return dict(self.given)

    theirs = ours

    def right(self) -> Sensed:
        """Nothing is padded on the left."""
        return self

    def seen(self, field: str) -> Tensor:
        """Which places of a field of the output are real. [B, T] bool"""
        return self.keep

    seen_there = seen


def pushed_left(x: Tensor, keep: Tensor) -> Tensor:
    """The columns of each row of x [B, T, …] that `keep` shows first, then the others."""
    order = (~keep).int().argsort(dim=1, stable=True)
    return x[torch.arange(len(x))[:, None], order]


def draw_inputs(config: Mapping[str, Any], padding: str, *, tokens: int = 11, seed: int = 3) -> Any:
    """A batch for the model that a config describes, with padding "none", "right" or "left"."""
    network = network_of(config)
    if senses(network) and "decoder_input_ids" not in network.READS:
        return draw_sensed(config, network.READS, padding, tokens)
    ids, keep = draw_texts(config["vocab_size"], padding, tokens, seed)
    if config["model_type"] == "clip_text_model":  # the state of the highest id represents the text
        ids = ended(ids.clamp(max=config["vocab_size"] - 2), keep, config["vocab_size"] - 1)
    if "decoder_input_ids" in network.READS:
        task = FAMILIES[config["model_type"]].architectures[config["architectures"][0]]
        if task in ("text-classification", "question-answering"):
            return Twice(ended(ids, keep, config["eos_token_id"]), keep, None)
        if senses(network):
            features = draw_fields(config, network.READS, len(ids))["input_features"]
            heard = torch.ones(len(ids), config["max_source_positions"], dtype=torch.bool)
            return Transcripts(ids=ids, keep=keep, token_types=None, source=features, source_keep=heard)
        source = draw_source(config, padding, tokens + 2)
        return Pairs(ids=ids, keep=keep, token_types=None, source=source.ids, source_keep=source.keep)
    draw = torch.Generator().manual_seed(seed + 1)
    counts = network.token_types
    columns = [
        torch.randint(0, count, ids.shape, generator=draw)
        for count in ([counts] if isinstance(counts, int) else counts)
        if count
    ]
    token_types = None if not columns else columns[0] if isinstance(counts, int) else torch.stack(columns, -1)
    if isinstance(counts, tuple) and token_types is not None:
        token_types = token_types * keep[..., None]  # padding stands in no cell
    beside = draw_fields(config, network.READS, len(ids))
    if "bbox" in network.READS:
        beside["bbox"] = draw_boxes(config, *ids.shape)
    by_ids = config["pad_token_id"] if config["model_type"] in BY_IDS else None
    ids = ids if by_ids is None else ids.where(keep, by_ids)
    kind = Twice if config["model_type"] in TOLD_NO_POSITIONS else Inputs
    return kind(ids, keep, token_types, by_ids, beside)


def draw_texts(vocabulary: int, padding: str, tokens: int, seed: int = 3) -> tuple[Tensor, Tensor]:
    """Random ids of three texts, and which of them are text. [3, tokens] each"""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([tokens, tokens - 4, 2] if padding != "none" else [tokens] * 3)
    places = torch.arange(tokens)[None]
    keep = places >= tokens - lengths[:, None] if padding == "left" else places < lengths[:, None]
    ids = torch.randint(1, vocabulary, (3, tokens), generator=draw)  # 0 hides
    return ids.where(keep, HIDDEN_ID), keep


def draw_sensed(config: Mapping[str, Any], reads: tuple[str, ...], padding: str, tokens: int) -> Sensed:
    """Pictures or sounds, and texts if they are read too; a wave may be padded on the right."""
    given, all_real = draw_fields(config, reads, 3), torch.ones(3, 1, dtype=torch.bool)
    if "input_ids" in reads:
        text = {**config, **config.get("text_config", {})}
        ids, keep = draw_texts(text["vocab_size"], padding, tokens)
        highest = text["vocab_size"] - 1  # which ends a text where no end token is named
        ids = ended(ids.clamp(max=highest - 2), keep, highest - 1)
        ids[:, -2].masked_fill_(keep[:, -2], highest)
        return Sensed({**given, "input_ids": ids, "attention_mask": keep.long()}, all_real)
    if "input_values" not in reads:
        return Sensed(given, all_real)
    samples = given["input_values"].shape[1]
    if padding == "none":
        return Sensed(given, frames_seen(config, torch.ones(3, samples)))
    keep = torch.arange(samples)[None] < torch.tensor([samples, samples - 300, samples // 2])[:, None]
    wave = given["input_values"].where(keep, 0.0)
    return Sensed({"input_values": wave, "attention_mask": keep.long()}, frames_seen(config, keep))


def draw_source(config: Mapping[str, Any], padding: str, tokens: int) -> Inputs:
    """What an encoder reads: drawn as for an encoder alone, of other lengths than the target."""
    return Inputs(*draw_texts(config["vocab_size"], padding, tokens, seed=4), None)


def ended(ids: Tensor, keep: Tensor, end_id: int) -> Tensor:
    """The same texts with an end token as the last visible one, and nowhere else."""
    others = ids.where(ids != end_id, end_id + 1)
    places = torch.arange(ids.shape[1]) * keep
    return others.masked_fill(places == places.amax(dim=1, keepdim=True).where(keep, -1), end_id)


def draw_labels(task: str, inputs: Any, config: Mapping[str, Any], *, seed: int = 5) -> Any:
    """Labels for a head: (what we take, the reference's keywords); None where it has no loss."""
    draw = torch.Generator().manual_seed(seed)
    (B, T), keep = inputs.keep.shape, inputs.keep

    def number(below: int, *shape: int) -> Tensor:
        return torch.randint(0, below, shape, generator=draw)

    seen = keep & keep.roll(1, dims=1)  # not the first token after padding: nothing visible predicts it
    seen[:, 0] = keep[:, 0]
    written = config.get("vocab_size", 2) - (config["model_type"] == "imagegpt")  # its start token is never written
    words = number(written, B, T).where(seen & (number(4, B, T) > 0), -100)
    kinds = len(config.get("id2label", (0, 1)))
    one = {
        "text-generation": words,
        "fill-mask": words,
        "next-sentence-prediction": number(2, B),
        "text-classification": number(kinds, B),
        "image-classification": number(kinds, B),
        "audio-classification": number(kinds, B),
        "token-classification": number(kinds, B, T).where(keep, -100),
        "replaced-token-detection": number(2, B, T).where(keep, -100),
        "visual-question-answering": number(config.get("num_qa_labels", 2), B),
    }
    if task == "text-generation" and config["model_type"] in DECODERS_ALONE:  # theirs are shifted by the caller
        return words, {"labels": next_token_labels(words)}
    if task in one:
        return one[task], {"labels": one[task]}
    if task == "zero-shot-image-classification":
        return torch.arange(B), {"return_loss": torch.tensor(True)}
    if task == "automatic-speech-recognition" and isinstance(inputs, Sensed):  # CTC: shorter than the frames
        transcript = 1 + number(config["vocab_size"] - 1, B, 4)
        transcript[1:, 3] = -100
        return transcript, {"labels": transcript}
    if task == "audio-frame-classification":  # theirs: several labels a frame, of which the first counts
        kind = number(kinds, B, T)
        return kind, {"labels": nn.functional.one_hot(kind, kinds)}
    if task in ("translation", "automatic-speech-recognition"):
        return words, {"labels": pushed_left(words, keep)}
    if task == "pre-training" and "visual_feats" in inputs.beside:
        regions = {
            "obj": number(config["num_object_labels"], B, 5),
            "attr": number(config["num_attr_labels"], B, 5),
            "feat": torch.randn(B, 5, config["visual_feat_dim"], generator=draw),
        }
        sure = torch.rand(B, 5, generator=draw)
        labels = {
            "labels": words,
            "matched_label": number(2, B),
            "ans": number(config["num_qa_labels"], B),
            "obj_labels": {name: (wanted, sure) for name, wanted in regions.items()},
        }
        return labels, labels
    several = {
        "pre-training": {"labels": words, "next_sentence_label": number(2, B)},
        "sentence-order-pre-training": {"labels": words, "sentence_order_label": number(2, B)},
        "table-question-answering": {"labels": number(2, B, T) * keep, "aggregation_labels": number(3, B)},
        "question-answering": {"start_positions": number(T, B), "end_positions": torch.tensor([1, T + 3, 0])},
    }
    return (several[task], several[task]) if task in several else None
