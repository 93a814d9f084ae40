"""The live view of text generation: each choice on a terminal, a line a step on a pipe."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from glassformer import ConfigError, Model, load
from glassformer.cli.generate import generate
from glassformer.inspect.generation_trace import GenerationTrace
from glassformer.inspect.generation_view import LiveView, colours, method, probability, watch
from glassformer.inspect.token_tree import TreeStep
from tests.cli.conftest import run_here

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def stories(shared: Path) -> str:
    return str(shared / "models" / "stories260k")


@pytest.fixture(scope="module")
def model(stories: str) -> Model:
    return load(stories)


def terminal(width: int = 80, height: int = 30) -> Console:
    return Console(
        width=width,
        height=height,
        force_terminal=True,
        color_system="truecolor",
        file=io.StringIO(),
        record=True,
    )


def pictured(model: Model, steps: int, width: int = 80, height: int = 30, **options: Any) -> str:
    """What is on the screen after so many steps."""
    writing, console = model.writing(PROMPT), terminal(width, height)
    asked = writing.resolve_options(**options)
    screen = LiveView(writing, asked, console)
    seen: list[TreeStep] = []

    def see(step: TreeStep) -> None:
        seen.append(step)
        if len(seen) <= steps:
            screen.update(step)

    writing.write(asked, on_step=see)
    console.print(screen.picture())
    return console.export_text()


# --------------------------------------------------------------------------------------------------- a terminal


def test_a_choice_with_its_bars(model: Model) -> None:
    shown = pictured(model, 6, max_new_tokens=40)
    assert "greedy decoding" in shown and "Once upon a time, there was a little g\n" in shown
    assert "step 6 of 40 · 1.56 bits\n" in shown
    lines = shown.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("▶"))
    assert re.fullmatch(r'▶ " g" +█+[▏▎▍▌▋▊▉]? +64\.0%', lines[first].rstrip())
    assert re.fullmatch(r'  " b" +█+[▏▎▍▌▋▊▉]? +27\.5%', lines[first + 1].rstrip())
    assert len(re.findall(r"^  \"", shown, re.MULTILINE)) == 9 and "all others" in shown
    assert "cut" not in shown and "100%" in lines[-1]


def test_what_the_options_cut(model: Model) -> None:
    shown = pictured(model, 12, max_new_tokens=40, do_sample=True, temperature=1.2, top_k=20, top_p=0.9, seed=3)
    assert shown.startswith("sampled, temperature 1.2, top-k 20, top-p 0.9, seed 3\n")
    assert "2 of 512 tokens kept, with 96.5% of the probability" in shown
    assert "chosen from" in shown and shown.count(" cut") == 8
    rows = re.findall(r"(\d+\.\d)% +(\d+\.\d)%", shown)
    assert sum(float(share) for _, share in rows) == pytest.approx(100, abs=0.11)


def test_beams_as_a_tree(model: Model) -> None:
    shown = pictured(model, 12, max_new_tokens=14, num_beams=4)
    assert shown.startswith("4 beams\nOnce upon a time\n└── , there was a little\n")
    assert "girl named Lily." in shown and "boy named" in shown
    scores = [float(score) for score in re.findall(r"  (-\d+\.\d\d) …", shown)]
    assert len(scores) == 4
    ended = pictured(model, 14, max_new_tokens=14, num_beams=4)
    assert len(re.findall(r"  (-\d+\.\d\d) ■", ended)) == 4


def test_draws_side_by_side(model: Model) -> None:
    shown = pictured(model, 9, max_new_tokens=10, do_sample=True, temperature=1.5, seed=1, num_return_sequences=3)
    assert shown.count(" …\n") + len(re.findall(r"\d …", shown)) >= 3


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 20), (40, 24), (200, 60)])
def test_it_fits_the_terminal(model: Model, width: int, height: int) -> None:
    shown = pictured(model, 200, width, height, max_new_tokens=200, do_sample=True, temperature=1.1, top_p=0.95, seed=2)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) < height
    assert "▶" in shown


def test_before_the_first_step(model: Model) -> None:
    assert "reading the prompt" in pictured(model, 0, max_new_tokens=3)


def test_it_ends_with_the_whole_text(model: Model) -> None:
    console = terminal()
    watch(model.writing(PROMPT), console, max_new_tokens=60)
    shown = console.export_text()
    wanted = (PROMPT + model.generate(PROMPT, max_new_tokens=60)).split()
    assert " ".join(wanted) in " ".join(shown.split())
    console = terminal()
    watch(model.writing(PROMPT), console, max_new_tokens=9, num_beams=3, num_return_sequences=2)
    assert len(re.findall(r"score -0\.\d\d\d, max_new_tokens", console.export_text())) == 2


def test_ctrl_c_keeps_what_was_written(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    own = GenerationTrace.write

    def interrupted(self: GenerationTrace, *given: Any, on_step: Any, **named: Any) -> Any:
        def interrupt(step: TreeStep) -> None:
            on_step(step)
            if len(self.nodes) == 5:
                raise KeyboardInterrupt

        return own(self, *given, on_step=interrupt, **named)

    monkeypatch.setattr(GenerationTrace, "write", interrupted)
    console = terminal()
    with pytest.raises(KeyboardInterrupt):
        watch(model.writing(PROMPT), console, max_new_tokens=60)
    assert console.export_text().endswith("Once upon a time, there was a little\n")


def test_no_text_can_steer_the_terminal(model: Model) -> None:
    console = terminal()
    watch(model.writing("a\x1b[2J\rb"), console, max_new_tokens=2)
    assert "\\x1b[2J\\rb" in console.export_text()


# ------------------------------------------------------------------------------------------------------- a pipe


def test_on_a_pipe_a_line_a_step(stories: str, model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_here(capsys, "generate", stories, PROMPT, "-n", "6", "--watch")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "greedy decoding: always the most likely token"
    assert lines[2].split() == [
        "1",
        '","',
        "96.9%",
        "0.23",
        "bits",
        '","',
        "96.9%",
        '"',
        'there"',
        "2.9%",
        '"',
        'in"',
        "<0.1%",
    ]
    assert [line.split()[0] for line in lines[2:8]] == list("123456")
    assert lines[-1] == model.generate(PROMPT, max_new_tokens=6)
    assert "\x1b" not in done.stdout


def test_on_a_pipe_beams(stories: str, model: Model, capsys: Any) -> None:
    generate(stories, PROMPT, max_new_tokens=6, num_beams=3, num_return_sequences=2, watch=True)
    out = capsys.readouterr().out
    assert out.startswith("3 beams\n") and out.count("score -") == 2
    for text in model.generate(PROMPT, max_new_tokens=6, num_beams=3, num_return_sequences=2):
        assert text in out


def test_on_a_pipe_ctrl_c_keeps_what_was_written(
    stories: str, model: Model, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    own = GenerationTrace.write

    def interrupted(self: GenerationTrace, *given: Any, on_step: Any, **named: Any) -> Any:
        def interrupt(step: TreeStep) -> None:
            on_step(step)
            if len(self.nodes) == 5:
                raise KeyboardInterrupt

        return own(self, *given, on_step=interrupt, **named)

    monkeypatch.setattr(GenerationTrace, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generate(stories, PROMPT, watch=True)
    assert capsys.readouterr().out.endswith(", there was a little\n")


# -------------------------------------------------------------------------------------------------------- parts


def test_it_goes_with_no_other_picture(stories: str) -> None:
    for other in ({"json": True}, {"top": 3}):
        with pytest.raises(ConfigError, match="--watch shows the most likely"):
            generate(stories, PROMPT, watch=True, **other)


def test_colours_are_darker_the_less_likely() -> None:
    def light(logprob: float | None) -> float:
        red, green, blue = map(int, re.findall(r"on rgb\((\d+),(\d+),(\d+)\)", colours(logprob))[0])
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    results = [light(None), *(light(math.log(share)) for share in (1e-9, 1e-3, 0.01, 0.1, 0.5, 1.0))]
    assert results == sorted(results) and results[0] == results[1] == results[2]
    for share in (1e-3, 0.01, 0.03, 0.05, 0.1, 0.3, 1.0):
        style = colours(math.log(share))
        ink, paper = ([int(n) / 255 for n in part] for part in re.findall(r"rgb\((\d+),(\d+),(\d+)\)", style))
        shades = sorted(_luminance(colour) for colour in (ink, paper))
        assert (shades[1] + 0.05) / (shades[0] + 0.05) >= 4.5, share


def _luminance(colour: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_percent() -> None:
    results = [probability(math.log(share)) for share in (1.0, 0.1234, 0.001, 0.0001)]
    assert [*results, probability(None)] == ["100.0%", "12.3%", "0.1%", "<0.1%", "0.0%"]


def test_the_method_in_words(model: Model) -> None:
    writing = model.writing(PROMPT)
    assert method(writing.resolve_options(num_beams=3, length_penalty=0.8)) == "3 beams, length penalty 0.8"
    assert method(writing.resolve_options(num_beams=4, num_beam_groups=2, do_sample=True, seed=1)) == (
        "4 beams in 2 groups, sampled, seed 1"
    )
