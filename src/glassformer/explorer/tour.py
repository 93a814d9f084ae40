"""Tour of a forward pass: the steps of a lesson, with the numbers of the pass on the page.

    lesson (JSON) ──the facts of each step's place──> words, lists, answers, shapes, code ──> the page plays them

The explorer's own tour is the shipped lesson `tour`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import torch

from glassformer.core.flow import Flow
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.explorer.describe import ModelFacts, views_of
from glassformer.explorer.facts import Compare, OpeningLink, PassFacts, PassPlace, Value, opening_link
from glassformer.explorer.lesson import Lesson, LessonPart, LessonQuestion, filled, read_lesson
from glassformer.explorer.lesson_options import check_option
from glassformer.explorer.model_words import Item
from glassformer.files import safe_repr
from glassformer.inspect.answer import answer
from glassformer.inspect.patching.effects import PatchOptions
from glassformer.inspect.patching.patches import Component, PatchTape, Write, patch_of, record_taps
from glassformer.inspect.patching.readout import predicts
from glassformer.inspect.session import Session
from glassformer.models import eval_mode
from glassformer.reports.report import Report
from glassformer.reports.table import Table, bar, natural

if TYPE_CHECKING:
    from glassformer.explorer.scene import Scene
    from glassformer.explorer.session_runs import SessionFactory

FIRST = 4
"""Numbers of a tensor that are listed next to its shape."""
WORDS = "words"
"""What each word added to the answer, of which a saved page of a long text may have heads and layers alone."""
Run = tuple[str, str]
"""A style, which is the name of an HTML element or empty, and words: text that is never read as markup."""

_STYLED = re.compile(r"\*\*(?P<b>[^*]+)\*\*|\*(?P<em>[^*]+)\*|`(?P<code>[^`]+)`")


@dataclass(frozen=True, kw_only=True)
class TourQuestion:
    """A question with its answer.

    choices: what can be chosen; empty where a number is asked for
    answer: the right choice, or the number as it is shown
    number: the number itself
    within: how far from it is near enough
    """

    ask: list[Run]
    choices: list[str]
    answer: str
    number: float | None
    within: float
    reveal: list[Run]


@dataclass(frozen=True, kw_only=True)
class TourCode:
    """Lines of the library that compute a step, as they are installed."""

    place: str
    source: str


@dataclass(frozen=True, kw_only=True)
class TourStep:
    """A step with its numbers.

    address: state of the page, as its address has it: view, map, layer, head, query, key
    items: what is listed: a name, what stands next to it, and a share from 0 to 1 that is drawn as a bar, or None
    without: the request of what can be left out
    left_out: the same in words
    """

    title: str
    text: list[Run]
    address: str
    items: Sequence[Item] = ()
    question: TourQuestion | None = None
    code: TourCode | None = None
    without: dict[str, Any] | None = None
    left_out: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class LessonRun(Report, kind="lesson"):
    """A lesson on a pass: its steps with the numbers of the model."""

    lesson: str
    model: str
    texts: Sequence[str]
    steps: Sequence[TourStep]

    @property
    def heading(self) -> str:
        return f"{self.lesson}\n{self.model}: {' / '.join(self.texts)}"

    def tables(self) -> list[Table]:
        """A table for each step: its words above what it lists."""
        return [
            Table(
                ["", "value", "share"],
                [[name, words, "" if share is None else bar(share, 12)] for name, words, share in step.items],
                f"{number}. {step.title}\n{_plain(step.text)}",
                left=3,
            )
            for number, step in enumerate(self.steps, 1)
        ]


def tour(scene: Scene) -> LessonRun:
    """The lesson of the page on the pass that it shows; without one, the shipped tour."""
    return played(scene.session, scene.runs.factory)


def played(session: Session, factory: SessionFactory) -> LessonRun:
    """The lesson of a factory on a pass that it made. Raises: DataError: as `tell`."""
    return tell(session, factory.facts, factory.lesson, compare=factory.explain_similarity)


def tell(
    session: Session,
    facts: ModelFacts,
    lesson: Lesson | None = None,
    *,
    missing: Collection[str] = (),
    compare: Compare | None = None,
) -> LessonRun:
    """A lesson with the numbers of a pass.

    Args:
        lesson: None = the explorer's tour
        missing: views that the page does not have, though the model does; or `WORDS` alone of one
        compare: two texts → the map of their similarity; None = facts of it are not to be had
    Raises: DataError: a step whose place, fact or component is not there, with the step: `steps[0]`.
    """
    lesson = (lesson or read_lesson("tour")).of(session)
    link, steps = opening_link(session), []
    has = [
        name for name in views_of(facts) if name not in missing and (name != "similarity" or len(session.texts) == 2)
    ]
    there = {
        "answer": answer(session) is not None,
        "words": "attribution" in has and WORDS not in missing,
        "lens": "lens" in has and PassFacts(session, link, PassPlace()).can_guess,
        "pair": compare is not None and len(session.texts) == 2,
    }
    for number, part in enumerate(lesson.steps):
        if not all(_has(session, need, there) for need in part.all_needs):
            continue
        try:
            steps.append(_step(session, has, link, part, compare))
        except (ConfigError, DataError, UnsupportedError) as error:
            raise DataError(f"lesson {lesson.title!r}: steps[{number}]: {error}") from error
    return LessonRun(lesson=lesson.title, model=facts.name, texts=list(session.texts), steps=steps)


def _step(
    session: Session, has: Sequence[str], link: OpeningLink, part: LessonPart, compare: Compare | None
) -> TourStep:
    here = PassFacts(session, link, part.place, compare)
    others = {name: PassFacts(session, link, number.place, compare) for name, number in part.numbers.items()}

    def value(name: str) -> Value:
        return others[name].value(part.numbers[name].of) if name in others else here.value(name)

    items = _tensors(session, here, [filled(name, value) for name in part.tensors])
    items += [] if part.list is None else here.listed(part.list)
    formula: list[Run] = [] if part.formula is None else [("pre", filled(part.formula, value))]
    components = [filled(component, value) for component in part.without]
    _check_components(session, components, here)
    view, options = _view(part.views, has), {name: filled(text, value) for name, text in part.options.items()}
    for name, text in options.items():
        check_option([view], name, text)
    pairs = {"view": view, **here.address} | options
    return TourStep(
        title=part.title,
        text=_runs(part.text, value) + formula,
        address=urlencode(pairs),
        items=items,
        question=None if part.question is None else _question(part.question, here, value),
        code=None if part.code is None else _code(session, filled(part.code, value)),
        without={"components": components, "stream": here.stream, "token": here.query_at} if components else None,
        left_out=", ".join(map(_in_words, components)),
    )


def _has(session: Session, needs: str, there: Mapping[str, bool]) -> bool:
    """Whether a pass has what a step needs, as `LessonPart.needs` names it; `no …` is the opposite.

    Args:
        there: what is known already
    """
    what = needs.removeprefix("no ")
    if what in there:
        has = there[what]
    elif what == "source":
        has = any({about.queries, about.keys} == {"source", "target"} for about in session.maps.values())
    elif what == "text":
        has = bool({"text", "target"} & session.streams.keys())
    else:
        has = session.batch.input_features is not None or session.batch.input_values is not None
    return has != needs.startswith("no ")


def _view(views: Sequence[str], has: Sequence[str]) -> str:
    """The first of some views that there is. Raises: UnsupportedError: none."""
    for view in views:
        if view in has:
            return view
    raise UnsupportedError(f"view is {' or '.join(map(repr, views))}; this model has {', '.join(has)}")


def _question(question: LessonQuestion, here: PassFacts, value: Callable[[str], Value]) -> TourQuestion:
    choices: list[str] = []
    number: float | None = None
    if question.number is not None:
        number = _number(question.number, value)
        right = f"{number:.3g}"
    elif question.list is not None:
        listed = here.listed(question.list)
        if not listed or any(share is None for _, _, share in listed):
            raise DataError(f"the list {question.list!r} has no shares here, so none of it is the right choice")
        right = max(listed, key=lambda item: item[2] or 0.0)[0]
        choices = sorted({name for name, _, _ in listed}, key=natural)  # their order says nothing about their shares
    else:
        numbers = {words: _number(name, value) for words, name in (question.choices or {}).items()}
        choices, right = list(numbers), max(numbers, key=lambda words: numbers[words])
    return TourQuestion(
        ask=_runs(question.ask, value),
        choices=choices,
        answer=right,
        number=number,
        within=0.0 if number is None else question.within * abs(number),
        reveal=_runs(question.reveal or "", value),
    )


def _number(name: str, value: Callable[[str], Value]) -> float:
    number = value(name)
    if isinstance(number, str):
        raise DataError(f"{name} is {safe_repr(number)}, which is no number that could be right or wrong")
    return float(number)


def _runs(template: str, value: Callable[[str], Value]) -> list[Run]:
    """A text cut by its styles, and then filled: what a token is, never styles anything."""
    runs: list[Run] = []
    at = 0
    for match in _STYLED.finditer(template):
        runs += [("", template[at : match.start()]), (match.lastgroup or "", match[match.lastgroup or 0])]
        at = match.end()
    runs.append(("", template[at:]))
    return [(style, filled(words, value)) for style, words in runs if words]


def _plain(runs: Sequence[Run]) -> str:
    return "".join(f"\n{words}" if style == "pre" else words for style, words in runs)


def _tensors(session: Session, here: PassFacts, names: Sequence[str]) -> list[Item]:
    """Tensors of the pass: names, shapes and first numbers, of the token that is followed where they are by token."""
    taps = record_taps(session, names) if names else {}
    return [(name, f"{' × '.join(map(str, x.shape))}: {_first(here.own_row(x))}", None) for name, x in taps.items()]


def _first(x: torch.Tensor) -> str:
    numbers = x.flatten()[:FIRST].tolist()
    return ", ".join(f"{number:.3g}" for number in numbers) + (", …" if x.numel() > FIRST else "")


def _code(session: Session, name: str) -> TourCode:
    """The lines of what a part of the network computes. Raises: DataError: no such part."""
    try:
        part = session.network.get_submodule(name)
    except AttributeError:
        children = ", ".join(child for child, _ in session.network.named_children())
        raise DataError(f"code is {name!r}, which is no part of this network; at its top are {children}") from None
    compute = type(part).forward
    lines, first = inspect.getsourcelines(compute)
    file = Path(inspect.getsourcefile(compute) or "").parts
    inside = "/".join(file[file.index("glassformer") :]) if "glassformer" in file else file[-1]
    place = f"{type(part).__name__}.forward, {inside}, lines {first}–{first + len(lines) - 1}"
    return TourCode(place=place, source=inspect.cleandoc("\n" + "".join(lines)))


# --------------------------------------------------------------------------------------------------- left out


_IN_WORDS = {
    r"blocks\.(\d+)\.attn\.z\[(\d+)\]": "head {1} of layer {0}",
    r"blocks\.(\d+)\.attn\.z": "all heads of layer {0}",
    r"blocks\.(\d+)\.attn\.out": "the attention of layer {0}",
    r"blocks\.(\d+)\.cross\.z\[(\d+)\]": "cross-attention's head {1} of layer {0}",
    r"blocks\.(\d+)\.cross\.z": "all heads of the cross-attention of layer {0}",
    r"blocks\.(\d+)\.cross\.out": "the cross-attention of layer {0}",
    r"blocks\.(\d+)\.ffn\.out": "the feed-forward part of layer {0}",
    r"attn\.out": "the attention of all layers",
    r"ffn\.out": "the feed-forward part of all layers",
}
"""Components in the words of a button, those of an encoder-decoder with their side; others by their names."""


def _in_words(component: str) -> str:
    side = next((each for each in ("encoder", "decoder") if component.startswith(f"{each}.")), "")
    matches = (
        (re.fullmatch(pattern, component.removeprefix(f"{side}.")), words) for pattern, words in _IN_WORDS.items()
    )
    words = next((words.format(*match.groups()) for match, words in matches if match), None)
    return component if words is None else words + (f" of the {side}" if side else "")


def _check_components(session: Session, components: Sequence[str], here: PassFacts) -> None:
    """Raises: ConfigError: no such tap. DataError: no such head or neuron."""
    parsed = [Component.parse(each) for each in components]
    known = here.block_taps if parsed and all(here.in_block(each.tap) for each in parsed) else {}
    _writes(session, parsed, {name: x.shape for name, x in known.items()})


def _writes(
    session: Session, components: Sequence[Component], shapes: Mapping[str, Sequence[int]] = MappingProxyType({})
) -> list[Write]:
    """What puts 0 in the place of components.

    Args:
        shapes: of activations, where they are known; those of others take a pass
    """
    unknown = [each.tap for each in components if each.tap not in shapes]
    shapes = {**shapes, **{name: x.shape for name, x in (record_taps(session, unknown) if unknown else {}).items()}}
    return [write for each in components for write in patch_of(session, each, shapes)]


@torch.no_grad()
def without(session: Session, *, components: Sequence[str], stream: str, token: int) -> dict[str, Any]:
    """What a pass becomes without some components, in a sentence and as a list: a token's last vector, the prediction.

    Raises: ConfigError: no such tap. DataError: no such head, neuron, stream or token.
    """
    last = session.stream_taps(stream)[-1]
    tokens = session.streams[stream]
    if not 0 <= token < len(tokens):
        raise DataError(f"there is no token {token}; the pass has tokens 0 to {len(tokens) - 1}")
    tape = PatchTape([_writes(session, [Component.parse(each) for each in components])], last).attach(session.network)
    with eval_mode(session.network):
        session.network.states(session.batch, Flow(tape=tape))
    before, after = session.states(len(session.stream_taps(stream)) - 1, stream)[token], tape.taps[last][0, token]
    cosine = float(torch.nn.functional.cosine_similarity(before.double(), after.double(), dim=0))
    items: list[Item] = [
        (f"“{tokens[token].text}”", f"cosine to its vector with it: {cosine:.3f} (1 = unchanged)", max(0.0, cosine))
    ]
    try:
        options: PatchOptions = (
            {"position": token} if stream == "target" and predicts(session.network) == "token" else {}
        )
        changes = session.patch(*components, **options).top(3) if predicts(session.network) is not None else []
    except DataError:  # nothing says at which token a prediction is read
        changes = []
    shares = [
        (change.name, change.probability_before, change.probability_after)
        for change in changes
        if change.probability_before is not None and change.probability_after is not None
    ]
    items += [(name, f"{share:.1%} → {then:.1%}", then) for name, share, then in shares]
    left_out = ", ".join(map(_in_words, components))
    sentence = (
        f"Without {left_out} the vector of “{tokens[token].text}” ends elsewhere: its cosine to the one with it is "
        f"{cosine:.3f}, where 1 is unchanged.{_answer_without(shares)}"
    )
    return {"sentence": sentence, "items": items, "cosine": cosine}


def _answer_without(shares: Sequence[tuple[str, float, float]]) -> str:
    """What the answer becomes, in a sentence with a space in front; empty where there is none.

    Args:
        shares: of answers, with the probability before and after
    """
    if not shares:
        return ""
    own, share, then = max(shares, key=lambda each: each[1])
    other, _, most = max(shares, key=lambda each: each[2])
    if own == other:
        return f" The answer stays “{own}”, at {then:.1%} instead of {share:.1%}."
    return f" The answer becomes “{other}”, {most:.1%}, and “{own}” is at {then:.1%} instead of {share:.1%}."
