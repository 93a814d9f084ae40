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
import torch
from jaxtyping import TypeCheckError, install_import_hook

import glassformer.errors  # noqa: F401

typing.TYPE_CHECKING = True
with install_import_hook("glassformer.core", "beartype.beartype"):
    import glassformer.core as core
    from glassformer.core import cells, frames, heads, init, masks, positions, regions, specs, waves
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
            network(X[:1], Flow(segments=core.Segments((1, 3, 2)), tape=tape))
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
    memory = core.Memory(torch.randn(B, 4, 24), keeps([4, 2], 4))
    network(X, Flow(memory=memory))
    cache = core.KeyValueCache()
    for t in range(T):
        network(X[:, t : t + 1], Flow(memory=memory, cache=cache))
    refused(lambda: network[0].cross(X[0], Flow(memory=memory)))


def tables() -> None:
    spec = specs.CellSelectionSpec(width=WIDTH, rows=3, columns=4)
    places = IDS.clamp(max=2), IDS.clamp(max=3)
    for each in (spec, replace(spec, one_column=False), replace(spec, one_column=False, average=True)):
        head = perturbed(cells.CellsAndOperator(each, 3))
        found = head.select(X, *places, Flow(keep=KEEP))
        labels = {"labels": torch.ones_like(IDS), "aggregation_labels": torch.tensor([0, 2])}
        head.loss(found, labels).backward()
        head.bfloat16().select(X.bfloat16(), *places, Flow())
    refused(lambda: head.select(X[0], *places, Flow()))
    refused(lambda: head.select(X, places[0].float(), places[1], Flow()))
    refused(lambda: cells.Grid(IDS, 3, 4).spread(X[0]))


def pictures() -> None:
    norm = core.LayerNormSpec(width=WIDTH)
    embed = perturbed(regions.RegionEmbedding(specs.RegionsSpec(features=5, corners=4, norm=norm)))
    features, boxes = torch.randn(B, 3, 5), torch.rand(B, 3, 4)
    image = embed(features, boxes, Flow())
    refused(lambda: embed(features[0], boxes, Flow()))
    asked = specs.VisualPreTrainingSpec(objects=4, attributes=3, features=5)
    answer = regions.VisualAnswer(norm, 7)
    head = perturbed(
        regions.VisualPreTraining(
            asked,
            heads.MaskedLanguageModel(WIDTH, 9, "gelu", norm),
            answer,
            regions.RegionQuestions(asked, norm, "gelu"),
        )
    )
    found = head.join(X, image, Flow(keep=KEEP))
    sure, kinds = torch.rand(B, 3), torch.zeros(B, 3, dtype=torch.long)
    shows = {"obj": (kinds, sure), "attr": (kinds, sure), "feat": (features, sure)}
    head.loss(found, {"labels": IDS, "ans": torch.tensor([0, 6]), "obj_labels": shows}).backward()
    regions.BothSides(WIDTH).join(X, image, Flow())
    embed.bfloat16()(features, boxes, Flow())
    refused(lambda: head.join(X[0], image, Flow()))
    refused(lambda: answer.score(X))


def embedding() -> None:
    learned = core.LearnedPositionsSpec(count=9)
    spec = core.EmbeddingSpec(vocabulary=9, width=8, segments=2, positions=learned)
    for each in (spec, replace(spec, positions=core.SinusoidalSpec(count=9)), replace(spec, positions=None)):
        embed = core.Embedding(each)
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
            core.ExpertsSpec(expert=core.FeedForwardSpec(width=WIDTH, hidden=8), experts=3, chosen=2)
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
    refused(lambda: core.scaled_dot_product_attention(q, k, k, torch.ones(2, 1, 5, 7)))
    refused(lambda: core.scaled_dot_product_attention(q, k[..., :4], k))


def parts() -> None:
    masks.Pattern(True, 2).keep(2, 5)
    masks.from_additive(torch.zeros(1, 1, 5))
    refused(lambda: masks.from_additive(torch.zeros(5, dtype=torch.long)))
    rotation = core.Rotary(core.RotarySpec(width=4))(torch.arange(T)[None], torch.float32)
    positions.rotate(torch.randn(B, 4, T, 8), rotation)
    refused(lambda: positions.rotate(X, rotation))
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


def sound() -> None:
    layer = core.specs.TimeConvolutionSpec(
        channels=1, width=6, kernel=5, stride=3, norm=core.specs.TimeNormSpec(width=6)
    )
    place = core.specs.ConvolvedPositionsSpec(width=WIDTH, kernel=4, groups=2)
    spans = core.specs.SpansSpec(share=0.5, length=2)
    hides = core.specs.SpecAugmentSpec(width=WIDTH, time=spans, channels=spans)
    hear = waves.WaveEncoder(core.specs.WaveSpec(layers=(layer,)))
    embed = waves.FrameEmbedding(
        core.specs.FrameEmbeddingSpec(features=6, positions=place, augment=hides)
    ).train()
    keep = KEEP[..., :1].expand(B, 1, 20)
    embed(hear(torch.randn(B, 20), Flow()), Flow(keep=hear.kept(keep)))
    embed(hear(torch.randn(B, 20), Flow()), Flow())
    refused(lambda: hear(torch.randn(B, 1, 20), Flow()))
    refused(lambda: hear.kept(keep[:, 0]))
    refused(lambda: embed(X[0], Flow()))


TRIED |= {
    "sound": sound,
    "cross-attention": cross,
    "embedding": embedding,
    "tables": tables,
    "pictures": pictures,
    "norms": norms,
    "feed-forward": feed_forward,
    "the function": function,
    "positions, masks, initialisation": parts,
    "cache": cache,
}


def masked() -> heads.MaskedLanguageModel:
    return heads.MaskedLanguageModel(WIDTH, 9, "gelu", core.LayerNormSpec(width=WIDTH))


TAGS, ONE = torch.randint(0, 3, (B, T)), torch.tensor([0, 1])
HEADS: dict[str, tuple[Callable[[], heads.Head], heads.Labels | None]] = {
    "language model": (lambda: heads.LanguageModel(WIDTH, 9), IDS),
    "masked language model": (masked, IDS),
    "pooler": (lambda: heads.Pooler(WIDTH), None),
    "next sentence": (lambda: heads.NextSentence(WIDTH), ONE),
    "pre-training": (
        lambda: heads.PreTraining(masked(), heads.NextSentence(WIDTH)),
        {"labels": IDS, "next_sentence_label": ONE},
    ),
    "classifier": (lambda: heads.Classifier(WIDTH, 3), ONE),
    "causal classifier": (lambda: heads.Classifier(WIDTH, 1, reads="last"), ONE.float()),
    "transcriber": (lambda: frames.Transcriber(WIDTH, 9), 1 + TAGS[:, :2]),
    "mean classifier": (lambda: frames.MeanClassifier(WIDTH, 8, 3), ONE),
    "tagger": (lambda: heads.Tagger(WIDTH, 3), TAGS),
    "span": (lambda: heads.Span(WIDTH), {"start_positions": ONE, "end_positions": ONE + 4}),
}


def head(name: str) -> None:
    build, labels = HEADS[name]
    made = build()
    for flow in (Flow(), Flow(keep=KEEP), Flow(last=1)):
        output = made(X, flow)
    made(X[:1], Flow(segments=core.Segments((2, 4))))
    if labels is not None:
        made.loss(made(X, Flow()), labels)
        assert set(made.learn(X, Flow(), labels)) == set(made.counts(labels))
    refused(lambda: made(X[0], Flow()))
    refused(lambda: made(IDS, Flow()))
    refused(lambda: made(output, Flow()))


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
