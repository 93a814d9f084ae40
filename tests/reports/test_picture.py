"""Heat maps as pictures: squares where the numbers are, names as text, and a few kilobytes."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import numpy as np

from glassformer.core import AttentionPattern
from glassformer.reports.drawing import CROSS, length_of
from glassformer.reports.heat_map import HeatMap
from glassformer.reports.picture import CELL, image

PICTURE = re.compile(r'<img alt="(.*?)" src="data:image/svg\+xml;base64,(.*?)">')
NAME = "{http://www.w3.org/2000/svg}"


def drawn(html: str) -> ElementTree.Element:
    """The picture in a notebook's HTML, which must be well-formed."""
    found = PICTURE.search(html)
    assert found is not None, html
    return ElementTree.fromstring(base64.b64decode(found[2]))


def squares(svg: ElementTree.Element) -> list[str]:
    """The paths of its colours: all that are filled with one."""
    return [each.get("d", "") for each in svg.iter(f"{NAME}path") if (each.get("fill") or "none") != "none"]


def test_a_mask_has_a_square_wherever_it_allows() -> None:
    mask = AttentionPattern(causal=True, window=4).keep(32, 32)
    html = HeatMap(mask, caption="a window")._repr_html_()
    [path] = squares(drawn(html))
    corners = np.array([[float(x) for x in each.split(" ")] for each in re.findall(r"M([\d.]+ [\d.]+)h", path)])
    columns, rows = ((corners - corners.min(0)) / CELL).round().astype(int).T
    again = np.zeros((32, 32), bool)
    again[rows, columns] = True
    assert np.array_equal(again, mask.numpy())
    assert "<details><summary>numbers</summary><table>" in html and len(base64.b64encode(path.encode())) < 10_000


def test_nan_is_crossed_out_and_has_no_colour() -> None:
    values = np.full((2, 20), 0.5)
    values[1, 3] = float("nan")
    svg = drawn(HeatMap(values)._repr_html_())
    [path] = squares(svg)
    [crosses] = [each.get("d", "") for each in svg.iter(f"{NAME}path") if each.get("stroke") == CROSS]
    assert path.count("M") == 39 and crosses.count("M") == 1


def test_names_and_numbers_are_text_whatever_they_are() -> None:
    html = HeatMap(np.array([[-1.0, 0.5]]), ["<script>alert()</script>"], ["]]>&\x1b\ud800", "b"])._repr_html_()
    texts = [each.text for each in drawn(html).iter(f"{NAME}text")]
    assert texts == ["]]>&\\x1b\\ud800", "b", "<script>alert()…", "-1", "0.5"]
    assert "<script" not in html and image("<svg/>", '"<i>').startswith('<img alt="&quot;&lt;i&gt;" src="data:')


def test_numbers_are_legible_and_have_room() -> None:
    values = np.array([[-0.1234, 0.5678, 1.0], [0.0, -1.0, 0.25]])
    svg = drawn(HeatMap(values, caption="differences")._repr_html_())
    [*names, darkest] = sorted({each.get("fill", "") for each in svg.iter(f"{NAME}text")})
    assert darkest == "#ffffff" and len(names) == 2, "white on the strongest colour alone"
    [box] = {m for path in squares(svg) for m in re.findall(r"h(\d+)v", path)}
    assert float(box) >= max(length_of(each.text or "", 11) for each in svg.iter(f"{NAME}text"))
