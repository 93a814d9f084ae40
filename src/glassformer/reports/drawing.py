"""Drawings without a browser: lines, boxes and texts as an SVG. And pictures of pages, by a Chromium that is installed.

drawing = Drawing(640, 400)
drawing.text(24, 30, "time", size=15)
drawing.svg()                                         a text
photograph("page.html#view=lens", "lens.png")         what a page shows, as a PNG
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from glassformer.errors import DataError, UnsupportedError
from glassformer.files.atomic import atomic_file, disk_errors

SANS = "Inter, ui-sans-serif, system-ui, Helvetica, Arial, sans-serif"
DARK, INK, CROSS = "#0f1c2b", "#41526a", "#999999"
"""Colours of a text, of a name at the side, and of a cell that is crossed out."""
NUMBER = 11  # size of a number in a cell
CHROMIUM = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
"""Programs that draw pages, in the order in which they are looked for; GLASSFORMER_CHROMIUM names another."""
HOW_TO_INSTALL = (
    "install one (Debian: apt-get install chromium-headless-shell; macOS: brew install --cask chromium), or name it in "
    "GLASSFORMER_CHROMIUM"
)
SECONDS = 60  # until a page is given up
PAGE_CLOCK = 10_000  # milliseconds of the page's own clock, which does not wait for a real one
SCALE = 2  # pixels of a PNG for one of the page


@dataclass(frozen=True)
class Drawing:
    """An SVG in the making.

    width, height: in pixels
    paper: the colour behind it
    """

    width: float
    height: float
    paper: str = "#ffffff"
    _root: ElementTree.Element = field(init=False)

    def __post_init__(self) -> None:
        size = {"width": f"{self.width:g}", "height": f"{self.height:g}"}
        box = {"viewBox": f"0 0 {self.width:g} {self.height:g}", "font-family": SANS}
        root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, **box})
        object.__setattr__(self, "_root", root)
        self.rect(0, 0, self.width, self.height, self.paper)

    def rect(self, x: float, y: float, width: float, height: float, colour: str, *, round: float = 0) -> None:
        """A box in one colour."""
        self._add("rect", x=x, y=y, width=width, height=height, rx=round, fill=colour)

    def text(
        self, x: float, y: float, text: str, *, size: float = 13, colour: str = DARK, anchor: str = "start",
        strong: bool = False, upwards: bool = False,
    ) -> None:  # fmt: skip
        """A text with its middle at y; anchor: start, middle or end of it at x."""
        attributes: dict[str, object] = {"x": x, "y": y, "dy": "0.35em", "fill": colour, "font-size": size}
        attributes |= {"text-anchor": anchor} if anchor != "start" else {}
        attributes |= {"font-weight": 600} if strong else {}
        attributes |= {"transform": f"rotate(-90 {x:g} {y:g})"} if upwards else {}
        self._add("text", **attributes).text = "".join(letter for letter in text if letter.isprintable())

    def curve(self, x0: float, y0: float, x1: float, y1: float, colour: str, *, width: float, opacity: float) -> None:
        """A line from one point to another, level at both ends."""
        middle = (x0 + x1) / 2
        path = f"M{x0:.1f} {y0:.1f}C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
        self._add("path", **{"d": path, "fill": "none", "stroke": colour, "stroke-width": width, "opacity": opacity})

    def image(self, x: float, y: float, width: float, height: float, address: str) -> None:
        """A picture in a box, each of its pixels sharp; address: one that holds it, `data:…`."""
        self._add("image", x=x, y=y, width=width, height=height, href=address, **{"image-rendering": "pixelated"})

    def cells(
        self, x: float, y: float, cell: tuple[float, float], fills: Sequence[Sequence[str | None]], *, gap: float = 0
    ) -> None:
        """Boxes in rows and columns, from a corner on: a path for each colour, so that a thousand take some kilobytes.

        Args:
            cell: width and height of each
            fills: their colours; "" = a box is left out; None = it is crossed out. [R][C]
            gap: between boxes
        """
        paths = defaultdict[str | None, list[str]](list)
        width, height = cell
        box = f"h{width - gap:g}v{height - gap:g}h{gap - width:g}z"
        for i, row in enumerate(fills):
            for j, fill in enumerate(row):
                left, top = x + width * j, y + height * i
                cross = f"M{left + 5:g} {top + 5:g}l8 8m0 -8l-8 8"
                paths[fill].append(cross if fill is None else f"M{left:g} {top:g}{box}")
        for fill, path in paths.items():
            if fill is None:
                self._add("path", stroke=CROSS, d="".join(path))
            elif fill:
                self._add("path", fill=fill, d="".join(path))

    def place(self, other: Drawing, x: float, y: float, width: float, height: float) -> None:
        """Another drawing in a box of this one, as large as it fits, in its middle."""
        inner = self._add("svg", x=x, y=y, width=width, height=height)
        inner.set("viewBox", other._root.get("viewBox", ""))
        inner.extend(list(other._root))

    def svg(self) -> str:
        """The drawing as the text of a file."""
        return ElementTree.tostring(self._root, encoding="unicode") + "\n"

    def _add(self, tag: str, **attributes: object) -> ElementTree.Element:
        written = {
            name: f"{x:.2f}".rstrip("0").rstrip(".") if isinstance(x, float) else str(x)
            for name, x in attributes.items()
        }
        return ElementTree.SubElement(self._root, tag, written)


def matrix(
    rows: Sequence[str],
    columns: Sequence[str],
    fills: Sequence[Sequence[str | None]],
    numbers: Sequence[Sequence[str]] | None = None,
    *,
    cell: tuple[float, float],
    gap: float = 0,
    strong: int | None = None,
) -> Drawing:
    """A matrix: the names of its rows and columns, a box a cell, and its number in it.

    Args:
        rows, columns: their names; those of columns are upright where they are wider than a cell
        fills: as of `Drawing.cells`. [R][C]
        numbers: the texts of the cells; None = they have none. [R][C]
        cell: width and height of one, in pixels
        gap: between cells; 0 = a frame goes round all
        strong: the row whose name is bold
    """
    width, height = cell
    size = min(13.0, height)
    upright = any(length_of(name, size) > width - 4 for name in columns)
    left = math.ceil(8 + max((length_of(name, size) for name in rows), default=0))
    top = math.ceil(8 + (max(length_of(name, size) for name in columns) if upright else size))
    across, down = width * len(columns), height * len(rows)
    drawing = Drawing(round(left + across + 8), round(top + down + 8))
    drawing.cells(left, top, cell, fills, gap=gap)
    if not gap:
        outline = f"M{left:g} {top:g}h{across:g}v{down:g}h{-across:g}z"
        drawing._add("path", fill="none", stroke="#cccccc", d=outline)
    for j, name in enumerate(columns):
        x = left + width * (j + 0.5)
        if upright:
            drawing.text(x, top - 6, name, size=size, colour=INK, upwards=True)
        else:
            drawing.text(x, top - 4 - size / 2, name, size=size, colour=INK, anchor="middle")
    for i, name in enumerate(rows):
        y = top + height * (i + 0.5)
        colour = DARK if i == strong else INK
        drawing.text(left - 6, y, name, size=size, colour=colour, anchor="end", strong=i == strong)
        for j, text in enumerate(numbers[i] if numbers else ()):
            if text:
                colour = ink_on(fills[i][j] or drawing.paper)
                drawing.text(left + width * (j + 0.5), y, text, size=NUMBER, colour=colour, anchor="middle")
    return drawing


def mixed(colour: tuple[int, int, int], share: float) -> str:
    """A colour as a share of it on white."""
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in colour)


def ink_on(fill: str) -> str:
    """The colour of a text on a box: white where the box is dark."""
    red, green, blue_part = (int(fill[at : at + 2], 16) for at in (1, 3, 5))
    return "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue_part < 140 else DARK


def length_of(text: str, size: float = 13) -> float:
    """About how many pixels of a line a text takes: capitals are wider than others, signs of East Asia square."""
    return size * sum(1.05 if x >= "⺀" else 0.8 if x.isupper() or x in "@%&mw—…" else 0.56 for x in text)


def wrapped(text: str, room: float, size: float) -> list[str]:
    """A text in lines of at most this many pixels; a longer word is alone."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and length_of(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def blue(share: float) -> str:
    """The colour of a share from 0 to 1, as the page has it: even steps of OKLCH lightness to a dark blue."""
    t = min(max(share, 0.0), 1.0)
    lightness, chroma, hue = 0.965 - 0.665 * t, 0.008 + 0.24 * t * (1 - 0.53 * t), math.radians(225 + 45 * t)
    a, b = chroma * math.cos(hue), chroma * math.sin(hue)
    long, medium, short = (
        (lightness + x * a + y * b) ** 3
        for x, y in ((0.3963377774, 0.2158037573), (-0.1055613458, -0.0638541728), (-0.0894841775, -1.2914855480))
    )
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    encoded = (12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055 for x in (max(x, 0.0) for x in linear))
    return "#" + "".join(f"{round(255 * min(x, 1.0)):02x}" for x in encoded)


