"""What the page shows and fetches is what the session says: to the bounds of docs and of the status line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.explorer.binary_frames import BinaryFrame
from glassformer.explorer.look import Look
from glassformer.inspect.session import Session
from tests.explorer.browser.samples import shaped, words
from tests.explorer.browser.tab import SENTENCE, Tab, significant, value

Tabs = Callable[..., Tab]

PROBS = 5e-6
OTHERS, RELATIVE = 2e-5, 1e-5
DOUBLE = 1e-10
READ = 5.1e-4
"""Relative: half a unit of the last of four significant digits, where the first is 1."""

KINDS = ["random", "minilm", "causal", "cross", "double"]


@pytest.fixture(scope="session")
def double(tmp_path_factory: pytest.TempPathFactory, look: Callable[..., Look]) -> Look:
    return look(shaped(tmp_path_factory.mktemp("double"), dtype="float64"), words(20))


@pytest.fixture(
    params=[pytest.param(kind, marks=() if kind in ("random", "cross") else pytest.mark.soak) for kind in KINDS]
)
def truth(request: pytest.FixtureRequest) -> tuple[Look, dict[str, Any]]:
    """A page, and a head of it."""
    fixture, state = {
        "random": ("scattered", {"map": "self", "l": 1, "h": 3}),
        "minilm": ("served", {"map": "self", "l": 4, "h": 11}),
        "causal": ("story", {"map": "self", "l": 2, "h": 5}),
        "cross": ("translation", {"map": "cross", "l": 1, "h": 1}),
        "double": ("double", {"map": "self", "l": 1, "h": 2}),
    }[request.param]
    return request.getfixturevalue(fixture), state


def head_of(session: Session, state: dict[str, Any]) -> Any:
    return session.head(state["l"], state["h"], state["map"])


def close(array: np.ndarray, expected: Tensor, bound: float, relative: float = 0.0) -> None:
    """Every number of a frame is the session's to a bound, and of its type; what is hidden is hidden in both."""
    assert array.dtype == (np.float64 if expected.dtype == torch.float64 else np.float32)
    assert array.shape == tuple(expected.shape)
    ours = torch.from_numpy(array.copy()).double()
    if expected.dtype == torch.float64:
        bound, relative = DOUBLE, 0.0
    hidden = expected == float("-inf")
    assert torch.equal(hidden, ours == float("-inf"))
    gap = (ours - expected.double()).abs()[~hidden]
    assert bool((gap <= bound + relative * expected.double().abs()[~hidden]).all()), float(gap.max())


def test_the_models_have_something_to_show(scattered: Look, double: Look) -> None:
    for look in (scattered, double):
        scores = torch.cat([look.session.head(layer, head).scores() for layer in (0, 1) for head in range(4)])
        assert 2 < float(scores.std()) < 4


def test_what_the_page_fetches(tab: Tabs, truth: tuple[Look, dict[str, Any]]) -> None:
    """A row, everything that makes it, and the tiles of the heat map."""
    look, state = truth
    head = head_of(look.session, state)
    query = 3
    one = tab()
    with one.frames("row") as rows:
        one.open(look, view="head", **state, q=query)
    (row,) = rows
    assert row.fields == {"map": state["map"], "layer": state["l"], "head": state["h"], "query": query}
    close(row.arrays["probs"], head.probs(query)[0], PROBS)
    close(row.arrays["scores"], head.scores(query)[0], OTHERS, RELATIVE)

    with one.frames("neuron") as neurons:
        one.go("neuron")
    (neuron,) = neurons
    some = slice(*neuron.fields["keys"])
    assert neuron.fields["kv_head"] == head.kv_head
    assert neuron.fields["scale"] == pytest.approx(head.scale, abs=1e-12)
    close(neuron.arrays["probs"], head.probs(query)[0], PROBS)
    for name, expected in {
        "scores": head.scores(query)[0],
        "q": head.q[query],
        "k": head.k[some],
        "v": head.v[some],
        "z": head.z(query)[0],
    }.items():
        close(neuron.arrays[name], expected, OTHERS, RELATIVE)

    with one.frames("tile") as tiles:
        one.go("matrix")
    check_tile(tiles[0], head.probs())
    with one.frames("tile") as tiles:
        one.page.get_by_role("checkbox", name="square-root colours").check()
    assert tiles[0].fields["companding"] == "sqrt"
    check_tile(tiles[0], head.probs())


