"""Texts under way and kept: what the page has a model write, a step at a time.

begin(prompt, options) ──> Kept(Writing) ── write(…) ──a thread──> Work: lines {"step"} … {"ready"}
                           branch: write(after, tokens, …) on the same tree
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError, DataError, nearest
from glassformer.explorer.answers import sentence
from glassformer.explorer.runs import SessionGone
from glassformer.files import shown
from glassformer.generation.options import Options
from glassformer.inspect.growing import Enough
from glassformer.inspect.tree import Step
from glassformer.inspect.writing import Writing, Written

if TYPE_CHECKING:
    from glassformer.model import Model

MOST_KEPT = 8
MOST_UNDER_WAY = 4
PATIENCE = 10.0
"""Seconds that a text which is stopped may take to the end of its step."""
NEW_TOKENS = 40
"""How many tokens are written unless the page says otherwise."""
MOST = {"max_new_tokens": 1024, "num_beams": 32, "num_return_sequences": 32}
"""What one request may ask for."""
OPTIONS = (
    *("max_new_tokens", "min_new_tokens", "stop_strings", "bad_words", "repetition_penalty"),
    *("no_repeat_ngram_size", "do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "seed"),
    *("num_beams", "length_penalty", "early_stopping", "num_beam_groups", "diversity_penalty"),
    "num_return_sequences",
)
"""What the page, a link and the command line may say, under the names of `generate`."""


def options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the explorer takes them, with its own default length.

    Raises: ConfigError: unknown ones, or more than it does at once.
    """
    for name, value in given.items():
        if name not in OPTIONS:
            raise ConfigError(f"the generation view takes no {shown(name)}{nearest(str(name), OPTIONS)}")
        if name in MOST and isinstance(value, int) and value > MOST[name]:
            raise ConfigError(f"{name} is {value}; the generation view takes at most {MOST[name]}")
    return {"max_new_tokens": NEW_TOKENS, **given}


def command_options(asked: Options) -> list[str]:
    """As the command line spells them: `--view generate -n 40 --beams 4`."""
    spelled = {"max_new_tokens": "-n", "num_beams": "--beams", "temperature": "--temperature"}
    spelled |= {"top_k": "--top-k", "top_p": "--top-p"} | ({"seed": "--seed"} if asked.do_sample else {})
    given = {name: getattr(asked, name) for name in spelled}
    given = {
        name: value
        for name, value in given.items()
        if value is not None and (name, value) != ("num_beams", 1)
    }
    sample = ["--sample"] if asked.do_sample else []
    return ["--view", "generate", *sample, *(f"{spelled[name]} {value}" for name, value in given.items())]


class Work:
    """One call of `Writing.write`, under way: what it has to say, line by line."""

    def __init__(self) -> None:
        self._lines: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._stopped = threading.Event()
        self._over = threading.Event()

    @property
    def over(self) -> bool:
        """Will no more lines come? Those that have come may still be taken."""
        return self._over.is_set()

    def stop(self) -> None:
        """End it with its next step."""
        self._stopped.set()

    def take(self) -> list[dict[str, Any]]:
        """The lines that have come since."""
        found = []
        with suppress(Empty):
            while True:
                found.append(self._lines.get_nowait())
        return found

    def see(self, step: Step) -> None:
        self._lines.put({"step": asdict(step)})
        if self._stopped.is_set():
            raise Enough

    def end(self, last: dict[str, Any]) -> None:
        self._lines.put(last)
        self._over.set()


@dataclass(eq=False)
class Kept:
    """A tree, the options it began with, and who is writing in it."""

    id: str
    writing: Writing
    asked: Options
    under_way: set[Work] = field(default_factory=set)
    written: Written | None = None

    def place(self, node: int) -> dict[str, Any]:
        """Where the tokens up to a node stand in a session of their own."""
        return {"w": self.id, "node": node, "side": self.writing.side, "begun": len(self.writing.before)}

    @property
    def about(self) -> dict[str, Any]:
        """What the page must know before the first step."""
        writing, asked = self.writing, asdict(self.asked)
        return {
            "id": self.id,
            "prompt": writing.prompt,
            "options": {name: asked[name] for name in OPTIONS if asked[name] is not None},
            "side": writing.side,
            "begun": len(writing.before),
            "before": [asdict(token) for token in writing.before],
            "vocabulary": writing.vocabulary,
            "max_tokens": writing.max_tokens,
        }


def ready(writing: Writing, written: Written) -> dict[str, Any]:
    """What a writing came to."""
    best = {answer.node for answer in written.answers}
    return {
        "answers": [asdict(answer) for answer in written.answers],
        "ended": [{**asdict(place), "returned": place.node in best} for place in written.ended],
        "seconds": written.seconds,
        "count": len(writing.nodes),
    }


class Writings:
    """All that one model writes for the page. Several threads may call at once."""

    def __init__(self, model: Model, *, most: int = MOST_KEPT) -> None:
        self.model = model
        self.most = most
        self._kept: OrderedDict[str, Kept] = OrderedDict()  # the one used last is last
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()

    def begin(self, prompt: str, options: Mapping[str, Any]) -> Kept:
        """A new tree, in which nothing is written yet.

        Raises: DataError: the prompt is empty or too long. ConfigError: as `options_of`, and as `generate`.
            UnsupportedError: the model writes nothing.
        """
        writing = self.model.writing(prompt)
        kept = Kept(secrets.token_hex(8), writing, writing.asked(**options_of(options)))
        with self._lock:
            self._kept[kept.id] = kept
            idle = [each for each in self._kept.values() if not each.under_way and each is not kept]
            for each in idle[: max(0, len(self._kept) - self.most)]:
                del self._kept[each.id]
        return kept

    def get(self, id: str) -> Kept:
        """Raises: SessionGone: it is not kept."""
        with self._lock:
            if id not in self._kept:
                raise SessionGone("this text is not kept any more; have it written again")
            self._kept.move_to_end(id)
            return self._kept[id]

    def write(
        self, kept: Kept, asked: Options | None = None, *, after: int = 0, tokens: Sequence[int] = ()
    ) -> Work:
        """Write in a tree, from a thread of its own.

        Raises: DataError: too many texts are under way.
        """
        work = Work()
        with self._lock:
            if sum(len(each.under_way) for each in self._kept.values()) >= MOST_UNDER_WAY:
                raise DataError(
                    f"{MOST_UNDER_WAY} texts are being written; stop one, or wait until one is done"
                )
            kept.under_way.add(work)
            thread = threading.Thread(
                target=self._work, args=(kept, work, asked or kept.asked, after, tokens), daemon=True
            )
            self._threads.add(thread)
            thread.start()
        return work

    def stop(self, id: str) -> bool:
        """End what is being written in a tree; was anything?"""
        works = list(self.get(id).under_way)
        for work in works:
            work.stop()
        return bool(works)

    def close(self) -> None:
        """End all that is being written, and wait for that."""
        for kept in list(self._kept.values()):
            for work in list(kept.under_way):
                work.stop()
        for thread in list(self._threads):
            thread.join(PATIENCE)

    def _work(self, kept: Kept, work: Work, asked: Options, after: int, tokens: Sequence[int]) -> None:
        last: dict[str, Any]
        try:
            kept.written = kept.writing.write(asked, after=after, tokens=tokens, watch=work.see)
            last = {"ready": ready(kept.writing, kept.written)}
        except Exception as error:  # whoever waits for the lines gets it
            last = {"error": sentence(error)[1]}
        with self._lock:
            kept.under_way.discard(work)
            self._threads.discard(threading.current_thread())
        work.end(last)
