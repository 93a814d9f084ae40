"""Lessons: a story told with the numbers of a model, as a JSON file that anyone can write; the page plays it as a tour.

    {"title": "Attention", "texts": ["time flies like an arrow"], "steps": [{
        "title": "One head",
        "text": "In layer {layer}, head {head}, **{query}** gives {attention:.0%} of its attention to **{key}**.",
        "view": "head", "list": "attention",
        "question": {"ask": "To which token does it attend most?", "list": "attention"},
        "without": ["{attn}.z[{head}]"]
    }]}

Names in braces are numbers of the pass (`explorer/facts.py`), so a lesson is true of any model and any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from string import Formatter
from typing import Annotated, Any

from glassformer.errors import ConfigError, DataError, nearest
from glassformer.explorer.facts import FACTS, LISTS, PassPlace, Value
from glassformer.explorer.lesson_options import check_names, check_option
from glassformer.explorer.registry import tabs
from glassformer.files import as_path, nearest_path, read_json_object, safe_repr
from glassformer.files.schema import Allowed, Count, Doc, Positive, Schema, at_least, one_of, parse
from glassformer.inspect.session import Session

SHIPPED = Path(__file__).parent / "lessons"
MAX_BYTES, MAX_STEPS, MAX_CHARACTERS = 1_000_000, 100, 4_000
"""Size of a lesson's file, its steps, and the characters of one of its texts: a page shows a few hundred of them."""

NEEDS = tuple(
    f"{no}{need}" for need in ("answer", "words", "lens", "source", "text", "sound", "pair") for no in ("", "no ")
)
"""What a step may need; see `LessonPart`."""

_SPEC = re.compile(r"[+,]?(\.\d{1,2})?[efgd%]?", re.ASCII)
Words = Annotated[
    str, Allowed(f"a text of 1 to {MAX_CHARACTERS:,} characters", lambda x: x.strip() and len(x) <= MAX_CHARACTERS)
]
Label = Annotated[str, Allowed("a text of 1 to 120 characters", lambda x: x.strip() and len(x) <= 120)]
Name = Annotated[str, Allowed("a name of letters, digits and _", str.isidentifier)]
Token = Annotated[int | str | None, Doc("Its number, a word, `word#2` for its second occurrence, or `#1`, `#2`.")]
Listed = Annotated[str, one_of(*LISTS)]
KNOWN = Allowed("a fact, such as attention, length_after or top_share; docs/lessons.md lists them", FACTS.__contains__)
Choices = Allowed("2 to 12 choices", lambda x: 2 <= len(x) <= 12)
OneOrTwo = Allowed("a list of one text or two", lambda x: len(x) in (1, 2))
Fact = Annotated[str, Allowed("the name of a fact, or of one of its numbers", str.isidentifier)]


@dataclass(frozen=True, kw_only=True)
class LessonPlace(Schema):
    """Where in a pass numbers are read; what is left out follows what the page opens with.

    layer: counted from 0, or from the end, -1
    head: of a layer
    query, key: the token that attends, and the one that it attends to
    """

    map: Annotated[str | None, Doc("Attention map: self; or encoder, decoder, cross.")] = None
    layer: Annotated[int | None, Doc("Layer, from 0; -1 is the last.")] = None
    head: Annotated[Annotated[int, at_least(0)] | None, Doc("Head, from 0.")] = None
    query: Annotated[Token, Doc("Token that attends: its number, a word, `word#2`, or `#1`: a repeated word.")] = None
    key: Annotated[Token, Doc("Token that is attended to.")] = None

    @property
    def place(self) -> PassPlace:
        """The place alone."""
        return PassPlace(
            **{each.name: getattr(self, each.name) for each in fields(PassPlace) if hasattr(self, each.name)}
        )


@dataclass(frozen=True, kw_only=True)
class LessonNumber(LessonPlace):
    """A number of another place than that of its step, under a name of its own."""

    of: Annotated[str, KNOWN]
    temperature: Annotated[Positive, Doc("Temperature of the prediction.")] = 1.0
    top_k: Annotated[Count | None, Doc("Outputs that the prediction chooses from; null = all.")] = None


