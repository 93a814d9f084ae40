"""A session holds one pass and no more: what it keeps, what it costs, who may ask, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

import glassformer
from glassformer.core import Node, StackSpec, Tape
from glassformer.core.flow import Batch, Flow
from glassformer.engine.prepare import prepare, prepared_precision
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.inspect import Session, SessionInput
from glassformer.models import FAMILIES, Network
from glassformer.models._network import Sizes
from tests.core.small import STACKS, fused_calls
from tests.e2e.tiny_models import looked_at, make_folder
from tests.inspect.passes import (
    KINDS,
    Plain,
    S,
    T,
    every_head,
    heard,
    network_of,
    pairs,
    reading_of,
    session_of,
    tokens_for,
)
from tests.peak import PEAK_KB
from tests.senses import READ_NO_FILES, draw_fields


def test_the_maps_of_each_family() -> None:
    for family in ("bert", "gpt2", "llama"):
        (result,) = session_of(family).maps.values()
        causal, rotary = family != "bert", family == "llama"
        assert (result.name, result.layers, result.heads, result.head_width) == ("self", 3, 4, 8)
        assert (result.queries, result.keys) == ("text", "text")
        assert (result.causal, result.rotary, result.biased) == (causal, rotary, False)
        assert result.windows == (None, None, None)
    maps = session_of("transformer").maps
    assert {name: (m.queries, m.keys, m.layers, m.causal) for name, m in maps.items()} == {
        "encoder": ("source", "source", 3, False),
        "decoder": ("target", "target", 2, True),
        "cross": ("target", "source", 2, False),
    }
    assert session_of("bucketed").maps["self"].biased
    assert session_of("windows both ways").maps["self"].windows[0] == 2
    assert set(session_of("qwen2").maps["self"].windows) == {None, 4}  # each layer its own


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_the_stream_at_every_block(kind: str) -> None:
    session = session_of(kind)
    taps = heard(session.network, reading_of(kind), "*.before", "*.out")
    for side, names in session.network.stream_taps().items():
        assert names[-1].endswith(".out") and all(name.endswith(".before") for name in names[:-1])
        for layer, name in enumerate(names):
            assert torch.equal(session.states(layer, side), taps[name])


# ------------------------------------------------------------------------------------------------- what it costs


@pytest.mark.parametrize(
    ("kind", "bases"),
    [
        ("two bases, one layer without", (10_000.0, 50.0, None)),
        ("gemma3_text", (10_000.0, 1_000_000.0, 10_000.0)),
        ("bert", (None, None, None)),
    ],
)
def test_a_map_says_the_rotary_base_of_each_layer(kind: str, bases: tuple[float | None, ...]) -> None:
    result = session_of(kind).maps["self"]
    assert result.rotary_bases == bases
    assert result.rotary is any(bases)


@pytest.mark.parametrize("kind", KINDS)
def test_the_pass_stays_on_the_fused_kernel_and_runs_no_head(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of(kind)

    def refuse(*_: object) -> None:
        raise AssertionError("the head was run")

    monkeypatch.setattr(network, "apply_head", refuse)
    if network.head is not None:
        monkeypatch.setattr(network.head, "forward", refuse)
    with fused_calls(monkeypatch) as calls:
        session = Session(network, reading_of(kind))
    each = 2 if kind == "big_bird" else 1  # its first and last blocks see all, the others do not
    layers = [session.attention_layer(i, name) for name, m in session.maps.items() for i in range(m.layers)]
    fused = [layer for layer in layers if layer.attention.spec.score_cap is None]  # the kernel has no soft cap
    assert len(calls) == each * len(fused)
    with fused_calls(monkeypatch) as calls:
        session.overview(0, next(iter(session.maps)))
    assert calls == []  # looking does not run the pass again


def test_what_is_kept_is_the_stream_and_the_layers_looked_at() -> None:
    session = session_of("bert")
    stream = 4 * T * 32 * 4  # before 0, 1, 2 and after the last; what leaves a block enters the next
    assert session.nbytes == stream
    session.head(0, 0)
    assert session.nbytes == stream + 3 * T * 32 * 4
    session.head(0, 3)
    assert session.nbytes == stream + 3 * T * 32 * 4
    assert "4 heads, 0.0 MB" in repr(session)


def test_the_limit_is_kept_whatever_is_looked_at() -> None:
    network = Plain(StackSpec(blocks=STACKS["pre-norm causal"].blocks * 10))
    layer, stream = 3 * T * 32 * 4, 21 * T * 32 * 4
    limit = 2 * stream
    session = Session(network, reading_of("bert"), limit_bytes=limit)
    for layer_number in range(20):
        for head in range(4):
            session.head(layer_number, head).tile(0, 0, 0)
        session.overview(layer_number)
        assert session.nbytes <= limit
    assert session.cache.nbytes >= stream // 2 - layer  # and yet it is used


def test_a_limit_below_the_stream_is_refused_with_its_figures() -> None:
    with pytest.raises(DataError, match=r"the text has 9 tokens, whose states take 0 MB; .* about 4 tokens"):
        session_of("bert", limit_bytes=4 * T * 32 * 4)
    with pytest.raises(DataError, match="shorten the text, or in Python raise limit_bytes"):
        session_of("transformer", limit_bytes=1000)


DEEP = (
    PEAK_KB
    + """