def write_drawing(path: Path, drawing: Drawing) -> None:
    """Write a drawing as an SVG, or as a PNG by a Chromium.

    Raises: UnsupportedError: a PNG, and there is no Chromium. DataError: the disk refuses.
    """
    if path.suffix == ".svg":
        with disk_errors(path, DataError, "the picture"), atomic_file(path.resolve()) as stream:
            stream.write(drawing.svg().encode())
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "drawing.svg"
        page.write_text(drawing.svg(), "utf-8")
        photograph(
            page.as_uri(), path, round(drawing.width), round(drawing.height), else_="write an .svg, which needs none"
        )


def photograph(address: str, path: Path, width: int = 1440, height: int = 900, *, else_: str = "") -> None:
    """Draw what a page shows as a PNG, by a headless Chromium, without a window and without the network.

    Args:
        address: of a file or of a local server, with its fragment
        else_: what one can do without a Chromium
    Raises: UnsupportedError: there is none. DataError: it failed, or the disk refuses.
    """
    program = os.environ.get("GLASSFORMER_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise UnsupportedError(
            f"a PNG is drawn by a Chromium, and there is none: {HOW_TO_INSTALL}{else_ and f'; or {else_}'}"
        )
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "picture.png"
        flags = [
            "--headless",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
        ]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []  # as root it wants none
        flags += [
            f"--window-size={width},{height}",
            f"--force-device-scale-factor={SCALE}",
            f"--user-data-dir={folder}",
        ]
        flags += [f"--virtual-time-budget={PAGE_CLOCK}", f"--screenshot={made}"]
        try:
            done = subprocess.run(
                [program, *flags, address], capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DataError(
                f"{program} has not drawn the page after {SECONDS} seconds; try a smaller text or view"
            ) from error
        except OSError as error:
            raise UnsupportedError(f"{program} does not start ({error}); {HOW_TO_INSTALL}") from error
        if not made.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise DataError(f"{program} drew nothing: {last}")
        with disk_errors(path, DataError, "the picture"), atomic_file(path.resolve()) as stream:
            stream.write(made.read_bytes())
