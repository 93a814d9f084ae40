"""Frames of a session against the session's own numbers, for every family."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.core.masks import AttentionPattern
from glassformer.core.position_bias import BucketedBias, BucketedBiasSpec
from glassformer.errors import DataError
from glassformer.explorer import views
from glassformer.explorer.binary_frames import BinaryFrame, decode
from glassformer.explorer.views import BINS, MAX_SPELLED_TOKENS, distribution, logprob_histogram
from glassformer.generation import filters
from glassformer.inspect.head import mixed
from glassformer.inspect.session import Session
from glassformer.inspect.token_tree import TokenDistribution
from glassformer.model import Model
from tests.explorer.conftest import INSPECTABLE, texts_for

TEXTS = ("time flies like an arrow", "fruit flies like a banana .")


@pytest.fixture(scope="module")
def sessions(models: dict[str, Model]) -> dict[str, Session]:
    return {family: model.inspect(*texts_for(model, TEXTS)) for family, model in models.items()}


def maps(sessions: dict[str, Session]) -> list[tuple[Session, str]]:
    return [(session, name) for session in sessions.values() for name in session.maps]


def frame_of(content: bytes, kind: str) -> BinaryFrame:
    frame = decode(content)
    assert frame.kind == kind
    return frame


def test_every_family_is_looked_at(sessions: dict[str, Session]) -> None:
    assert set(sessions) == set(INSPECTABLE)
    assert {name for _, name in maps(sessions)} == {"self", "encoder", "decoder", "cross", "text", "image"}


def test_overviews_are_right_to_a_255th(sessions: dict[str, Session]) -> None:
    for session, name in maps(sessions):
        frame = frame_of(views.overview(session, map=name, layer=1, exact=True), "overview")
        own = session.overview(1, name, exact=True)
        scale = frame.arrays["scale"]
        displayed = frame.arrays["thumbnails"] / 255 * scale[:, None, None]
        assert np.abs(displayed - own.thumbnails.numpy()).max() <= scale.max() / 255 / 2 + 1e-7
        assert frame.arrays["thumbnails"].reshape(len(scale), -1).max(axis=1).tolist() == [255] * len(scale)
        assert frame.fields["bins"] == list(own.bins)
        assert frame.fields["summaries"] == own.summaries
        for i, stat in enumerate(frame.fields["stats"]):
            assert frame.arrays["stats"][:, i] == pytest.approx(own.stats[stat].numpy())


def test_rows_and_neurons_are_the_sessions_numbers(sessions: dict[str, Session]) -> None:
    for session, name in maps(sessions):
        head = session.head(1, 1, name)
        T, S = len(head.q), len(head.k)
        position = {"map": name, "layer": 1, "head": 1, "query": T - 1}
        row = frame_of(views.row(session, **position), "row")
        neuron = frame_of(views.neuron(session, **position, keys=(1, S)), "neuron")
        for frame in (row, neuron):
            assert torch.equal(torch.tensor(frame.arrays["scores"]), head.scores(T - 1)[0])
            assert torch.equal(torch.tensor(frame.arrays["probs"]), head.probs(T - 1)[0])
        for array, own in (
            ("q", head.q[T - 1]),
            ("k", head.k[1:]),
            ("v", head.v[1:]),
            ("z", head.z(T - 1)[0]),
        ):
            assert torch.equal(torch.tensor(neuron.arrays[array]), own), array
        assert neuron.fields["kv_head"] == head.kv_head
        assert (neuron.fields["scale"], neuron.fields["score_cap"]) == (head.scale, head.score_cap)
        assert ("bias" in neuron.arrays) == session.maps[name].biased
        if session.maps[name].biased:
            assert torch.equal(torch.tensor(neuron.arrays["bias"]), head.bias(T - 1)[0])


def test_a_soft_cap_of_scores_goes_to_the_page(sessions: dict[str, Session]) -> None:
    for family, cap in (("gemma2", 1.5), ("gemma3_text", None)):
        layer = frame_of(views.layer(sessions[family], map="self", layer=0), "layer")
        assert layer.fields["score_cap"] == cap


def test_keys_shared_by_several_heads_are_named(sessions: dict[str, Session]) -> None:
    session = sessions["llama"]
    assert session.maps["self"].kv_heads == 1
    layer = frame_of(views.layer(session, map="self", layer=0), "layer")
    assert (len(layer.arrays["q"]), len(layer.arrays["k"]), len(layer.arrays["v"])) == (2, 1, 1)
    assert views_kv_head(session, 1) == 0


def views_kv_head(session: Session, head: int) -> Any:
    content = views.neuron(session, map="self", layer=0, head=head, query=0, keys=(0, 1))
    return decode(content).fields["kv_head"]


def test_double_precision_stays_double(models: dict[str, Model]) -> None:
    from glassformer.model import load

    folder = models["bert"].folder
    assert folder is not None
    session = load(folder, dtype="float64").inspect("time flies")
    row = decode(views.row(session, map="self", layer=0, head=0, query=0))
    assert row.arrays["scores"].dtype == np.float64
    assert torch.equal(torch.tensor(row.arrays["scores"]), session.head(0, 0).scores(0)[0])


def test_half_precision_comes_as_float32(models: dict[str, Model]) -> None:
    from glassformer.model import load

    folder = models["bert"].folder
    assert folder is not None
    session = load(folder, dtype="bfloat16").inspect("time flies")
    row = decode(views.row(session, map="self", layer=0, head=0, query=0))
    assert row.arrays["scores"].dtype == np.float32
    assert torch.equal(torch.tensor(row.arrays["scores"]), session.head(0, 0).scores(0)[0].float())
    decode(views.overview(session, map="self", layer=0, exact=False))
    decode(views.tile(session, map="self", layer=0, head=0, level=0, row=0, column=0, companding="sqrt"))


@pytest.mark.parametrize("companding", ["linear", "sqrt"])
def test_tiles_are_right_to_their_maximum_255th(sessions: dict[str, Session], companding: str) -> None:
    for session, name in maps(sessions):
        content = views.tile(session, map=name, layer=0, head=1, level=0, row=0, column=0, companding=companding)
        frame = frame_of(content, "tile")
        share = frame.arrays["tile"] / 255
        displayed = (share if companding == "linear" else share**2) * frame.fields["scale"]
        off = np.abs(displayed - session.head(0, 1, name).probs().numpy())
        assert off.max() <= frame.fields["scale"] / 255 + 1e-6
        assert frame.fields["scale"] == pytest.approx(float(session.head(0, 1, name).probs().max()))


# ------------------------------------------------------------------------------------------------------ lines


def test_lines_list_the_strongest_keys_and_count_the_rest(sessions: dict[str, Session]) -> None:
    for session, name in maps(sessions):
        about = session.maps[name]
        T = len(session.streams[about.queries])
        content = views.lines(session, map=name, layers=(0, 2), heads=[1, 0], mix="each", rows=(1, T), count=3)
        frame = frame_of(content, "lines")
        assert frame.fields["members"] == [[0, 1], [0, 0], [1, 1], [1, 0]]
        keys, probs, other = (frame.arrays[array] for array in ("keys", "probs", "other"))
        assert keys.shape == probs.shape == (4, T - 1, 3)
        for m, (layer, head) in enumerate(frame.fields["members"]):
            own = session.head(layer, head, name).probs(slice(1, T)).numpy()
            assert np.array_equal(probs[m], -np.sort(-own, axis=1)[:, :3])
            assert np.array_equal(np.take_along_axis(own, keys[m].astype(int), axis=1), probs[m])
        assert probs.sum(-1) + other == pytest.approx(np.ones((4, T - 1)), abs=1e-6)


def test_lines_to_some_types_of_keys_only(sessions: dict[str, Session]) -> None:
    session = sessions["bert"]
    tokens = session.streams["text"]
    for types, expected in ((["special"], 3), (["1"], 6), (["0", "1"], 11), ([], 0), (["7"], 0)):
        content = views.lines(
            session, map="self", layers=(0, 1), heads=[0], mix="each", rows=(0, 2), count=32, keys=types
        )
        frame = decode(content)
        assert frame.arrays["keys"].shape == (1, 2, expected)
        for key in frame.arrays["keys"].flatten():
            token = tokens[key]
            assert ("special" if token.special else str(token.segment)) in types
        listed = frame.arrays["probs"].sum(-1)
        assert listed + frame.arrays["other"] == pytest.approx(np.ones((1, 2)), abs=1e-6)


@pytest.mark.parametrize("mix", ["mean", "max"])
def test_mixed_heads_are_one_map(sessions: dict[str, Session], mix: str) -> None:
    session = sessions["gpt2"]
    content = views.lines(session, map="self", layers=(0, 2), heads=[0, 1], mix=mix, rows=(2, 5), count=4)
    frame = decode(content)
    all_maps = torch.stack([session.head(layer, head).probs() for layer in (0, 1) for head in (0, 1)])[:, 2:5]
    own = all_maps.mean(0) if mix == "mean" else all_maps.amax(0)
    strongest = own.topk(4)
    assert frame.fields["members"] == []
    assert frame.arrays["probs"][0] == pytest.approx(strongest.values.numpy(), abs=1e-7)
    rest = own.sum(-1) - strongest.values.sum(-1)
    assert frame.arrays["other"][0] == pytest.approx(rest.numpy(), abs=1e-6)


@pytest.mark.parametrize(("mix", "weights"), [("weights", [0.25, 1.0]), ("written", None)])
def test_heads_mixed_by_weights_and_by_what_they_write(
    sessions: dict[str, Session], mix: Any, weights: list[float] | None
) -> None:
    session = sessions["bert"]
    heads = [session.head(layer, head) for layer in (0, 1) for head in (1, 0)]
    content = views.lines(
        session, map="self", layers=(0, 2), heads=[1, 0], mix=mix, weights=weights, rows=(1, 4), count=14
    )
    frame = frame_of(content, "lines")
    own = mixed(heads, mix, rows=slice(1, 4), weights=weights and [*weights, *weights])
    shown = torch.zeros(3, 14).scatter_(
        1, torch.tensor(frame.arrays["keys"][0].astype("int64")), torch.tensor(frame.arrays["probs"][0])
    )
    torch.testing.assert_close(shown, own)


# ------------------------------------------------------------------------------------- the standalone page's


def test_all_else_follows_from_a_layer(sessions: dict[str, Session]) -> None:
    """Scores from q, k, scale and what the map says of itself: as a page without a server computes them."""
    for session, name in maps(sessions):
        if not views.has_distance_based_mask(session, map=name, layer=1):
            continue  # blocks of keys, which a page does not know of
        about = session.maps[name]
        frame = frame_of(views.layer(session, map=name, layer=1), "layer")
        q, k, v = (torch.tensor(frame.arrays[array]) for array in "qkv")
        written = torch.stack([session.head(1, head, name).out().norm(dim=-1) for head in range(about.heads)])
        torch.testing.assert_close(torch.tensor(frame.arrays["written"]), written)
        for head in range(about.heads):
            own = session.head(1, head, name)
            group = head // (about.heads // about.kv_heads)
            scores = q[head] @ k[group].T * frame.fields["scale"]
            if (cap := frame.fields["score_cap"]) is not None:
                scores = cap * (scores / cap).tanh()
            if about.biased:
                by_distance, (T, S) = torch.tensor(frame.arrays["bias"][head]), scores.shape
                scores = scores + torch.stack([by_distance[T - 1 - row : T - 1 - row + S] for row in range(T)])
            visible = AttentionPattern(about.causal, about.windows[1]).keep(*scores.shape)
            scores = scores.masked_fill(~visible, float("-inf"))
            torch.testing.assert_close(scores, own.scores(), atol=2e-6, rtol=1e-5)
            torch.testing.assert_close(scores.softmax(-1) @ v[group], own.z(), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize(("T", "S"), [(5, 5), (5, 2), (2, 5), (1, 4), (4, 1)])
def test_a_bias_by_distance_gives_every_row_back(sessions: dict[str, Session], T: int, S: int) -> None:
    session = sessions["bert"]
    own = session.head(0, 1)
    torch.manual_seed(0)
    bias = BucketedBias(BucketedBiasSpec(heads=2, buckets=8, max_distance=16, bidirectional=True))
    rows_of_head = partial(bias.head_rows, torch.nn.Identity(), own.head)
    head = replace(own, q=own.q[:T], k=own.k[:S], position_bias=rows_of_head)
    result = views._bias_by_distance(head)
    rows = torch.stack([result[T - 1 - query : T - 1 - query + S] for query in range(T)])
    full = head.bias()
    assert full is not None
    assert torch.equal(rows, full)


# ---------------------------------------------------------------------------------------------------- refusals

LINES: dict[str, Any] = {
    "map": "self",
    "layers": (0, 1),
    "heads": [0],
    "mix": "each",
    "rows": (0, 2),
    "count": 4,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"map": "cross"}, "no map 'cross'; this pass has 'self'"),
        ({"layers": (1, 3)}, "there are 2 layers"),
        ({"layers": (1, 1)}, "0 ≤ a < b"),
        ({"heads": []}, "at least one"),
        ({"heads": [0, 0]}, "each once"),
        ({"heads": [2]}, "no head 2"),
        ({"rows": (0, 99)}, "there are 14 query tokens"),
        ({"rows": (2, 2)}, "0 ≤ a < b"),
    ],
)
def test_lines_that_are_not_there(sessions: dict[str, Session], change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        views.lines(sessions["bert"], **{**LINES, **change})


def test_an_answer_has_a_limit(sessions: dict[str, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_ROWS", 7)
    views.lines(sessions["bert"], **{**LINES, "rows": (0, 7)})
    with pytest.raises(DataError, match="2 heads of 4 rows are 8 rows; one response holds at most 7"):
        views.lines(sessions["bert"], **{**LINES, "heads": [0, 1], "rows": (0, 4)})
    with pytest.raises(DataError, match="at most 7"):
        views.neuron(sessions["bert"], map="self", layer=0, head=0, query=0, keys=(0, 8))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": 2}, "no layer 2"),
        ({"head": 2}, "no head 2"),
        ({"map": "none"}, "no map 'none'"),
        ({"query": 14}, "0 to 13"),
        ({"keys": (0, 15)}, "there are 14 key tokens"),
    ],
)
def test_a_neuron_that_is_not_there(sessions: dict[str, Session], change: dict[str, Any], message: str) -> None:
    request: dict[str, Any] = {"map": "self", "layer": 0, "head": 0, "query": 0, "keys": (0, 1), **change}
    with pytest.raises(DataError, match=message):
        views.neuron(sessions["bert"], **request)


@pytest.mark.parametrize("change", [{"level": 1}, {"row": 1}, {"column": 1}])
def test_a_tile_that_is_not_there(sessions: dict[str, Session], change: dict[str, Any]) -> None:
    request: dict[str, Any] = {"map": "self", "layer": 0, "head": 0, "level": 0, "row": 0, "column": 0}
    with pytest.raises(DataError, match=r"no tile|allowed: linear, sqrt"):
        views.tile(sessions["bert"], **{**request, "companding": "linear", **change})


V = 5_000


class Known:
    """A writing of which only one distribution is known."""

    def __init__(self, logits: Tensor, ruled: Tensor | None = None) -> None:
        model = logits.log_softmax(-1)
        self.known = TokenDistribution(model, model if ruled is None else ruled - logits.logsumexp(-1), model)
        self.tree = self

    def distribution(self, node: int) -> TokenDistribution:
        return self.known

    def options_at(self, node: int) -> Any:
        return type("Asked", (), dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "typical_p")))

    def spelling(self, node: int, token: int) -> tuple[str, str]:
        return f" {token}", f"▁{token}"


def distribution_frame(writing: Any, **request: Any) -> BinaryFrame:
    return decode(distribution(writing, w="w", node=0, **request))


def shaped(frame: BinaryFrame, temperature: float, k: int | None, p: float | None) -> Tensor:
    """As the page does it, with nothing but what the frame holds. [V]"""
    values = torch.from_numpy(frame.arrays.get("ruled", frame.arrays["logprobs"]).copy()) / temperature
    if k is not None:
        values[values < values.sort(descending=True).values[k - 1]] = -torch.inf
    if p is not None:
        rising, order = values.sort(stable=True)
        out = rising.softmax(-1).cumsum(-1) <= 1 - p
        out[-1] = False
        values[order[out]] = -torch.inf
    result = torch.empty(len(values))
    result[torch.from_numpy(frame.arrays["ids"].astype("int64"))] = values.softmax(-1)
    return result


@pytest.mark.parametrize(
    ("temperature", "k", "p"), [(1.0, None, None), (0.5, 40, 0.9), (1.7, None, 0.95), (2.0, 7, None)]
)
@pytest.mark.parametrize("ruled", [False, True])
def test_sliders_come_out_as_the_filters(temperature: float, k: int | None, p: float | None, ruled: bool) -> None:
    logits = 3 * torch.randn(V, generator=torch.Generator().manual_seed(0))
    rules = [filters.suppress([5, 6]), filters.repetition_penalty(1.4)] if ruled else []
    ids, changed = torch.tensor([[1, 2, 3]]), logits[None]
    for change in rules:
        changed = change(ids, changed)
    frame = distribution_frame(Known(logits, changed[0] if ruled else None))
    expected = filters.temperature(temperature)(ids, changed)
    expected = expected if k is None else filters.top_k(k)(ids, expected)
    expected = expected if p is None else filters.top_p(p)(ids, expected)
    result = shaped(frame, temperature, k, p)
    assert torch.equal(result > 0, expected[0] > -torch.inf)
    assert torch.allclose(result, expected[0].softmax(-1), atol=1e-6)


def test_equals_are_in_the_order_of_ids() -> None:
    frame = distribution_frame(Known(torch.zeros(300)))
    assert frame.arrays["ids"].tolist() == list(range(300))
    assert len(frame.fields["tokens"]) == MAX_SPELLED_TOKENS and frame.fields["tokens"][3] == [" 3", "▁3"]


@pytest.mark.parametrize("temperature", [0.5, 0.8, 1.0, 1.5, 3.0])
def test_bins_stand_for_what_is_not_listed(temperature: float) -> None:
    logits = 3 * torch.randn(V, generator=torch.Generator().manual_seed(1))
    frame = distribution_frame(Known(logits), count=256)
    rest = logits.log_softmax(-1).sort(descending=True).values[256:].double()
    expected = float((rest / temperature).exp().sum())
    values, counts = (frame.arrays[f"rest_{name}"].astype(float) for name in ("logprobs", "counts"))
    result = float((torch.tensor(values / temperature).exp() * torch.tensor(counts)).sum())
    assert result == pytest.approx(expected, rel=1e-4 if temperature == 1 else 0.01)
    assert counts.sum() == V - 256 and len(values) <= BINS


def test_what_is_banned_is_in_no_bin() -> None:
    logits = torch.randn(100, generator=torch.Generator().manual_seed(1))
    changed = filters.suppress([3, 4, 5])(torch.tensor([[0]]), logits[None])[0]
    frame = distribution_frame(Known(logits, changed), count=10)
    listed = [token for token in (3, 4, 5) if token in frame.arrays["ids"]]
    assert int(frame.arrays["rest_counts"].sum()) == 90 - (3 - len(listed))
    whole = distribution_frame(Known(logits, changed))
    assert {int(i) for i, x in zip(whole.arrays["ids"], whole.arrays["ruled"], strict=True) if x < -1e9} == {
        3,
        4,
        5,
    }


def test_bins_of_little() -> None:
    none, counts = logprob_histogram(torch.tensor([-torch.inf]))
    assert (len(none), len(counts)) == (0, 0)
    values, counts = logprob_histogram(torch.full((7,), -3.0))
    assert values.tolist() == pytest.approx([-3.0]) and counts.tolist() == [7]


def test_double_precision_stays() -> None:
    frame = distribution_frame(Known(torch.randn(20, dtype=torch.float64)))
    assert frame.arrays["logprobs"].dtype == "float64"


def test_a_count_that_is_none() -> None:
    with pytest.raises(DataError, match="count is 0"):
        distribution_frame(Known(torch.zeros(9)), count=0)
    assert len(distribution_frame(Known(torch.zeros(9)), count=50).arrays["ids"]) == 9