import sys, torch
from tests.core.small import STACKS
from tests.inspect.passes import Plain, tokens_for
from glassformer.core.flow import Batch
from glassformer.core import StackSpec
from glassformer.inspect import SessionInput, Session

torch.set_num_threads(1)
T, L = 4096, int(sys.argv[1])
network = Plain(StackSpec(blocks=STACKS["pre-norm causal"].blocks * (L // 2)), positions=T).eval()
reading = lambda T: SessionInput(("",), Batch(input_ids=torch.arange(T)[None] % 99), {"text": tokens_for(T)})

def look(session, T):
    for layer in range(L):
        session.overview(layer)
    session.overview(0, exact=True)
    head = session.head(L - 1, 3)
    level = (T - 1).bit_length() - 8 if T > 256 else 0
    head.tile(level, 0, 0), head.tile(0, 0, 0), head.probs(T - 1)

look(Session(network, reading(64)), 64)  # what torch itself needs once
before = peak_kb()
session = Session(network, reading(T))
look(session, T)
print(peak_kb() - before, session.nbytes)
"""
)


@pytest.mark.soak  # 4,096 tokens, layer by layer
@pytest.mark.parametrize("depth", [6, 24])
def test_peak_memory_at_4096_tokens(depth: int) -> None:
    """6 layers × 4 heads × 4,096² probabilities would be 1.6 GB, one head's of each layer 403 MB, one head's 67 MB."""
    done = subprocess.run(
        [sys.executable, "-c", DEEP, str(depth)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2],
        # The C library gives large blocks back at once, so that the peak is of what is in use.
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    peak_kib, held = map(int, done.stdout.split())
    stream, layers = (depth + 1) * 4096 * 32 * 4, depth * 3 * 4096 * 32 * 4
    stripes = 2 * 256 * 4096 * 4
    assert held <= stream + layers + stripes
    at_work = 12 * 2**22 * 4  # scores, probabilities and their like of one chunk of rows: 2²² numbers each
    assert peak_kib * 1024 <= held + at_work


# ----------------------------------------------------------------------------------------------- who may look


@pytest.mark.parametrize("kind", ["bert", "llama", "transformer", "bucketed causal"])
def test_eight_threads_get_what_one_gets(kind: str) -> None:
    """With room for little, so that they take each other's layers away."""
    session = session_of(kind, limit_bytes=40_000)
    settings = [
        (name, layer, head)
        for name, result in session.maps.items()
        for layer in range(result.layers)
        for head in range(result.heads)
    ]

    def look(one: tuple[str, int, int]) -> list[torch.Tensor]:
        name, layer, head = one
        result = session.head(layer, head, name)
        return [
            result.probs(), result.tile(0, 0, 0), result.out([0, 2]), session.overview(layer, name).thumbnails
        ]  # fmt: skip

    alone = {one: look(one) for one in settings}
    with ThreadPoolExecutor(8) as pool:
        for one, answers in zip(settings * 8, pool.map(look, settings * 8), strict=True):
            assert all(torch.equal(a, b) for a, b in zip(answers, alone[one], strict=True))


def test_a_model_in_training_stays_so_and_drops_nothing() -> None:
    changes = {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.5}
    network, reading = network_of("bert", **changes), reading_of("bert")
    still = Session(network, reading)
    network.train()
    network.blocks[1].eval()
    modes = [module.training for module in network.modules()]
    session = Session(network, reading)
    assert [module.training for module in network.modules()] == modes
    for (_, one), (_, other) in zip(every_head(session), every_head(still), strict=True):
        assert torch.equal(one.probs(), other.probs())
        assert torch.equal(one.out(), other.out())
    session.trace()
    assert [module.training for module in network.modules()] == modes


def test_the_mode_comes_back_when_a_pass_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of("bert").train()
    monkeypatch.setattr(network.blocks[2].ffn, "forward", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Session(network, reading_of("bert"))
    assert all(module.training for module in network.modules())


def test_no_gradient_is_kept() -> None:
    session = session_of("gpt2")
    assert not session.head(0, 0).out().requires_grad
    assert session.states(0).grad_fn is None


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "transformer"])
def test_a_prepared_network_shows_its_own_numbers(kind: str) -> None:
    network, reading = network_of(kind), reading_of(kind)
    prepare(network, "fp32")
    assert prepared_precision(network) == "fp32"
    taps = heard(network, reading, "*.q", "*.probs", "*.out")
    for path, head in every_head(Session(network, reading)):
        torch.testing.assert_close(head.q, taps[f"{path}.q"][head.head], atol=2e-5, rtol=1e-5)
        torch.testing.assert_close(head.probs(), taps[f"{path}.probs"][head.head], atol=5e-6, rtol=0)
        assert head.out(0).shape == (1, 32)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.filterwarnings("ignore:bf16 products", "ignore:int8 products")
def test_narrow_products_still_add_up(precision: str) -> None:
    """q, k and v are bfloat16 then, and the output's weights are not."""
    network, reading = network_of("bert"), reading_of("bert")
    prepare(network, precision)
    session = Session(network, reading)
    taps = heard(network, reading, "attn.out")
    for layer in range(3):
        bias = network.blocks[layer].attn.out.bias.detach()
        whole = sum(session.head(layer, head).out() for head in range(4)) + bias
        expected = taps[f"blocks.{layer}.attn.out"].float()
        assert float((whole - expected).abs().max()) < 0.05 * float(expected.abs().max())


def test_progress_counts_the_blocks() -> None:
    seen: list[tuple[int, int]] = []
    session_of("transformer", progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


# ---------------------------------------------------------------------------------------------- what it refuses


def test_a_map_layer_head_or_side_that_is_not_there() -> None:
    session, single = session_of("transformer"), session_of("bert")
    with pytest.raises(DataError, match=r"there is no map 'cros'; .*'encoder', 'decoder', 'cross'.*cross"):
        session.head(0, 0, "cros")
    with pytest.raises(DataError, match="there is no map None"):
        session.head(0, 0)
    with pytest.raises(DataError, match="there is no stream 'text'; this pass has 'source', 'target'"):
        session.states(0, "text")
    with pytest.raises(DataError, match="there is no map 'cross'; this pass has 'self'"):
        single.overview(0, "cross")
    for layer in (-1, 3, True, 1.0, "0"):
        with pytest.raises(DataError, match=r"there is no layer .*; there are layers 0 to 2"):
            single.head(layer, 0)  # type: ignore[arg-type]
        with pytest.raises(DataError, match="there is no layer"):
            single.overview(layer)  # type: ignore[arg-type]
    for head in (-1, 4, False):
        with pytest.raises(DataError, match=r"there is no head .*; there are heads 0 to 3"):
            single.head(0, head)
    with pytest.raises(DataError, match="there is no layer 4; there are layers 0 to 3"):
        single.states(4)
    with pytest.raises(ConfigError, match="no tap matches"):
        single.trace("attn.porbs")


def test_a_text_longer_than_the_positions() -> None:
    for kind in ("bert", "gpt2", "transformer"):
        network = network_of(kind)
        with pytest.raises(DataError, match="the text has 41 tokens, the model has 40 positions"):
            Session(network, reading_of(kind, tokens=41))


class Nothing(Network):
    """A network without attention."""

    def __init__(self) -> None:
        super().__init__(Sizes(width=2))
        self.linear = nn.Linear(2, 2)
        self.head = None


def test_a_network_without_attention() -> None:
    reading = SessionInput(("",), Batch(input_ids=torch.zeros(1, 2, dtype=torch.long)), {"text": tokens_for(2)})
    with pytest.raises(UnsupportedError, match="Nothing has no stack of attention blocks"):
        Session(Nothing(), reading)


# ------------------------------------------------------------------------------------------------ Model.inspect


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in READ_NO_FILES])
def test_inspect_a_model_folder(family: str, tmp_path: Path) -> None:
    changes = {"max_positions": 64} if family == "transformer" else {}
    model = glassformer.load(make_folder(tmp_path, family, **changes))
    texts = looked_at(tmp_path, family, ("time flies like an arrow", "fruit flies like a banana"))
    regions = draw_fields(model.config, model.network.READS, 1) if "visual_feats" in model.network.READS else {}
    session = model.inspect(*texts, **regions)
    assert session.texts == texts
    sides = list(session.streams.values())
    segments = [token.segment for side in sides for token in side if not token.special]
    words = [token.text for side in sides for token in side if not token.special]
    if not model.family.modality and not regions:
        assert words == " ".join(texts).split()
        assert segments == ([0] * 10 if pairs(family) else [0] * 5 + [1] * 5)
    for name, about in session.maps.items():
        probs = session.head(0, 1, name).probs()
        assert probs.shape == (len(session.streams[about.queries]), len(session.streams[about.keys]))


def test_an_encoder_decoder_without_a_target_reads_its_own_answer(tmp_path: Path) -> None:
    """Also where the embedding has more rows than the vocabulary has words."""
    model = glassformer.load(make_folder(tmp_path, "transformer", max_positions=64))
    session = model.inspect("time flies like an arrow")
    ids = torch.tensor([[token.id for token in session.streams["source"]]])
    answer = model.generate(ids, max_new_tokens=40)[0].tolist()
    assert [token.id for token in session.streams["target"]] == answer
    assert session.streams["target"][0].special and len(answer) > 1
    assert {token.segment for token in session.streams["target"] if not token.special} == {0}
    assert session.texts == ("time flies like an arrow",)
    given = model.inspect("time flies like an arrow", "fruit flies")
    assert [token.text for token in given.streams["target"][1:]] == ["fruit", "flies"]
    assert given.streams["target"][0] == session.streams["target"][0]


def test_an_answer_ends_where_the_positions_end(tmp_path: Path) -> None:
    model = glassformer.load(make_folder(tmp_path, "transformer", max_positions=16))
    assert 1 < len(model.inspect("time flies").streams["target"]) <= 16


def test_stories260k(shared: Path) -> None:
    model = glassformer.load(shared / "models" / "stories260k")
    session = model.inspect("Once upon a time, there was a little girl")
    assert session.maps["self"].rotary and session.maps["self"].kv_heads == 4
    ids = torch.tensor([[token.id for token in session.streams["text"]]])
    probs = model(input_ids=ids, tape=(tape := Tape("attn.probs"))) and tape.taps
    for path, head in every_head(session):
        torch.testing.assert_close(head.probs(), probs[f"{path}.probs"][0, head.head].detach(), atol=5e-6, rtol=0)


def test_minilm_pair(minilm: Path) -> None:
    model = glassformer.load(minilm)
    session = model.inspect("time flies like an arrow", "fruit flies like a banana")
    tokens = session.streams["text"]
    assert [token.text for token in tokens] == (
        "[CLS] time flies like an arrow [SEP] fruit flies like a banana [SEP]".split()
    )
    assert [token.segment for token in tokens] == [None, *[0] * 5, None, *[1] * 5, None]
    sentence_b_start = [token.segment for token in tokens].index(1)
    assert sentence_b_start == 7
    inputs = model.tokenizer("time flies like an arrow", "fruit flies like a banana", return_tensors="pt")
    tape = Tape("attn.probs")
    model(**inputs, tape=tape)
    for path, head in every_head(session):
        theirs = tape.taps[f"{path}.probs"][0, head.head]
        torch.testing.assert_close(head.probs(), theirs.detach(), atol=5e-6, rtol=0)


def test_trace_measures_the_pass_of_the_session() -> None:
    session = session_of("bert")
    rows = {row.name: row for row in session.trace("blocks.*.before")}
    for layer in range(3):
        assert rows[f"blocks.{layer}.before"].mean == pytest.approx(float(session.states(layer).mean()), abs=1e-7)


def test_sides_are_named_after_their_stacks() -> None:
    session = session_of("transformer")
    assert [len(tokens) for tokens in session.streams.values()] == [S, T]
    assert repr(session).startswith(f"Session({S} source tokens and {T} target tokens: encoder 3 × 4 heads")


def test_a_tape_of_the_pass_is_not_left_behind() -> None:
    network = network_of("bert")
    Session(network, reading_of("bert"))
    assert not any(isinstance(value, Tape) for node in network.modules() for value in vars(node).values())
    assert isinstance(network, Node) and network(reading_of("bert").batch, Flow()).taps == {}


def test_a_classifier_whose_decoder_reads_the_source_again_is_looked_at(tmp_path: Path) -> None:
    model = glassformer.load(make_folder(tmp_path / "bart", "bart"), task="text-classification")
    source, target = model.inspect("time flies").streams.values()
    assert target[0].special and target[1:] == source[:-1]
    other = glassformer.load(make_folder(tmp_path / "marian", "marian"), task="feature-extraction")
    with pytest.raises(UnsupportedError, match="load it with task='translation'"):
        other.inspect("time flies")


def test_a_notebook_shows_streams_and_maps() -> None:
    session = session_of("transformer")
    streams, maps = session.tables()
    assert [row[0] for row in streams.rows] == list(session.streams)
    assert [row[1] for row in streams.rows] == [str(len(tokens)) for tokens in session.streams.values()]
    assert [row[:3] for row in maps.rows] == [[m.name, str(m.layers), str(m.heads)] for m in session.maps.values()]
    assert session._repr_html_().count("<table") == 2 and "Session of" in session._repr_html_()


def test_attention_of_nan_is_refused_with_the_weights_that_hold_it() -> None:
    network, sick = network_of("bert"), "blocks.1.attn.qkv.weight"
    with torch.no_grad():
        network.get_parameter(sick)[0, 0] = torch.nan
    session = Session(network, reading_of("bert"))
    assert session.head(0, 1).probs(1).isfinite().all()  # before the damage
    for read in (lambda: session.head(1, 0), lambda: session.overview(1)):
        with pytest.raises(
            WeightsError, match=f"queries, keys and values .* hold NaN, because 1 parameters do: {sick}"
        ):
            read()


def test_vectors_of_nan_are_refused_with_the_weights_that_hold_it() -> None:
    network, sick = network_of("bert"), "blocks.1.ffn.down.bias"
    with torch.no_grad():
        network.get_parameter(sick)[0] = torch.nan
    session = Session(network, reading_of("bert"))
    assert session.states(1).isfinite().all()  # before the damage
    for read in (lambda: session.states(2), session.norms):
        with pytest.raises(WeightsError, match=f"vectors .* 'layer 1' hold NaN, because 1 parameters do: {sick}"):
            read()
