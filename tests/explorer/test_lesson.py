"""Lessons: every shipped one is true of its model, and what breaks the schema is refused with its field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.core.flow import Flow
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.explorer.describe import model_facts
from glassformer.explorer.facts import FACTS, LISTS, token_at
from glassformer.explorer.lesson import MAX_BYTES, Lesson, check_template, filled, read_lesson, shipped
from glassformer.explorer.lesson_options import VALUES, options_of
from glassformer.explorer.registry import tabs
from glassformer.explorer.tour import LessonRun, tell, without
from glassformer.files.schema import parse
from glassformer.inspect.patching.patches import record_taps
from glassformer.inspect.tokens import Token
from glassformer.model import Model
from tests.e2e.tiny_models import make_folder

ON_HUB = {"cross-attention": ("t5", "translation"), "classifier": ("bert", "text-classification")}
"""Lessons on models of the Hub, and the tiny family and task on which they are run here."""

READERS = ("url-state", "generation-options", "patching", "contexts", "similarity", "embedding-state", "readings")
"""Modules of the page that read its state from an address."""

Run = Callable[[str], tuple[LessonRun, Any]]


@pytest.fixture(scope="module")
def played(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A shipped lesson on its model: the report, and its session."""
    loaded: dict[str, Model] = {}

    def play(name: str) -> tuple[LessonRun, Any]:
        lesson = read_lesson(name)
        address = lesson.model or str(minilm)
        if name in ON_HUB:
            family, task = ON_HUB[name]
            address = str(make_folder(tmp_path_factory.mktemp(name) / family, family, task=task))
        if address not in loaded:
            loaded[address] = glassformer.load(address, **({"task": lesson.task} if lesson.task else {}))
        texts = lesson.texts or ["time flies like an arrow", "fruit flies like a banana"]
        session = loaded[address].inspect(*texts)
        return tell(session, model_facts(loaded[address]), lesson), session

    return play


def test_at_least_ten_are_shipped_and_each_is_listed_with_a_sentence() -> None:
    assert len(shipped()) > 10 and "tour" in shipped()
    for name in shipped():
        lesson = read_lesson(name)
        assert lesson.about and lesson.about.endswith("."), name


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_lesson_has_its_numbers_from_the_model(name: str, played: Run) -> None:
    report, session = played(name)
    asked = 0
    for step in report.steps:
        assert "{" not in "".join(words for style, words in step.text if style != "pre"), "each name is filled"
        if step.question is not None:
            asked += 1
            right = step.question
            assert right.choices or right.number is not None
            assert not right.choices or right.answer in right.choices
        if step.without is not None:
            assert -1 <= without(session, **step.without)["cosine"] <= 1
        if step.code is not None:
            assert "def forward" in step.code.source and "glassformer/core/" in step.code.place
    assert asked or name == "tour"
    assert LessonRun.from_dict(json.loads(json.dumps(report.to_dict()))).steps[0].title == report.steps[0].title


def test_the_answers_are_those_of_the_pass(played: Run) -> None:
    report, session = played("attention")
    row = session.head(4, 9).probs([1])[0]
    first = report.steps[0].question
    assert first is not None and first.answer == session.streams["text"][int(row.argmax())].text == "flies"
    report, session = played("masks")
    visible = report.steps[0].question
    assert visible is not None and visible.number == 4  # of token 3, counted from 0
    report, session = played("generation")
    likeliest = report.steps[0].question
    assert likeliest is not None and likeliest.number == pytest.approx(
        float(session.lens(top=1).logprobs[-1, -1, 0].exp()), rel=1e-4
    )


def test_another_text_or_model_moves_the_lesson_to_its_own_link(minilm: Path) -> None:
    model = glassformer.load(minilm)
    session = model.inspect("the old man the boat")
    report = tell(session, model_facts(model), read_lesson("masks"))
    assert report.texts == ["the old man the boat"] and len(report.steps) == 3
    with pytest.raises(DataError, match=r"lesson 'Layers: a word in its context': steps\[0\]: #1 is an occurrence"):
        tell(model.inspect("a bank"), model_facts(model), read_lesson("context"))


