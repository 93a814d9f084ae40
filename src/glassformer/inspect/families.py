"""How each family is made of the parts: norms, positions, attention, feed-forward, and what it alone does.

Everything but the last is read off the family's own spec, so it says what the code does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import nn

from glassformer.core import positions
from glassformer.core.patches import Patches
from glassformer.core.specs import (
    AttentionSpec,
    BlockSparseAttentionSpec,
    BlockSpec,
    ExpertsSpec,
    FeedForwardSpec,
    GatedFeedForwardSpec,
    LayerNormSpec,
    NormSpec,
    ParallelBlockSpec,
    StackSpec,
)
from glassformer.models import FAMILIES, Family, Network, Reader

POSITIONS: dict[type[nn.Module], str] = {
    positions.LearnedPositions: "learned",
    Patches: "learned",
    positions.Sinusoidal: "waves",
    positions.HalvedSinusoidal: "waves",
    positions.Rotary: "rotary",
    positions.BucketedBias: "bucketed bias",
    positions.ConvolvedPositions: "convolution",
}


MARKS = (
    "<!-- families: python -m glassformer.inspect.families writes what stands below -->",
    "<!-- end of families -->",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kinship:
    """One family's line of the table.

    reads: what goes in · norms, positions, attention, feed_forward: the parts it is made of
    oddity: what no other family does, in its recipe's words · tasks: what it has heads for
    """

    family: str
    reads: str
    norms: str
    positions: str
    attention: str
    feed_forward: str
    oddity: str
    tasks: tuple[str, ...]


def kinships(families: Iterable[Family] = FAMILIES.values()) -> list[Kinship]:
    """The table, a line a family, from the networks that the families' smallest configs describe."""
    return [_kinship(family) for family in families]


def as_markdown(lines: Sequence[Kinship]) -> str:
    """The table as docs/families.md has it."""
    head = "| family | reads | norms | positions | attention | feed-forward | its own |"
    rows = [
        f"| `{x.family}` | {x.reads} | {x.norms} | {x.positions} | {x.attention} | {x.feed_forward} | {x.oddity} |"
        for x in lines
    ]
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- | --- |", *rows])


def _kinship(family: Family) -> Kinship:
    network = family.blank(family.spec(Reader(family.tiny)), family.tasks[0])
    stacks = {side: stack.spec for side, stack in network.sides().items()}
    blocks = {side: list(spec.blocks) for side, spec in stacks.items()}
    return Kinship(
        family=family.model_type,
        reads=_reads(network, family),
        norms=_joined({side: [_norms(block) for block in found] for side, found in blocks.items()}),
        positions=", ".join(dict.fromkeys(_positions(network))) or "none",
        attention=_joined(
            {side: [_attention(block, stacks[side]) for block in found] for side, found in blocks.items()}
        ),
        feed_forward=_joined(
            {side: [_feed_forward(block.feed_forward) for block in found] for side, found in blocks.items()}
        ),
        oddity=family.oddity,
        tasks=family.tasks,
    )


def _reads(network: Network, family: Family) -> str:
    colours = family.opens == "picture" and "pixel_values" not in network.READS
    words = {
        "input_ids": "colours of a picture" if colours else "text",
        "bbox": "boxes of words",
        "pixel_values": "pictures",
        "input_values": "waves",
        "input_features": "spectrograms",
        "visual_feats": "regions of a picture",
    }
    read = ", ".join(word for field, word in words.items() if field in network.READS)
    return f"{read} → text" if "decoder_input_ids" in network.READS else read


def _positions(network: Network) -> Iterable[str]:
    return (POSITIONS[type(module)] for module in network.modules() if type(module) in POSITIONS)


def _norms(block: BlockSpec | ParallelBlockSpec) -> str:
    if isinstance(block, ParallelBlockSpec):
        return f"one {_norm(block.norm)} before both"
    slots = {"before": block.before, "after": block.after, "on the stream": block.on_residual}
    return ", ".join(f"{_norm(norm)} {slot}" for slot, norm in slots.items() if norm is not None)


def _norm(norm: NormSpec) -> str:
    return "LayerNorm" if isinstance(norm, LayerNormSpec) else "RMSNorm"


def _attention(block: BlockSpec | ParallelBlockSpec, stack: StackSpec) -> str:
    spec: AttentionSpec = block.attention
    words = ["causal" if spec.causal else "both ways"]
    if isinstance(spec, BlockSparseAttentionSpec):
        words.append("blocks")
    if spec.window is not None:
        words.append("window")
    if spec.heads != spec.K:
        words.append("shared keys")
    if spec.scale is not None and not math.isclose(spec.scale, spec.E**-0.5):
        words.append("unscaled" if spec.scale == 1 else "scale of its own")
    if not spec.bias:
        words.append("no bias")
    if isinstance(block, BlockSpec) and block.cross is not None:
        words.append("cross")
    return ", ".join(words)


def _feed_forward(spec: FeedForwardSpec | GatedFeedForwardSpec | ExpertsSpec) -> str:
    if isinstance(spec, ExpertsSpec):
        return f"{spec.chosen} of {spec.experts} experts, {_feed_forward(spec.expert)}"
    return f"gated {spec.activation}" if isinstance(spec, GatedFeedForwardSpec) else spec.activation


def _joined(sides: dict[str, list[str]]) -> str:
    """What the layers of each side say; said once where all say the same."""
    said = {side: " / ".join(dict.fromkeys(words)) for side, words in sides.items()}
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return "; ".join(f"{side}: {words}" for side, words in said.items())


def written_into(page: str) -> str:
    """A page of docs with the table between its marks."""
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{as_markdown(kinships())}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    from pathlib import Path

    page = Path("docs/families.md")
    page.write_text(written_into(page.read_text("utf-8")), "utf-8")
