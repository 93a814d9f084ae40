"""`model.look(texts)`: a pass, and a page on which to look at it."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from glassformer.errors import ConfigError, DataError
from glassformer.explorer.page import CAP_BYTES, Page, Progress, check_place, framed, written_page
from glassformer.explorer.runs import Run, Runs
from glassformer.explorer.served import Served
from glassformer.explorer.writings import Kept, options_of
from glassformer.files import shown
from glassformer.inspect.session import Session

if TYPE_CHECKING:
    from glassformer.model import Model

VIEWS = ("model", "head", "matrix", "neuron", "generate")
THEMES = ("light", "dark")
NOTEBOOK_BYTES = 600_000
"""What exact layers may add to a page inside a notebook, which is saved with it."""
AT_ONCE = 0.5
"""Seconds in which a text that the model cannot take is found out."""


def look(
    model: Model,
    texts: str | Sequence[str],
    *,
    port: int | None = None,
    browser: bool | None = None,
    html: str | Path | None = None,
    view: str | None = None,
    layer: int | None = None,
    heads: int | Sequence[int] | None = None,
    theme: str | None = None,
    options: Mapping[str, Any] | None = None,
    block: bool | None = None,
) -> Look:
    """Look at every attention head of one pass, in a browser; `Model.look` says more."""
    start = Start(view=view, layer=layer, heads=heads, theme=theme, options=options)
    if html is not None:
        check_place(html)
    made = Look(Runs(model), _texts(texts), start)
    if html is not None:
        with made:
            made.save(html)
        return made
    made.serve(port)
    made.show(browser)
    if block or (block is None and not _interactive()):
        made.wait()
    return made


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """What a page shows first; None = what it would show anyway.

    options: of the view "generate": as in `generate`.

    Raises: ConfigError: no such view, theme or option, or a layer or head that is no number.
    """

    view: str | None = None
    layer: int | None = None
    heads: int | Sequence[int] | None = None
    theme: str | None = None
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name, value, allowed in (("view", self.view, VIEWS), ("theme", self.theme, THEMES)):
            if value is not None and value not in allowed:
                raise ConfigError(f"{name} is {shown(value)}; allowed: {', '.join(allowed)}")
        for number in [*([] if self.layer is None else [self.layer]), *self._heads]:
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise ConfigError(f"layers and heads are counted from 0; got {shown(number)}")
        if self.options is not None and self.view != "generate":
            raise ConfigError("options say how a text is written; they go with view='generate'")
        options_of(self.options or {})

    @property
    def fragment(self) -> str:
        """As the page's address spells it: `v=1&view=head&l=4&h=11`."""
        words = {
            "view": self.view,
            "l": self.layer,
            "h": ",".join(map(str, self._heads)) or None,
            "theme": self.theme,
        }
        given: dict[str, Any] = {name: value for name, value in words.items() if value is not None}
        for name, value in (self.options or {}).items():
            given[f"g.{name}"] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return urlencode({"v": 1, **given}, safe=",") if given else ""

    @property
    def _heads(self) -> Sequence[int]:
        return [self.heads] if isinstance(self.heads, int) else self.heads or ()


class Look(Served):
    """Texts, their pass, and the page on it: from a server while that runs, or as a file.

        with model.look("time flies", block=False) as look:
            look.url                        the address, with the token that opens it
            look.save("page.html")          the page as one file

    In a notebook it shows the page itself.
    """

    def __init__(self, runs: Runs, texts: Sequence[str], start: Start | None = None) -> None:
        super().__init__(runs)
        self.texts = tuple(texts)
        self.start = start or Start()
        self._written: tuple[Kept, int] | None = None
        if self.start.view == "generate":
            self._check_writes()
        self.run: Run = runs.begin(self.texts)

    @property
    def session(self) -> Session:
        """The pass itself, waited for. Raises: what the pass raised."""
        return self.run.result()

    @property
    def url(self) -> str:
        """The address, with the token that opens it: for nobody else."""
        start = self.start.fragment
        return f"{self.address}#token={self._token}" + (f"&{start}" if start else "")

    def serve(self, port: int | None = None) -> None:
        """Serve the page on this machine, from a thread.

        Raises: ConfigError: the port is taken. What the pass raised, where the model cannot take the texts.
        """
        try:
            if self.run.wait(AT_ONCE):
                self.run.result()  # an address is no good to anyone if the text is one that the model cannot read
            self.begin(self.texts, port)
        except BaseException:
            self.close()
            raise

    def page(self, *, layers: Sequence[int] | None = None, cap_bytes: int = CAP_BYTES) -> Page:
        """The standalone page: with the exact numbers of `layers`, or of as many as stay below the cap."""
        first, start = self.start.layer or 0, self.start.fragment
        if self.start.view == "generate":
            kept, node = self._write()
            return written_page(
                self._runs, kept, node, layers=layers, cap_bytes=cap_bytes, first=first, start=start
            )
        return Page(
            self.session,
            self._runs.facts,
            self.texts,
            layers=layers,
            cap_bytes=cap_bytes,
            first=first,
            start=start,
        )

    def _write(self) -> tuple[Kept, int]:
        """What the page of a writing holds: the text written as `start` says, and where its best answer ends."""
        if self._written is None:
            kept = self._writings.begin(self.texts[0], self.start.options or {})
            kept.written = kept.writing.write(kept.asked)
            best = kept.written.answers
            self._written = kept, best[0].node if best else 0
        return self._written

    def _check_writes(self) -> None:
        """Raises: what the model says that cannot write. ConfigError: options that do not go together."""
        self._writings.begin(self.texts[0], self.start.options or {})

    def save(
        self,
        path: str | Path,
        *,
        layers: Sequence[int] | None = None,
        cap_bytes: int = CAP_BYTES,
        progress: Progress = lambda done, of: None,
    ) -> Page:
        """Write the standalone page; a file that is there is replaced once the new one is complete.

        Returns: the page; its `held` says whose exact numbers are in it.
        Raises: DataError: no such layer, or a place that cannot be written to.
        """
        check_place(path)
        page = self.page(layers=layers, cap_bytes=cap_bytes)
        page.save(path, progress)
        return page

    def __repr__(self) -> str:
        """Without the token: what is printed may be pasted, what is in a notebook is saved."""
        place = "closed" if self._server is None else f"at {self.address}, open .url"
        return f"Look({', '.join(shown(text) for text in self.texts)}: {place})"

    def _repr_html_(self) -> str:
        """In a notebook: the page itself, without a server."""
        return framed(str(self.page(cap_bytes=NOTEBOOK_BYTES)))


def _texts(texts: str | Sequence[str]) -> list[str]:
    found = [texts] if isinstance(texts, str) else texts
    if (
        isinstance(found, (bytes, dict))
        or not isinstance(found, Sequence)
        or len(found) not in (1, 2)
        or not all(isinstance(text, str) for text in found)
    ):
        raise DataError(f"the texts are {shown(texts)}; give one text, or two in a list")
    return list(found)


def _interactive() -> bool:
    """Does somebody type here, and want the prompt back? As in a shell or a notebook, unlike in a script."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or hasattr(builtins, "__IPYTHON__")
