"""Run by test_shapes.py in a process of its own: the core with every shape annotation checked at run time.

Prints a JSON object: what was tried → "" or what went wrong.
"""

from __future__ import annotations

import json
import traceback
import typing
from collections.abc import Callable
from dataclasses import replace

# Before TYPE_CHECKING is set: these import differently, or cannot at all, where it is true.
import beartype  # noqa: F401
import packaging.requirements  # noqa: F401
import torch
from jaxtyping import TypeCheckError, install_import_hook

import glassformer.errors  # noqa: F401

typing.TYPE_CHECKING = True
OF_FAMILIES = ("_speech", "lxmert.regions", "tapas.cells", "wav2vec2.positions", "wav2vec2.waveform")
CHECKED = ("glassformer.core", *(f"glassformer.models.{module}" for module in OF_FAMILIES))
with install_import_hook(CHECKED, "beartype.beartype"):
    import glassformer.core as core
    from glassformer.core import (
        classification_heads,
        heads,
        init,
        language_heads,
        masks,
        rotary,
    )
    from glassformer.models import _speech
    from glassformer.models.lxmert import regions
    from glassformer.models.tapas import cells
    from glassformer.models.wav2vec2 import positions, waveform
typing.TYPE_CHECKING = False

from tests.core.small import CROSS, STACKS, WIDTH, keeps, perturbed  # noqa: E402

Flow, Stack, Tape = core.Flow, core.Stack, core.Tape
B, T = 2, 6
IDS = torch.randint(0, 9, (B, T))
X = torch.randn(B, T, WIDTH)
KEEP = keeps([6, 4], T)

TRIED: dict[str, Callable[[], object]] = {}


def refused(call: Callable[[], object]) -> None:
    """The call must fail by its annotations, not later by torch."""
    try:
        call()
    except TypeCheckError:
        return
    raise AssertionError("a wrong shape or dtype went through")


def passes(kind: str) -> None:
    spec = STACKS[kind]
    network = perturbed(Stack(spec))
    for patterns in ((), ("*",)):
        tape = Tape(*patterns).attach(network)
        for keep in (None, KEEP, KEEP.expand(B, T, T)):
            network(X, Flow(keep=keep, tape=tape)).sum().backward()
        if spec.bias is None:
            network(X[:1], Flow(packing=core.Packing((1, 3, 2)), tape=tape))
    if spec.blocks[0].attention.causal:
        cache = core.KeyValueCache(block_tokens=4)
        with torch.no_grad():
            network(X[:, :3], Flow(cache=cache, keep=KEEP[..., :3]))
            network(X[:, 3:], Flow(cache=cache, keep=KEEP))
    network.bfloat16()(X.bfloat16(), Flow(keep=KEEP))
    refused(lambda: network(X[0], Flow()))
    refused(lambda: network(IDS, Flow()))


for kind in STACKS:
    TRIED[f"stack: {kind}"] = lambda kind=kind: passes(kind)


def cross() -> None:
    network = perturbed(Stack(core.StackSpec(blocks=(CROSS,) * 2)))
    memory = core.EncoderOutput(torch.randn(B, 4, 24), keeps([4, 2], 4))
    network(X, Flow(memory=memory))
    cache = core.KeyValueCache()
    for t in range(T):
        network(X[:, t : t + 1], Flow(memory=memory, cache=cache))
    refused(lambda: network[0].cross(X[0], Flow(memory=memory)))


def cell_selection() -> None:
    spec = cells.CellSelectionSpec(width=WIDTH, rows=3, columns=4)
    rows_columns = IDS.clamp(max=2), IDS.clamp(max=3)
    for variant in (spec, replace(spec, one_column=False), replace(spec, one_column=False, average=True)):
        head = perturbed(cells.CellSelectionWithAggregation(variant, 3))
        output = head.select(X, *rows_columns, Flow(keep=KEEP))
        labels = {"labels": torch.ones_like(IDS), "aggregation_labels": torch.tensor([0, 2])}
        head.loss(output, labels).backward()
        head.bfloat16().select(X.bfloat16(), *rows_columns, Flow())
    refused(lambda: head.select(X[0], *rows_columns, Flow()))
    refused(lambda: head.select(X, rows_columns[0].float(), rows_columns[1], Flow()))
    refused(lambda: cells.Grid(IDS, 3, 4).spread_to_tokens(X[0]))