STEP = {"title": "One", "text": "{tokens} tokens"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"titel": "x"}, r"steps\[0\]: 'titel' is no option; nearest: 'title'"),
        ({"text": ""}, r"steps\[0\].text is ''; it must be a text of 1 to 4,000 characters"),
        ({"text": "{attenton}"}, r"steps\[0\]: \{attenton\} is no fact; nearest: 'attention'"),
        ({"text": "{tokens:>99999999}"}, r"steps\[0\]: .*the format is '>99999999'; allowed"),
        ({"text": "{tokens.__class__}"}, r"steps\[0\]: .*is no name"),
        ({"text": "a { b"}, r"steps\[0\]: .*write \{\{ and \}\} for braces"),
        ({"view": "heads"}, r"steps\[0\]: view is 'heads'; nearest: 'head'; allowed: model, head"),
        ({"view": []}, r"steps\[0\]: view is ''"),
        ({"list": "token"}, r"steps\[0\].list is 'token'; it must be tokens, vector"),
        ({"layer": "4"}, r"steps\[0\].layer is '4'; it must be a whole number"),
        ({"head": -1}, r"steps\[0\].head is -1; it must be a whole number from 0 up"),
        ({"numbers": {"a b": {"of": "tokens"}}}, r"steps\[0\].numbers.* is 'a b'; it must be a name"),
        ({"numbers": {"a": {"of": "token"}}}, r"steps\[0\].numbers.a.of is 'token'; it must be a fact"),
        ({"options": {"zzz": "1"}}, r"steps\[0\]: options has 'zzz', which is no option of model; allowed: mix, sort"),
        ({"options": {"sotr": "kind"}}, r"steps\[0\]: options has 'sotr', .*nearest: 'sort'"),
        (
            {"options": {"g.top_k": "5"}, "view": ["head", "lens"]},
            r"no option of head or lens; .*allowed: .*r\.measure",
        ),
        ({"options": {"g.tpo_k": "5"}, "view": "generate"}, r"nearest: 'g.top_k'"),
        (
            {"options": {"p.kind": "atention"}, "view": "patch"},
            r"steps\[0\]: options: p.kind is 'atention'; nearest: 'attention'; it must be residual, heads",
        ),
        ({"options": {"sort": "size"}}, r"sort is 'size'; it must be layer, kind"),
        ({"options": {"lv": "last"}, "view": "embedding"}, r"lv is 'last'; it must be a whole number from 0 to 999"),
        ({"options": {"by": "token"}, "view": "contexts"}, r"by is 'token'; it must be layer, head or neuron"),
        ({"options": {"off": "4.9"}}, r"off is '4.9'; it must be heads as map.layer.head"),
        (
            {"options": {"g.temperature": "hot"}, "view": "generate"},
            r"options: g.temperature is 'hot'; it must be a num",
        ),
        ({"options": {"g.max_new_tokens": "9999"}, "view": "generate"}, r"takes at most 1024"),
        ({"options": {"lv": "{levle_after}"}, "view": "embedding"}, r"\{levle_after\} is no fact"),
        ({"question": {"ask": "?"}}, r"steps\[0\]: question must have one of number, choices and list"),
        ({"question": {"ask": "?", "number": "nothing"}}, r"steps\[0\]: there is no number 'nothing'"),
        ({"question": {"ask": "?", "choices": {"a": "tokens"}}}, r"steps\[0\].question.choices .*2 to 12 choices"),
        ({"needs": "a head"}, r"steps\[0\]: needs is 'a head'; allowed: answer, no answer"),
    ],
)
def test_a_lesson_that_breaks_its_schema_names_the_field(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "lesson.json"
    file.write_text(json.dumps({"title": "Mine", "steps": [{**STEP, **change}]}))
    with pytest.raises(DataError, match=message) as error:
        read_lesson(file)
    assert str(error.value).startswith(str(file))


def test_options_of_a_step_are_those_that_the_page_reads_from_an_address() -> None:
    core, apart = (
        Path(__file__).parents[2] / "web" / "src" / "core",
        {"v", "view", "map", "l", "h", "q", "k", "tour", "win", "changed", "why"},
    )
    pages = "".join((core / f"{name}.ts").read_text("utf-8") for name in READERS)
    read = set(re.findall(r'(?:pairs\.get|pairs\.has|choice|one|whole)\((?:pairs, )?"([\w.]+)"', pages)) - apart
    known = {name for view in tabs() for name in options_of(view)}
    assert len(read) > 25 and not read - known
    views = "".join(path.read_text("utf-8") for path in (core.parent / "views").glob("*.tsx"))
    choices = {
        f"c.{name}"
        for found in re.findall(r'useChoice\(props, "(\w+)"|state\.(?:value\.chosen\.|peek\(\)\.chosen, )(\w+)', views)
        for name in found
        if name
    }
    assert choices == {name for name in known if name.startswith("c.")}
    named = {name for name in known if not name.startswith(("g.", "c."))}
    assert not {name for name in named - read if f'"{name.partition(".")[2]}"' not in pages}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "must be a JSON object, got list"),
        ('{"title": "x", "title": "y", "steps": []}', "duplicate"),
        ('{"title": "x"}', "'steps' is missing"),
        ('{"title": "x", "steps": []}', "a list of 1 to 100 steps"),
        (
            '{"title": "x", "texts": [], "steps": [{"title": "a", "text": "b"}]}',
            r"texts is .*a list of one",
        ),
        ('{"title": "' + "x" * (4 << 20) + '", "steps": []}', f"a file of this kind may have {MAX_BYTES}"),
    ],
)
def test_a_file_that_is_no_lesson_is_refused(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "lesson.json"
    file.write_text(content)
    with pytest.raises(DataError, match=message):
        read_lesson(file)


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    file = tmp_path / "lesson.json"
    file.write_text(json.dumps({"title": "Mine", "steps": [STEP]}), "utf-8-sig")
    assert file.read_bytes().startswith(b"\xef\xbb\xbf") and read_lesson(file).title == "Mine"


def test_a_name_that_is_none_is_refused_with_the_nearest_and_all_names() -> None:
    with pytest.raises(
        DataError, match=r"atention: no such file, and no lesson of that name; nearest: 'attention'"
    ) as no:
        read_lesson("atention")
    assert str(no.value).endswith(f"the lessons: {', '.join(shipped())}")


def test_a_folder_is_no_lesson(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a regular file, but a folder"):
        read_lesson(tmp_path)


def test_a_lesson_is_a_way_to_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(import_module("glassformer.explorer.look"), "in_notebook", lambda: True)
    model = glassformer.load("package:glassformer/checkpoints/shakespeare")
    look = model.look(lesson="generation")
    assert list(look.texts) == ["ROMEO: I will"] and look.start.tour == 1
    assert tell(look.session, model_facts(model), look.explorer.runs.factory.lesson).lesson.startswith("Generation")
    assert look._python() == "model.look('ROMEO: I will', lesson='generation')"
    other = model.look("JULIET: good", lesson="attention")  # of another model, on a text of one's own
    assert other.texts == ("JULIET: good",) and other.explorer.runs.factory.lesson.steps[0].layer is None
    for asked, message in (
        ({"lesson": "atention"}, "the lessons: tokens, positions"),
        ({"lesson": "tour"}, "the lesson 'Tour' is on a text of yours"),
        ({}, "there is no text to look at"),
        ({"lesson": "attention", "view": "head"}, "a lesson opens the views of its steps"),
    ):
        with pytest.raises(GlassformerError, match=message):
            model.look(**asked)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": 9}, r"lesson 'Mine': steps\[0\]: layer is 9; the model has layers 0 to 3"),
        ({"head": 99}, r"steps\[0\]: head is 99; the model has heads 0 to 5"),
        ({"map": "cross"}, r"steps\[0\]: map is 'cross'; this pass has self"),
        ({"query": "Juliet"}, r"steps\[0\]: the text has no word 'Juliet'"),
        ({"query": "I#3"}, r"steps\[0\]: the text has 'I' 1 times; there is no I#3"),
        ({"view": "similarity"}, r"steps\[0\]: view is 'similarity'; this model has model, head"),
        ({"without": ["{block}.attn.z[77]"]}, r"steps\[0\]: there is no head 77"),
        ({"without": ["blocks.0.nothing"]}, r"steps\[0\]: no tap matches 'blocks.0.nothing'"),
        ({"tensors": ["blocks.77.out"]}, r"steps\[0\]: no tap matches 'blocks.77.out'"),
        ({"code": "blocks.77"}, r"steps\[0\]: code is 'blocks.77', which is no part of this network"),
        ({"question": {"ask": "?", "number": "query"}}, r"steps\[0\]: query is 'I', which is no number"),
        ({"question": {"ask": "?", "list": "tokens"}}, r"steps\[0\]: the list 'tokens' has no shares"),
        ({"view": "embedding", "options": {"lv": "{query}"}}, r"steps\[0\]: options: lv is 'I'; it must be a whole"),
        ({"text": "{query:.2f}"}, r"steps\[0\]: \{query:.2f\}: 'I' cannot be written so"),
    ],
)
def test_what_the_model_has_not_is_refused_with_the_step(change: dict[str, Any], message: str) -> None:
    model = glassformer.load("package:glassformer/checkpoints/shakespeare")
    session = model.inspect("ROMEO: I")
    lesson = parse(Lesson, {"title": "Mine", "texts": ["ROMEO: I"], "steps": [{**STEP, **change}]})
    with pytest.raises(DataError, match=message):
        tell(session, model_facts(model), lesson)