def check_tile(tile: BinaryFrame, probs: Tensor) -> None:
    """Right to 1/255 of its own largest."""
    assert tile.fields["level"] == 0
    scale = tile.fields["scale"]
    assert scale == pytest.approx(float(probs.max()), abs=PROBS)
    share = torch.from_numpy(tile.arrays["tile"].copy()).double() / 255
    displayed = scale * (share**2 if tile.fields["companding"] == "sqrt" else share)
    assert float((displayed - probs.double()).abs().max()) <= scale / 255


# ---------------------------------------------------------------------------------------- what people can read


def check_number(text: str, expected: float) -> None:
    """Four significant digits of a probability."""
    assert value(text) == pytest.approx(expected, rel=READ, abs=1e-7), text
    assert expected == 0 or significant(text) == 4, text


def rank_of(probs: Tensor, key: int) -> int:
    return 1 + int((probs > probs[key]).sum())


def test_a_link_pointed_at_is_said_exactly(tab: Tabs, truth: tuple[Look, dict[str, Any]]) -> None:
    look, state = truth
    one = tab()
    session = look.session
    about = session.maps[state["map"]]
    head = head_of(session, state)
    query = 3
    page = one.open(look, view="head", **state, q=query)
    keys = page.locator(".head-tokens.key")
    for key in (0, 2, 3):
        keys.locator(f"[data-token='{key}']").hover()
        name = re.escape(session.streams[about.keys][key].text)
        spoken_text = one.wait_for_announcement(rf"to “{name}”, .*rank")
        match = SENTENCE.search(spoken_text)
        assert match, spoken_text
        probs = head.probs(query)[0]
        assert match["query"] == session.streams[about.queries][query].text
        check_number(match["p"], float(probs[key]))
        assert int(match["of"]) == int(torch.isfinite(head.scores(query)[0]).sum())
        assert int(match["rank"]) == rank_of(probs, key)
        exact = page.locator(".head-exact").inner_text()
        assert exact == match["p"]


def cells_under(one: Tab, steps: int) -> Iterator[tuple[int, int, str]]:
    """Move the pointer over the heat map: query, key, and what the tip says."""
    page = one.page
    box = page.get_by_role("application").bounding_box()
    for y in range(1, steps):
        for x in range(1, steps):
            page.mouse.move(box["x"] + box["width"] * x / steps, box["y"] + box["height"] * y / steps)
            tip = page.locator(".matrix-tip")
            if tip.count() == 0:
                continue
            one.until("/rank|hidden/.test(document.querySelector('.matrix-tip')?.innerText ?? 'hidden')")
            query, key = (int(text) for text in tip.locator("small").all_inner_texts())
            yield query, key, tip.inner_text()


def test_a_cell_pointed_at_shows_its_number(tab: Tabs, truth: tuple[Look, dict[str, Any]]) -> None:
    check_cells(tab(), *truth)


def test_a_cell_of_a_long_map_pointed_at_shows_its_number(tab: Tabs, lecture: Look) -> None:
    check_cells(tab(), lecture, {"map": "cross", "l": 1, "h": 0})


def check_cells(one: Tab, look: Look, state: dict[str, Any]) -> None:
    """Wherever the pointer is on the heat map, the tip has the session's numbers of the cell that it names."""
    one.open(look, view="matrix", **state)
    head = head_of(look.session, state)
    visible = set()
    for query, key, tip in cells_under(one, 5):
        visible.add((query, key))
        score = float(head.scores(query)[0, key])
        if "hidden" in tip:
            assert score == float("-inf"), (query, key)
            continue
        probs = head.probs(query)[0]
        result = re.search(r"([\d.e−]+) rank (\d+) of (\d+)\s+score ([−\d.e]+)", tip)
        assert result, tip
        check_number(result[1], float(probs[key]))
        assert int(result[2]) == rank_of(probs, key)
        assert value(result[4]) == pytest.approx(score, rel=READ, abs=1e-6)
    assert len(visible) >= 8, "the pointer was over too few cells"


