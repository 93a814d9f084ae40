"""Output of `generate` by the names of Hugging Face transformers: scores and logits of steps, and tensors of layers.

generate(ids, return_dict_in_generate=True, output_scores=True)      a `GenerateOutput`
compute_transition_scores(output.sequences, output.scores)           the score of each token that was chosen
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from glassformer.call import layer_taps
from glassformer.core.flow import Tape
from glassformer.errors import DataError
from glassformer.generation.decoding import Generated
from glassformer.generation.filters import Filter
from glassformer.generation.rows import Rows
from glassformer.models import Network


class ScoreRecorder:
    """Records logits on their way through the filters, and changes nothing.

    scores: after the filters, raw: before them; one tensor [R, V] a step; None = not recorded
    flags: which tensors of each layer are wanted too, "hidden_states" or "attentions"
    """

    def __init__(self, scores: bool, raw: bool, **flags: bool) -> None:
        self.scores: list[Tensor] | None = [] if scores else None
        self.raw: list[Tensor] | None = [] if raw else None
        self.flags = flags
        self._layers: dict[str, tuple[str, ...]] = {}

    def tape(self, network: Network) -> Tape | None:
        """What records the layers of a network; None = nothing of them is wanted."""
        self._layers = layer_taps(network, **self.flags) if any(self.flags.values()) else {}
        return Tape(*dict.fromkeys(tap for taps in self._layers.values() for tap in taps)) if self._layers else None

    def around(self, filters: list[Filter]) -> list[Filter]:
        """The filters, between those that record."""
        return [*_recording(self.raw), *filters, *_recording(self.scores)]

    def output(self, generated: Generated, rows: Rows) -> GenerateOutput:
        """What the reference library returns."""
        beams = generated.scores if generated.beams is not None else None
        layers: dict[str, Any] = {}
        for name, taps in self._layers.items():
            encoder = name.startswith("encoder_")
            passes = [rows.encoded] * bool(rows.encoded) if encoder else rows.steps
            steps = tuple(tuple(each[tap].clone() for tap in taps) for each in passes)
            if steps and not encoder and generated.beams:
                count = generated.beams[0].tokens.numel()
                steps = tuple(tuple(_by_beam(x, count, number) for x in step) for number, step in enumerate(steps))
            layers[name] = (steps[0] if steps else None) if encoder else steps
        scores, raw = _steps(self.scores), _steps(self.raw)
        return GenerateOutput(generated.ids, beams, scores, raw, generated.beam_rows, **layers)


def _by_beam(recorded: Tensor, beams: int, step: int) -> Tensor:
    """A tensor with a row for each of all beams: of prompts, read once, then of beams that share a source's row."""
    each = beams // len(recorded)
    if step == 0:
        return recorded.repeat_interleave(each, dim=0)
    return recorded if each == 1 else recorded.unflatten(2, (each, -1)).transpose(1, 2).flatten(0, 1)


def _steps(recorded: list[Tensor] | None) -> tuple[Tensor, ...] | None:
    return None if recorded is None else tuple(step.clone() for step in recorded)


def _recording(steps: list[Tensor] | None) -> Iterator[Filter]:
    def record(ids: Tensor, logits: Tensor) -> Tensor:
        assert steps is not None
        steps.append(logits)
        return logits

    if steps is not None:
        yield record


@dataclass(frozen=True, eq=False)
class GenerateOutput(Mapping[str, Any]):
    """What `generate` returns with return_dict_in_generate=True: a mapping, under the reference library's names.

    sequences: prompts, or an encoder-decoder's start tokens, and the new tokens. [R, T + new]
    sequences_scores: scores of beams. [R]
    scores: logits of each step after the filters, of beams log-probabilities;
    logits: before them. [R, V] a step
    beam_indices: the row of a step's scores that each token was chosen from, -1 after the end [R, new]
    others: of each step, the tensors of each layer, as a model's call has them; of the encoder, those of its one pass
    """

    sequences: Tensor
    sequences_scores: Tensor | None = None
    scores: tuple[Tensor, ...] | None = None
    logits: tuple[Tensor, ...] | None = None
    beam_indices: Tensor | None = None
    encoder_attentions: tuple[Tensor, ...] | None = None
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    decoder_attentions: tuple[tuple[Tensor, ...], ...] | None = None
    cross_attentions: tuple[tuple[Tensor, ...], ...] | None = None
    decoder_hidden_states: tuple[tuple[Tensor, ...], ...] | None = None
    attentions: tuple[tuple[Tensor, ...], ...] | None = None
    hidden_states: tuple[tuple[Tensor, ...], ...] | None = None

    def _present(self) -> dict[str, Any]:
        return {x.name: value for x in fields(self) if (value := getattr(self, x.name)) is not None}

    def __getitem__(self, key: str | int) -> Any:
        present = self._present()
        return present[key] if isinstance(key, str) else tuple(present.values())[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._present())

    def __len__(self) -> int:
        return len(self._present())


def transition_scores(
    sequences: Tensor, scores: Sequence[Tensor], beam_indices: Any = None, normalize: bool = False
) -> Tensor:
    """The score of each new token: that of its step's scores at its own id. [R, new]

    Args:
        sequences: [R, T + new]
        scores: [R, V] a step
        beam_indices: of a `GenerateOutput` of beams [R, new]
        normalize: logits to log-probabilities first
    Raises: DataError: rows that do not fit the scores.
    """
    steps = torch.stack(list(scores))  # [new, R, V]
    steps = steps.log_softmax(-1) if normalize else steps
    count = len(steps) if beam_indices is None else beam_indices.shape[1]
    rows = steps.shape[1] if beam_indices is None else len(beam_indices)
    if rows != len(sequences) or not count <= sequences.shape[1] or count > len(steps):
        raise DataError(
            f"sequences are {list(sequences.shape)}, scores {list(steps.transpose(0, 1).shape)}; give those of one call"
        )
    tokens = sequences[:, sequences.shape[1] - count :]
    chosen = torch.arange(rows, device=tokens.device)[:, None].expand(rows, count)
    chosen = chosen if beam_indices is None else beam_indices
    picked: Tensor = steps[torch.arange(count, device=tokens.device), chosen.clamp(min=0), tokens]
    return picked.masked_fill(chosen < 0, 0.0)