def test_markup_is_that_of_the_lesson_and_never_of_a_token() -> None:
    model = glassformer.load("package:glassformer/checkpoints/shakespeare")
    session = model.inspect("ROMEO: **I** <script>")
    step = {"title": "<b>", "text": "**{tokens}** *x* `<i>` {query}", "query": 1}
    (made,) = tell(session, model_facts(model), parse(Lesson, {"title": "Mine", "steps": [step]})).steps
    assert [run for run in made.text if run[1].strip()][:3] == [
        ("b", str(len(session.streams["text"]))), ("em", "x"), ("code", "<i>")
    ]  # fmt: skip
    assert made.title == "<b>" and made.text[-1][0] == ""


def test_tokens_are_found_by_number_word_and_occurrence() -> None:
    tokens = [Token(text, text, at) for at, text in enumerate("a bank is a bank".split())]
    assert [token_at(at, tokens) for at in (1, -1, "is", "bank#2", "#1", "#2", "a#2")] == [1, 4, 2, 4, 1, 4, 3]
    with pytest.raises(DataError, match=r"the text has 'bank' 2 times; there is no bank#3; there are bank#1, bank#2$"):
        token_at("bank#3", tokens)
    with pytest.raises(DataError, match=r"the text has 'bnk' 0 times; there is no bnk#1; nearest: 'bank'$"):
        token_at("bnk#1", tokens)