def test_what_is_painted_is_what_is_largest(tab: Tabs, served: Look) -> None:
    """Of the heat map as it stands on screen: under the strongest pixel lies a cell of the largest probability."""
    one = tab(color_scheme="dark")
    page = one.open(served, view="matrix", map="self", l=4, h=11)
    one.wait_for_colours(".matrix-plot canvas", 9)
    at = page.eval_on_selector(
        ".matrix-plot canvas",
        """canvas => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let best = [-1, 0];
            for (let i = 0; i < data.length; i += 4) {
                const yellow = data[i] + data[i + 1] - 2 * data[i + 2];
                if (data[i + 3] === 255 && yellow > best[0]) best = [yellow, i / 4];
            }
            const box = canvas.getBoundingClientRect();
            const scale = box.width / canvas.width;
            const [x, y] = [best[1] % canvas.width, Math.floor(best[1] / canvas.width)];
            return [box.x + (x + 3) * scale, box.y + (y + 3) * scale];
        }""",
    )
    page.mouse.move(*at)
    one.until("/rank/.test(document.querySelector('.matrix-tip')?.innerText ?? '')")
    query, key = (int(text) for text in page.locator(".matrix-tip small").all_inner_texts())
    probs = served.session.head(4, 11).probs()
    assert float(probs[query, key]) >= float(probs.max()) * 254 / 255


def test_the_arithmetic_adds_up(tab: Tabs, truth: tuple[Look, dict[str, Any]]) -> None:
    """Each step as it is written out, read and done again."""
    look, state = truth
    one = tab()
    query, key = 3, 2
    page = one.open(look, view="neuron", **state, q=query, k=key)
    head = head_of(look.session, state)
    working = page.locator(".neuron-working")
    for more in working.get_by_role("button", name=re.compile("all .* terms")).all():
        more.click()
    steps = {step.get_by_role("heading").inner_text(): step for step in working.locator("> li").all()}
    number = r"([−\d.e]+)"

    multiply = steps["Multiply dimension by dimension, and add"].inner_text()
    terms = [value(a) * value(b) for a, b in re.findall(r"\(?([−\d.e]+)\)? × \(?([−\d.e]+)\)?", multiply)]
    dot = value(re.search(rf"q · k = {number}$", multiply, re.MULTILINE)[1])  # type: ignore[index]
    assert len(terms) == head.q.shape[-1]
    assert sum(terms) == pytest.approx(dot, abs=0.01 * sum(map(abs, terms))), "three digits a factor"
    assert dot == pytest.approx(float(head.q[query] @ head.k[key]), rel=READ, abs=1e-5)

    scaled = re.search(rf"score = {number} × {number} = {number}", steps["Scale"].inner_text())
    assert scaled
    score = value(scaled[3])
    assert value(scaled[1]) * value(scaled[2]) == pytest.approx(score, rel=3e-3, abs=1e-6)
    assert score == pytest.approx(float(head.scores(query)[0, key]), rel=READ, abs=1e-5)

    (title,) = (title for title in steps if title.startswith("Softmax"))
    softmax = steps[title].inner_text()
    fractions = [
        [
            value(part)
            for part in fraction.locator("> span:not(.unseen)").all_inner_texts()
            if re.fullmatch(r"[−\d.e]+", part)
        ]
        for fraction in steps[title].locator(".neuron-fraction").all()
    ]
    (over, under) = next(parts for parts in fractions if len(parts) == 2)
    p = value(re.findall(rf"= {number}", " ".join(softmax.split()))[-1])
    assert over / under == pytest.approx(p, rel=2e-3)
    assert p == pytest.approx(float(head.probs(query)[0, key]), rel=READ, abs=1e-6)

    checks = working.locator(".neuron-check").all_inner_texts()
    assert len(checks) == 3, "score, probability and z are held against the model's own"
    assert all(check.startswith("✓") for check in checks), checks


def test_every_head_of_the_model_view_says_what_the_session_says(tab: Tabs, served: Look) -> None:
    page = tab().open(served)
    names = [cell.get_attribute("aria-label") for cell in page.locator(".model-view").get_by_role("gridcell").all()]
    expected = [
        f"layer {layer} · head {head}: {summary}"
        for layer in range(6)
        for head, summary in enumerate(served.session.overview(layer).summaries)
    ]
    assert names == expected