@dataclass(frozen=True, kw_only=True)
class LessonQuestion(Schema):
    """A question before the numbers are shown. Its answer is computed: a number, or which choice has the largest.

    ask: the question
    number: name of the number that is asked for
    choices: what can be chosen → the name of its number
    list: the choices are what is listed, and the one with the largest share is right
    within: how far a number may be off, as a share of it
    reveal: words below the answer
    """

    ask: Words
    number: Fact | None = None
    choices: Annotated[Mapping[Label, Fact], Choices] | None = None
    list: Listed | None = None
    within: Annotated[float, at_least(0.0, 1.0)] = 0.1
    reveal: Words | None = None

    def check(self) -> None:
        """Raises: ConfigError: nothing says what is right, or two things."""
        if sum(each is not None for each in (self.number, self.choices, self.list)) != 1:
            raise ConfigError("question must have one of number, choices and list, which says what is right")


@dataclass(frozen=True, kw_only=True)
class LessonPart(LessonPlace):
    """A step of a lesson: words, the view next to them, and what else it shows.

    text: plain text with **bold**, *emphasis*, `code`, and names of numbers in braces
    view: a view of the page, or several of which the first that the model has is shown
    options: more of the page's state, as pairs of an address has it, with facts: {"lv": "{level_after}"}
    list: what is listed below the words
    numbers: name → a number of another place
    formula: of what is computed
    tensors: taps whose shapes and first numbers are listed: `{block}.ffn.neurons`
    code: a part of the network, `{block}.ffn`, whose lines are shown
    question: to be answered before the numbers are shown
    without: components that can be left out: `{block}.ffn.out`
    needs: the step is left out where one of these is not so; `no …` is the opposite
        answer: the model says something about the text
        words: the page has, or computes, what each word added to that
        lens: the page has the lens, and it reads the token that is followed
        source: it has cross-attention
        text: its tokens are of a text, or of one that it writes
        sound: it hears
        pair: it compares two texts, and there are two
    """

    title: Label
    text: Words
    view: str | Sequence[str] = "model"
    options: Mapping[str, str] = field(default_factory=dict)
    list: Listed | None = None
    numbers: Mapping[Name, LessonNumber] = field(default_factory=dict)
    formula: Words | None = None
    tensors: Sequence[Words] = ()
    code: Words | None = None
    question: LessonQuestion | None = None
    without: Sequence[Words] = ()
    needs: str | Sequence[str] = ()

    @property
    def all_needs(self) -> Sequence[str]:
        return [self.needs] if isinstance(self.needs, str) else self.needs

    @property
    def views(self) -> Sequence[str]:
        return [self.view] if isinstance(self.view, str) else self.view

    def check(self) -> None:
        """Raises: ConfigError: a view that no page has, an option or its value that no view has, a name of no fact."""
        for view in self.views or [""]:
            if view not in tabs():
                raise ConfigError(f"view is {safe_repr(view)}{nearest(view, tabs())}; allowed: {', '.join(tabs())}")
        for need in self.all_needs:
            if need not in NEEDS:
                raise ConfigError(f"needs is {safe_repr(need)}{nearest(need, NEEDS)}; allowed: {', '.join(NEEDS)}")
        check_names(self.views, list(self.options))
        for option, value in self.options.items():
            if "{" not in value:  # a fact: `tell` checks what it stands for
                check_option(self.views, option, value)
        known, question = {*FACTS, *self.numbers}, self.question
        if question is not None:
            question.check()
        own = [self.text, self.formula, self.code, *self.tensors, *self.without, *self.options.values()]
        for template in [*own, *(() if question is None else (question.ask, question.reveal))]:
            check_template(template or "", known)
        for name in () if question is None else (question.number, *(question.choices or {}).values()):
            if name is not None and name not in known:
                raise ConfigError(f"there is no number {safe_repr(name)}{nearest(name, known)}; see docs/lessons.md")


