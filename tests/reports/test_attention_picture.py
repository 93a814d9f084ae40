"""Attention weights as pictures: lines, small maps of all heads, and the PNG that holds these."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from glassformer.reports.attention_picture import LARGEST_TEXT, LEAST_GAP, PIXELS, heads, lines, png


def test_a_png_is_what_others_read() -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    palette = [(i, 2 * i, 255 - i) for i in range(12)]
    read = np.asarray(Image.open(io.BytesIO(png(pixels, palette))).convert("RGB"))
    assert np.array_equal(read, np.array(palette, np.uint8)[pixels])


def test_a_line_for_each_share_that_is_seen() -> None:
    shares = {"head 3": [[0.9, 0.1, 0.0], [0.01, 0.49, 0.5]], "head 1": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]}
    both = lines(["a", "<b>"], ["x", "y", "z"], shares).svg()
    assert both.count("<path ") == 4 + 2
    assert "&lt;b&gt;" in both and re.findall(r">(head \d)<", both) == ["head 3", "head 1"]
    one = lines(["a", "b"], ["x", "y", "z"], {"head 3": shares["head 3"]}, one=1, named=False).svg()
    assert one.count("<path ") == 2 and "z  50%" in one and "head" not in one


def test_the_link_that_a_sentence_names_stands_out() -> None:
    shares = {"": [[0.5, 0.5], [0.1, 0.9]]}
    drawn = lines(["a", "b"], ["c", "d"], shares, strong=(0, 1), link=True).svg()
    widths = [float(width) for width in re.findall(r'<path[^>]*stroke-width="([\d.]+)"', drawn)]
    assert len(widths) == 4 and widths[1] == max(widths) > 2 * sorted(widths)[-2]


def test_many_heads_have_their_names_below_each_other() -> None:
    drawing = lines(["a"], ["b"], {f"head {i}": [[1.0]] for i in range(12)})
    rows = {float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>head', drawing.svg())}
    assert len(rows) > 1 and max(rows) < drawing.height and min(rows) > 48 + 20


@pytest.mark.parametrize("tokens", [["a", "b"], ["time", "flies", "like"] * 2, ["word"] * 16, ["a long name"] * 9])
def test_a_drawing_fills_its_box(tokens: list[str]) -> None:
    box = (500, 518)
    drawing = lines(tokens, tokens, {"": np.eye(len(tokens)).tolist()}, named=False, room=(24, 24), box=box)
    scale = min(box[0] / drawing.width, box[1] / drawing.height)
    assert scale <= LARGEST_TEXT + 0.01 and drawing.width * scale >= 0.98 * box[0]
    down = max(float(y) for y in re.findall(r'<text x="[\d.]+" y="([\d.]+)"', drawing.svg()))
    assert down * scale > 0.55 * box[1] or len(tokens) < 4  # of few tokens the rows are no further apart than one reads
    (left, right) = (float(x) for x in re.findall(r"M([\d.]+) .*? ([\d.]+) [\d.]+\"", drawing.svg())[0])
    assert right - left >= LEAST_GAP - 1


def test_of_a_long_text_a_pixel_is_the_largest_of_its_cells() -> None:
    weights = np.zeros((100, 100))
    weights[50, 73] = 0.25
    picture = heads([[weights]]).svg()
    content = base64.b64decode(picture.partition("base64,")[2].partition('"')[0])
    pixels = np.asarray(Image.open(io.BytesIO(content)))
    across = -(-100 // -(-100 // PIXELS))
    assert pixels[:across, :across].max() == 255 == pixels[50 // 4, 73 // 4]
    assert (pixels[:across, :across] > 1).sum() == 1
