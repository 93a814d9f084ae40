"""What web/ builds: there, whole, and such that one file can be made of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from glassformer.explorer import standalone_page
from glassformer.explorer.standalone_page import SCRIPT, STYLE, PageMissingError


def test_a_page_that_was_not_built_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone_page, "FOLDER", tmp_path / "static")
    for damage in ("missing", "changed", "no list"):
        (tmp_path / "static").mkdir(exist_ok=True)
        if damage == "changed":
            (tmp_path / "static" / "a.js").write_text("")
            (tmp_path / "static" / "manifest.json").write_text('{"files": {"a.js": "0"}}')
        elif damage == "no list":
            (tmp_path / "static" / "manifest.json").write_text("[]")
        with pytest.raises(PageMissingError, match="npm ci && npm run build"):
            standalone_page.page_files()


def test_the_built_page_can_be_made_into_one_file() -> None:
    files = standalone_page.page_files()
    index = files["index.html"].decode()
    for mark in ("<head>", "</head>", STYLE, SCRIPT):
        assert index.count(mark) == 1, mark
    assert "</style" not in files["app.css"].decode().lower()
    assert not re.search(r"https?://(?!www\.w3\.org/)", files["index.html"].decode() + files["app.css"].decode())