def test_names_in_braces_are_filled_and_checked() -> None:
    numbers = {"a": 1234, "b": 0.5, "c": "word"}
    assert filled("{a:,} {b:.0%} {b} {c} {{}}", numbers.__getitem__) == "1,234 50% 0.5 word {}"
    with pytest.raises(ConfigError, match="allowed: a, b, c"):
        check_template("{d}", numbers)


def test_values_of_options_are_those_that_the_page_takes() -> None:
    pages = "".join(path.read_text("utf-8") for path in (Path(__file__).parents[2] / "web" / "src").rglob("*.ts*"))
    lists = {frozenset(re.findall(r'"([^"]+)"', found)) for found in re.findall(r'\[((?:"[^"]+", )+"[^"]+")\]', pages)}
    choices = {name: values for name, each in VALUES.items() if (values := each.schema.get("enum"))}
    texts = {"from", "to", "sp", "pieces"}  # numbers of texts, and yes or no
    assert len(choices) > 20 and not {name for name in choices if frozenset(choices[name]) not in lists} - texts


def test_the_page_of_lessons_lists_the_values_of_options() -> None:
    text = (Path(__file__).parents[2] / "docs" / "lessons.md").read_text("utf-8")
    assert not [row for name, each in VALUES.items() if (row := f"| `{name}` | {each.words} |") not in text]


