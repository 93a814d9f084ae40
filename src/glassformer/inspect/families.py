"""Table of model families: norms, positions, attention, feed-forward, and what distinguishes each.

All but the last are derived from the family's spec, so that the table agrees with the code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec, ParallelBlockSpec
from glassformer.core.experts import ExpertsSpec
from glassformer.core.feed_forward import FeedForwardSpec, GatedFeedForwardSpec
from glassformer.core.norms import LayerNormSpec, NormSpec
from glassformer.core.stack import StackSpec
from glassformer.models import FAMILIES, ConfigReader, Family, Network
from glassformer.reports.report import Report
from glassformer.reports.table import Table, markdown_table

MARKS = (
    "<!-- families: python -m glassformer.inspect.families writes what is below -->",
    "<!-- end of families -->",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyRow:
    """One family's row of the table.

    reads: inputs
    norms, positions, attention, feed_forward: components, in a few words
    distinction: what distinguishes it from other families
    tasks: tasks that it has heads for
    """

    family: str
    reads: str
    norms: str
    positions: str
    attention: str
    feed_forward: str
    distinction: str
    tasks: tuple[str, ...]


class FamilyTable(Report, list[FamilyRow], kind="model-families", keys=("families",)):
    """Model families: a list that shows itself as tables, one a family."""

    @property
    def families(self) -> list[FamilyRow]:
        return list(self)

    def tables(self) -> list[Table]:
        shown = []
        for row in self:
            parts = {
                "norms": row.norms,
                "positions": row.positions,
                "attention": row.attention,
                "feed-forward": row.feed_forward,
                "its own": row.distinction,
                "heads": ", ".join(row.tasks),
            }
            lines = [[name, description] for name, description in parts.items() if description]
            shown.append(Table([row.family, f"reads {row.reads}"], lines, left=2, longest=400))
        return shown


def family_table(families: Iterable[Family] = FAMILIES.values()) -> FamilyTable:
    """The rows of the table, derived from the networks of the families' smallest configs."""
    return FamilyTable(_family_row(family) for family in families)


def as_markdown(table: Sequence[FamilyRow]) -> str:
    """The table in Markdown, for docs/families.md."""
    headings = ["family", "reads", "norms", "positions", "attention", "feed-forward", "its own"]
    rows = ((f"`{x.family}`", x.reads, x.norms, x.positions, x.attention, x.feed_forward, x.distinction) for x in table)
    return markdown_table(headings, rows)


def _family_row(family: Family) -> FamilyRow:
    network = family.build_on_meta(family.spec(ConfigReader(family.tiny)), family.tasks[0])
    stacks = {stream: stack.spec for stream, stack in network.stacks().items()}
    blocks = {stream: list(spec.blocks) for stream, spec in stacks.items()}
    return FamilyRow(
        family=family.model_type,
        reads=_reads(network, family),
        norms=_joined({stream: list(map(_norms, layers)) for stream, layers in blocks.items()}),
        positions=", ".join(dict.fromkeys(_positions(network))) or "none",
        attention=_joined(
            {stream: [_attention(block, stacks[stream]) for block in layers] for stream, layers in blocks.items()}
        ),
        feed_forward=_joined(
            {stream: [_feed_forward(block.feed_forward) for block in layers] for stream, layers in blocks.items()}
        ),
        distinction=family.distinction,
        tasks=family.tasks,
    )


def _reads(network: Network, family: Family) -> str:
    colours = family.modality == "picture" and "pixel_values" not in network.READS
    words = {
        "input_ids": "colours of an image" if colours else "text",
        "bbox": "boxes of words",
        "pixel_values": "images",
        "input_values": "waveforms",
        "input_features": "spectrograms",
        "visual_feats": "regions of an image",
    }
    read = ", ".join(word for field, word in words.items() if field in network.READS)
    return f"{read} → text" if "decoder_input_ids" in network.READS else read


def _positions(network: Network) -> Iterable[str]:
    for module in network.modules():
        if isinstance(kind := getattr(module, "KIND", None), str):
            yield {"waves": "sinusoidal"}.get(kind, kind)


def _norms(block: BlockSpec | ParallelBlockSpec) -> str:
    if isinstance(block, ParallelBlockSpec):
        if block.feed_forward_norm is not None:
            return f"pre-{_norm(block.norm)} of each parallel branch"
        return f"one pre-{_norm(block.norm)}, parallel branches"
    residual = block.residual
    # Behind a sub-layer there are two places: on its output, and on the stream that the output was added to.
    slots = {"pre": residual.before, "output": residual.after, "post": residual.on_residual}
    return ", ".join(f"{slot}-{_norm(norm)}" for slot, norm in slots.items() if norm is not None)


def _norm(norm: NormSpec) -> str:
    return "LayerNorm" if isinstance(norm, LayerNormSpec) else "RMSNorm"


def _attention(block: BlockSpec | ParallelBlockSpec, stack: StackSpec) -> str:
    spec: AttentionSpec = block.attention
    words = ["causal" if spec.causal else "bidirectional"]
    if spec.KIND:
        words.append(spec.KIND)
    if spec.window is not None:
        words.append("sliding window")
    if spec.heads != spec.K:
        words.append("multi-query" if spec.K == 1 else "grouped-query")
    if spec.scale is not None and not math.isclose(spec.scale, spec.E**-0.5):
        words.append("unscaled" if spec.scale == 1 else "own scale")
    if spec.qk_norm is not None:
        words.append("QK-norm")
    if spec.score_cap is not None:
        words.append("soft-capped scores")
    if not spec.bias:
        words.append("no bias")
    if isinstance(block, BlockSpec) and block.cross is not None:
        words.append("cross-attention")
    return ", ".join(words)


def _feed_forward(spec: FeedForwardSpec | GatedFeedForwardSpec | ExpertsSpec) -> str:
    if isinstance(spec, ExpertsSpec):
        return f"{spec.experts_per_token} of {spec.experts} experts, {_feed_forward(spec.expert)}"
    return f"gated {spec.activation}" if isinstance(spec, GatedFeedForwardSpec) else spec.activation


def _joined(streams: dict[str, list[str]]) -> str:
    """Descriptions of the layers of each stream, joined; one where all streams are identical, "none" without any."""
    cells = {stream: " / ".join(dict.fromkeys(words)) for stream, words in streams.items()}
    if len(set(cells.values())) <= 1:
        return next(iter(cells.values()), "none")
    return "; ".join(f"{stream}: {words}" for stream, words in cells.items())


def update_page(page: str) -> str:
    """Replace the table between the marks of a page."""
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{as_markdown(family_table())}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    from pathlib import Path

    page = Path("docs/families.md")
    page.write_text(update_page(page.read_text("utf-8")), "utf-8")