@dataclass(frozen=True, kw_only=True)
class Lesson(Schema):
    """A lesson.

    about: a sentence for the list of lessons
    model: a folder, a name on the Hub, or `package:…`; None = the reader's
    task: of the model's head
    texts: one, or two as a pair; None = the reader's
    """

    title: Label
    about: Words | None = None
    model: str | None = None
    task: str | None = None
    texts: Annotated[Sequence[Words], OneOrTwo] | None = None
    steps: Sequence[LessonPart]

    def validate(self) -> None:
        if not 1 <= len(self.steps) <= MAX_STEPS:
            raise ConfigError(f"steps has {len(self.steps)}; it must be a list of 1 to {MAX_STEPS} steps")
        for number, step in enumerate(self.steps):
            try:
                step.check()
            except ConfigError as error:
                raise ConfigError(f"steps[{number}]: {error}") from None

    def anywhere(self) -> Lesson:
        """The lesson for another model or text: its places follow what the page opens with, but for relative ones."""
        return replace(self, steps=[_loose(step) for step in self.steps])

    def of(self, session: Session) -> Lesson:
        """The lesson for a pass: with its own places where it is of its own text."""
        return self if self.texts is not None and tuple(self.texts) == tuple(session.texts) else self.anywhere()


def _loose(step: LessonPart) -> LessonPart:
    numbers = {name: replace(number, **_relative(number)) for name, number in step.numbers.items()}
    return replace(step, numbers=numbers, **_relative(step))


def _relative(place: LessonPlace) -> dict[str, Any]:
    """The place of a step without what is of one model and text alone."""
    token = {
        name: at if isinstance(at := getattr(place, name), str) and at.startswith("#") else None
        for name in ("query", "key")
    }
    layer = place.layer if place.layer is not None and (place.layer < 0 or place.head is None) else None
    return {"layer": layer, "head": None, **token}


def check_template(template: str, known: Collection[str]) -> None:
    """Check the names in braces of a text. Raises: ConfigError: an unknown one, or a format that is not for numbers."""
    for name, spec in _fields(template):
        if name not in known:
            raise ConfigError(f"{{{name}}} is no fact{nearest(name, known)}; allowed: {', '.join(sorted(known))}")
        if not _SPEC.fullmatch(spec):
            raise ConfigError(f"{{{name}:{spec}}}: the format is {safe_repr(spec)}; allowed: .2f, .0%, .3g, d or ,")


def filled(template: str, value: Callable[[str], Value]) -> str:
    """A text with what its names in braces stand for; numbers without a format have three digits.

    Raises: DataError: a format that the fact cannot have.
    """
    parts = []
    for literal, name, spec, _ in Formatter().parse(template):
        parts.append(literal)
        if name is not None:
            fact = value(name)
            try:
                parts.append(format(fact, spec or (".3g" if isinstance(fact, float) else "")))
            except ValueError:
                raise DataError(
                    f"{{{name}:{spec}}}: {safe_repr(fact)} cannot be written so; leave the format out"
                ) from None
    return "".join(parts)


def _fields(template: str) -> list[tuple[str, str]]:
    try:
        fields = [(name, spec or "", kind) for _, name, spec, kind in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise ConfigError(f"{safe_repr(template)}: {error}; write {{{{ and }}}} for braces themselves") from None
    for name, _, kind in fields:
        if not name.isidentifier() or kind is not None:
            raise ConfigError(f"{safe_repr(template)}: {safe_repr(name)} is no name; write {{{{ and }}}} for braces")
    return [(name, spec) for name, spec, _ in fields]


def shipped() -> dict[str, Path]:
    """The lessons of the package, by name, in the order in which they are to be read."""
    files = sorted(SHIPPED.glob("*.json"))
    return {path.stem.partition("-")[2] or path.stem: path for path in files}


def read_lesson(name: str | Path) -> Lesson:
    """A lesson from its file, or one of the package by its name.

    Raises: DataError: no such file or lesson; not JSON, too large, or against the schema, with the field.
    """
    path = shipped().get(str(name)) or as_path(name)
    if not path.exists():
        hint = nearest(str(name), shipped()) or nearest_path(path)
        raise DataError(f"{name}: no such file, and no lesson of that name{hint}; the lessons: {', '.join(shipped())}")
    try:
        return parse(Lesson, read_json_object(path, DataError, MAX_BYTES))
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from error