def test_the_page_of_lessons_lists_every_fact_and_list() -> None:
    text = (Path(__file__).parents[2] / "docs" / "lessons.md").read_text("utf-8")
    assert not [name for name in [*FACTS, *LISTS, *shipped()] if f"`{name}`" not in text]


def test_what_the_lessons_say_is_true_of_their_models(played: Run) -> None:
    """Claims that stand as words next to the numbers; those that are numbers are computed anyway."""
    report, session = played("positions")
    words = [token.text for token in session.streams["text"]]
    first, second = (at for at, word in enumerate(words) if word == "flies")
    question = report.steps[1].question
    batch = session.batch
    assert batch.input_ids[0, first] == batch.input_ids[0, second]  # only their places keep the two apart:
    assert batch.token_type_ids is None or batch.token_type_ids[0, first] == batch.token_type_ids[0, second]
    assert question is not None and question.number is not None and question.number < 0.99

    report, session = played("attention")
    scores = session.head(4, 9).scores([1])[0].sort(descending=True).values
    question = report.steps[3].question
    assert question is not None and question.number == pytest.approx(float((scores[0] - scores[1]).exp()), rel=1e-4)
    assert without(session, **report.steps[5].without)["cosine"] > 0.99  # "the change is often small"

    report, session = played("heads")
    question = report.steps[1].question
    shares = [float(session.head(layer, 0).probs([1]).max()) for layer in (0, 5)]
    assert question is not None and question.answer == "head 0 of the last layer" and shares[1] > 2 * shares[0]

    report, session = played("residual")
    weights = {
        part: sum(x.numel() for x in session.network.blocks[4].get_submodule(part).parameters())
        for part in ("attn", "ffn")
    }
    assert weights["ffn"] / sum(weights.values()) == pytest.approx(2 / 3, abs=0.01)
    attention, feed_forward = (without(session, **step.without)["cosine"] for step in report.steps[3:])
    assert feed_forward < attention  # "the smaller, the more it counted": the longer one did

    report, session = played("context")
    two = [session.states(level)[[7, 14]].double() for level in range(7)]
    cosines = [float(torch.nn.functional.cosine_similarity(*pair, dim=0)) for pair in two]
    question = report.steps[1].question
    assert question is not None and question.number == pytest.approx(min(cosines)) and min(cosines) < cosines[-1] - 0.05
    assert cosines[-1] < cosines[0]

    report, session = played("left-out")
    plural, singular = {"are", "have", "were"}, {"is", "has", "was"}
    shares = {name: share for name, _, share in report.steps[0].items}
    assert plural <= shares.keys() and not singular & shares.keys()
    left = [
        {name: share for name, _, share in without(session, **step.without)["items"][1:]} for step in report.steps[1:]
    ]
    assert max(left[0], key=lambda name: left[0][name]) == "are"  # without feed-forward no other verb wins
    assert singular <= left[1].keys() and min(left[1][each] for each in singular) > max(
        left[1][each] for each in plural
    )
    assert plural <= left[2].keys() and not singular & left[2].keys()  # one head less: still plural
    question = report.steps[1].question
    assert question is not None and question.answer == "attention"


def bold(words: list[tuple[str, str]]) -> list[str]:
    return [text for style, text in words if style == "b"]