def image_regions() -> None:
    norm = core.LayerNormSpec(width=WIDTH)
    embed = perturbed(regions.RegionEmbedding(regions.RegionsSpec(features=5, corners=4, norm=norm)))
    features, boxes = torch.randn(B, 3, 5), torch.rand(B, 3, 4)
    image = embed(features, boxes, Flow())
    refused(lambda: embed(features[0], boxes, Flow()))
    objectives = regions.VisualPreTrainingSpec(objects=4, attributes=3, features=5)
    answer = regions.VisualAnswerHead(norm, 7)
    head = perturbed(
        regions.VisualPreTrainingHead(
            objectives,
            language_heads.MaskedLMHead(WIDTH, 9, "gelu", norm),
            answer,
            regions.RegionPredictionHead(objectives, norm, "gelu"),
        )
    )
    output = head.read_both(X, image, Flow(keep=KEEP))
    confidence, classes = torch.rand(B, 3), torch.zeros(B, 3, dtype=torch.long)
    targets = {"obj": (classes, confidence), "attr": (classes, confidence), "feat": (features, confidence)}
    head.loss(output, {"labels": IDS, "ans": torch.tensor([0, 6]), "obj_labels": targets}).backward()
    regions.CrossModalStates(WIDTH).read_both(X, image, Flow())
    embed.bfloat16()(features, boxes, Flow())
    refused(lambda: head.read_both(X[0], image, Flow()))
    refused(lambda: answer.score(X))


def embedding() -> None:
    learned = core.LearnedPositionsSpec(count=9)
    spec = core.EmbeddingSpec(vocabulary=9, width=8, token_types=2, positions=learned)
    for variant in (
        spec,
        replace(spec, positions=core.SinusoidalSpec(count=9)),
        replace(spec, positions=None),
    ):
        embed = core.Embedding(variant)
        embed(IDS, Flow())
        embed(IDS, Flow(keep=KEEP), torch.zeros_like(IDS))
        refused(lambda embed=embed: embed(IDS[0], Flow()))
        refused(lambda embed=embed: embed(IDS.float(), Flow()))
        refused(lambda embed=embed: embed(IDS, Flow(), torch.zeros(B, T + 1, dtype=torch.long)))


def norms() -> None:
    for norm in (
        core.LayerNorm(core.LayerNormSpec(width=WIDTH)),
        core.RMSNorm(core.RMSNormSpec(width=WIDTH)),
    ):
        norm(X)
        norm(X[0])
        refused(lambda norm=norm: norm(IDS))


def feed_forward() -> None:
    for ffn in (
        core.FeedForward(core.FeedForwardSpec(width=WIDTH, hidden=8)),
        core.GatedFeedForward(core.GatedFeedForwardSpec(width=WIDTH, hidden=8)),
        core.Experts(
            core.ExpertsSpec(expert=core.FeedForwardSpec(width=WIDTH, hidden=8), experts=3, experts_per_token=2)
        ),
    ):
        ffn(X, Flow())
        refused(lambda ffn=ffn: ffn(X[0], Flow()))


def function() -> None:
    q, k = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8)
    core.scaled_dot_product_attention(q, k, k)
    core.scaled_dot_product_attention(q[0, 0], k[0, 0], k[0, 0])
    core.scaled_dot_product_attention(q, k, k, torch.rand(2, 1, 5, 7) < 0.5, torch.randn(1, 3, 5, 7))
    refused(lambda: core.scaled_dot_product_attention(q, k, k[:, :, :6]))
    core.scaled_dot_product_attention(q, k, k, torch.ones(2, 1, 5, 7))
    refused(lambda: core.scaled_dot_product_attention(q, k, k, torch.ones(2, 1, 5, 6)))
    refused(lambda: core.scaled_dot_product_attention(q, k[..., :4], k))


def parts() -> None:
    masks.AttentionPattern(True, 2).keep(2, 5)
    masks.from_additive(torch.zeros(1, 1, 5))
    refused(lambda: masks.from_additive(torch.zeros(5, dtype=torch.long)))
    rotation = core.Rotary(core.RotarySpec(width=4))(torch.arange(T)[None], torch.float32)
    rotary.rotate(torch.randn(B, 4, T, 8), rotation)
    refused(lambda: rotary.rotate(X, rotation))
    refused(lambda: core.Rotary(core.RotarySpec(width=4))(torch.arange(T), torch.float32))
    refused(lambda: core.Sinusoidal(core.SinusoidalSpec(count=9), 8)(torch.arange(T), torch.float32))
    bias = core.BucketedBias(core.BucketedBiasSpec(heads=4))
    bias(3, 5, X.device)
    refused(lambda: bias.buckets(torch.arange(5)))
    network = Stack(STACKS["grouped, gated, rotary"])
    init.normal(network)
    init.xavier(network)
    init.shrink_residual(network, 2)