def test_what_the_lesson_on_tokens_says_is_true(played: Run, minilm: Path) -> None:
    report, session = played("tokens")
    tokenizer, tokens = glassformer.load(minilm).tokenizer, session.streams["text"]
    pieces = [token.piece for token in tokens]
    first = report.steps[0].question
    assert first is not None and first.number == len(pieces) == session.batch.input_ids.shape[1]
    assert (pieces[0], pieces[-1]) == ("[CLS]", "[SEP]")  # "[CLS] at the start, and [SEP] at the end"
    continued = sum(piece.startswith("##") for piece in pieces)
    assert first.reveal[0][1].startswith(f"2 are the tokenizer's own, and {continued} are pieces")
    (number,) = bold(report.steps[1].text)
    assert number == f"{session.batch.input_ids[0, pieces.index('splits')]:,}"
    own = len(pieces) - sum(not token.special for token in tokens)
    lengths = {word: len(tokenizer(word)["input_ids"]) - own for word in ("the", "words", "unfathomable")}
    assert lengths["the"] == lengths["words"] == 1 and lengths["unfathomable"] > 3  # "a frequent word is one token"
    assert 10_000 < session.network.get_parameter("embed.tokens.weight").shape[0] < 100_000  # "some ten thousand"
    vector = session.states(0)[pieces.index("splits")]
    assert bold(report.steps[3].text) == [str(len(vector))]
    assert [float(words) for _, words, _ in report.steps[3].items] == pytest.approx(vector[:6].tolist(), abs=6e-4)


def test_what_the_lesson_on_masks_says_is_true(played: Run, minilm: Path) -> None:
    report, session = played("masks")
    length = len(session.streams["text"])
    later = torch.ones(length, length).triu(1).bool()
    for layer, head in ((0, 0), (3, 5)):
        about = session.head(layer, head)
        assert (about.probs()[later] == 0).all() and (about.scores()[later] == -torch.inf).all()
        assert (about.probs()[~later] > 0).all()
        assert torch.allclose(about.probs().sum(-1), torch.ones(length))  # "the others still add up to 1"
    question = report.steps[0].question
    assert question is not None and question.number == 4
    assert question.reveal[0][1] == f"Of {length}, {int(later[3].sum())} are hidden. In an encoder none is."
    assert bool((glassformer.load(minilm).inspect(*session.texts).head(0, 0).probs() > 0).all())  # "the map is full"


def test_what_the_lesson_on_generation_says_is_true(played: Run) -> None:
    report, session = played("generation")
    with torch.no_grad():
        logits = session.network(session.batch, Flow()).logits[0, -1].double()
    shares = {temperature: (logits / temperature).softmax(-1) for temperature in (0.5, 1.0, 2.0)}
    first = report.steps[0].question
    assert first is not None and first.number == pytest.approx(float(shares[1.0].max()), rel=1e-4)
    assert f", {float(shares[1.0].sort(descending=True).values[1]):.1%};" in first.reveal[0][1]
    assert bold(report.steps[1].text) == [f"{float(shares[t].max()):.1%}" for t in (0.5, 2.0)]
    bits = {t: float(-(p * p.log2()).sum()) for t, p in shares.items()}
    assert bits[0.5] < bits[1.0] < bits[2.0]  # "colder is safer, hotter is more varied"
    second = report.steps[1].question
    assert second is not None and second.answer == "2" and f"{bits[0.5]:.2f} at 0.5" in second.reveal[-1][1]
    top = shares[1.0].sort(descending=True).values[:5]
    assert bold(report.steps[2].text) == [f"{float(top[0] / top.sum()):.1%}"]  # "share what the others had"
    lens = session.lens(top=1)
    assert float(lens.logprobs[-1, -1, 0].exp()) == pytest.approx(float(shares[1.0].max()), rel=1e-4)
    assert lens.ids[0, -1, 0] != lens.ids[-1, -1, 0], "“early rows are often poor guesses”"


def test_what_the_walk_says_is_true(played: Run) -> None:
    report, session = played("walk")
    network, row = session.network, 1
    about = session.head(1, 8)
    q, k, v = about.q[row].double(), about.k.double(), about.v.double()
    dots = k @ q
    assert (
        report.steps[3].text[-1][1]
        == f"q · k × scale = {dots[2]:.4g} × {about.scale:.4g} = {dots[2] * about.scale:.4g}"
    )
    weights = (dots * about.scale).softmax(-1)
    question = report.steps[4].question
    assert question is not None and question.answer == session.streams["text"][int(weights.argmax())].text
    assert question.reveal[0][1] == f"It gets {weights.max():.1%}, and “time” itself {weights[row]:.1%}."
    recorded = record_taps(session, ["blocks.1.attn.z", "blocks.1.attn.out", "blocks.1.ffn.out"])
    z, read, wide = (x.double() for x in recorded.values())
    assert torch.allclose(z[8, row], weights @ v, atol=1e-5)  # "each head adds up the values, each times its share"
    out = network.get_submodule("blocks.1.attn.out")
    assert torch.allclose(out(z.transpose(0, 1).flatten(1).float()).double(), read, atol=1e-4)  # "put side by side"
    enters, leaves = (session.states(level)[row].double() for level in (1, 2))
    lengths = {name: words.split(",")[0] for name, words, _ in report.steps[6].items}
    between = network.blocks[1].attn_residual.on_residual((enters + read[row]).float())
    assert lengths["between"] == f"length {between.norm():.3g}" and between.norm() < (enters + read[row]).norm()
    assert lengths["enters"] == f"length {enters.norm():.3g}" and lengths["leaves"] == f"length {leaves.norm():.3g}"
    assert lengths["+ attention"] == f"length {read[row].norm():.3g}"
    assert lengths["+ feed-forward"] == f"length {wide[row].norm():.3g}"
    states = [session.states(level) for level in range(7)]
    assert len({state.shape for state in states}) == 1  # "the shape never changes"
    cosines = [float(torch.nn.functional.cosine_similarity(states[0][row], state[row], dim=0)) for state in states]
    assert [share for _, _, share in report.steps[8].items] == pytest.approx(cosines, abs=1e-5)
    assert f"a cosine of {cosines[-1]:.3f}" in report.steps[8].text[0][1]


def test_what_the_lesson_on_cross_attention_says_is_true(played: Run) -> None:
    report, session = played("cross-attention")
    source, target = (len(session.streams[side]) for side in ("source", "target"))
    words = "".join(text for _, text in report.steps[0].text)
    assert f"a source of {source} tokens once" in words and f"a target, {target} tokens here" in words
    cross = session.head(0, 0, "cross")
    assert (cross.q.shape[0], cross.k.shape[0], cross.v.shape[0]) == (target, source, source)
    assert bool((cross.probs() > 0).all())  # "no mask, since the source is all there from the beginning"
    assert torch.allclose(cross.probs().sum(-1), torch.ones(target))
    row = cross.probs()[-1]
    question = report.steps[1].question
    assert question is not None and question.answer == session.streams["source"][int(row.argmax())].text
    assert question.reveal[0][1].startswith(f"{float(row.max()):.0%} goes to “{question.answer}”")


def test_what_the_lesson_on_a_classifier_says_is_true(played: Run) -> None:
    report, session = played("classifier")
    with torch.no_grad():
        logits = session.network(session.batch, Flow()).logits[0].double()
    shares = dict(zip(("LABEL_0", "LABEL_1"), logits.softmax(-1).tolist(), strict=True))
    top = max(shares, key=lambda name: shares[name])
    question = report.steps[0].question
    assert question is not None and (question.answer, bold(report.steps[1].text)) == (top, [top])
    assert {name: share for name, _, share in report.steps[0].items} == pytest.approx(shares, abs=1e-6)
    why = session.attribute()  # "together the words make up the whole difference to a text in which all are hidden"
    whole = sum(share for words in why.words.values() for _, share in words)
    assert whole == pytest.approx(why.target.score - why.baseline_score, rel=0.02)
    assert why.target.score == pytest.approx(float(logits.max()), abs=1e-4)
    own = session.lens(top=2)  # "the last row is the model's own"
    assert own.logprobs[-1, 0].exp().tolist() == pytest.approx(sorted(shares.values(), reverse=True), abs=1e-5)
    (component,) = report.steps[3].without["components"]
    assert component == f"blocks.{session.maps['self'].layers - 1}.attn.out"  # "of the last layer"