def cache() -> None:
    layer, new = torch.nn.Identity(), torch.randn(1, 2, 3, 4)
    core.KeyValueCache().extend(layer, new, new)
    refused(lambda: core.KeyValueCache().extend(layer, new[0], new[0]))
    refused(lambda: core.KeyValueCache().extend(layer, new, new[:, :, :2]))


def waveforms() -> None:
    layer = waveform.TimeConvolutionSpec(channels=1, width=6, kernel=5, stride=3, norm=waveform.TimeNormSpec(width=6))
    positions_spec = positions.ConvolvedPositionsSpec(width=WIDTH, kernel=4, groups=2)
    spans = _speech.SpansSpec(share=0.5, length=2)
    augment = _speech.SpecAugmentSpec(width=WIDTH, time=spans, channels=spans)
    encoder = waveform.WaveformEncoder(waveform.WaveformSpec(layers=(layer,)))
    embed = waveform.FrameEmbedding(
        waveform.FrameEmbeddingSpec(features=6, positions=positions_spec, augment=augment)
    ).train()
    keep = KEEP[..., :1].expand(B, 1, 20)
    embed(encoder(torch.randn(B, 20), Flow()), Flow(keep=encoder.frame_mask(keep)))
    embed(encoder(torch.randn(B, 20), Flow()), Flow())
    refused(lambda: encoder(torch.randn(B, 1, 20), Flow()))
    refused(lambda: encoder.frame_mask(keep[:, 0]))
    refused(lambda: embed(X[0], Flow()))


TRIED |= {
    "sound": waveforms,
    "cross-attention": cross,
    "embedding": embedding,
    "tables": cell_selection,
    "pictures": image_regions,
    "norms": norms,
    "feed-forward": feed_forward,
    "the function": function,
    "positions, masks, initialisation": parts,
    "cache": cache,
}


def masked() -> language_heads.MaskedLMHead:
    return language_heads.MaskedLMHead(WIDTH, 9, "gelu", core.LayerNormSpec(width=WIDTH))


TAGS, ONE = torch.randint(0, 3, (B, T)), torch.tensor([0, 1])
HEADS: dict[str, tuple[Callable[[], heads.Head], heads.Labels | None]] = {
    "language model": (lambda: language_heads.CausalLMHead(WIDTH, 9), IDS),
    "capped language model": (
        lambda: language_heads.CausalLMHead(WIDTH, 9, logit_cap=2.0, logit_scale=0.5),
        IDS,
    ),
    "masked language model": (masked, IDS),
    "transformed language model": (
        lambda: language_heads.TransformedCausalLMHead(WIDTH, 9, "gelu", core.LayerNormSpec(width=WIDTH)),
        IDS,
    ),
    "pooler": (lambda: heads.Pooler(WIDTH), None),
    "next sentence": (lambda: language_heads.NextSentenceHead(WIDTH), ONE),
    "pre-training": (
        lambda: language_heads.PreTrainingHead(masked(), language_heads.NextSentenceHead(WIDTH)),
        {"labels": IDS, "next_sentence_label": ONE},
    ),
    "classifier": (lambda: classification_heads.SequenceClassifier(WIDTH, 3), ONE),
    "causal classifier": (
        lambda: classification_heads.SequenceClassifier(WIDTH, 1, pooling="last"),
        ONE.float(),
    ),
    "transcriber": (lambda: _speech.CTCHead(WIDTH, 9), 1 + TAGS[:, :2]),
    "mean classifier": (lambda: _speech.MeanPoolingClassifier(WIDTH, 8, 3), ONE),
    "tagger": (lambda: classification_heads.TokenClassifier(WIDTH, 3), TAGS),
    "span": (
        lambda: classification_heads.SpanClassifier(WIDTH),
        {"start_positions": ONE, "end_positions": ONE + 4},
    ),
}


def head(name: str) -> None:
    build, labels = HEADS[name]
    head = build()
    for flow in (Flow(), Flow(keep=KEEP), Flow(last=1)):
        output = head(X, flow)
    head(X[:1], Flow(packing=core.Packing((2, 4))))
    if labels is not None:
        head.loss(head(X, Flow()), labels)
        assert set(head.loss_sums(X, Flow(), labels)) == set(head.label_counts(labels))
    refused(lambda: head(X[0], Flow()))
    refused(lambda: head(IDS, Flow()))
    refused(lambda: head(output, Flow()))


for name in HEADS:
    TRIED[f"head: {name}"] = lambda name=name: head(name)


def main() -> None:
    results = {}
    for name, trial in TRIED.items():
        try:
            trial()
            results[name] = ""
        except BaseException:
            results[name] = traceback.format_exc(limit=-6)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
