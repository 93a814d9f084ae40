"""Results are read as objects and as Hugging Face's dicts, and a notebook shows them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping

import pytest

from glassformer.tasks.results import Filling, GeneratedText, Results, Summary, Translation


def test_both_ways() -> None:
    found = Summary("short")
    assert found["summary_text"] == found.summary_text == found.text == "short"
    assert found == {"summary_text": "short"} and {"summary_text": "short"} == found != Summary("long")
    assert (
        isinstance(found, Mapping) and dict(found) == {**found} and list(found) == ["summary_text"] and len(found) == 1
    )
    assert json.dumps([found]) == '[{"summary_text": "short"}]' and pickle.loads(pickle.dumps(found)) == found
    assert "summary_text" in found and "text" not in found and found.get("nosuch") is None
    with pytest.raises(KeyError):
        found["text"]
    with pytest.raises(AttributeError, match="a Summary has no 'score'; it has: summary_text"):
        found.score  # noqa: B018
    found.summary_text = "other"
    assert found["summary_text"] == found.text == "other"
    assert Translation("kurz").text == "kurz" and Filling(0.5, 3, "flies", "time flies").text == "time flies"
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert GeneratedText(chat).text == "b" and GeneratedText("a b").text == "a b"


def test_in_a_notebook() -> None:
    html = Results([Filling(0.123456, 3, "<b>", "a <b>\nb")])._repr_html_()
    assert ">score</th>" in html and "0.1235 █▌" in html and "&lt;b&gt;<br>b" in html and "<b>\n" not in html
    both = Results([Results([Summary("a")]), Results([Summary("b")])])._repr_html_()
    assert both.count("<table>") == 2
    chat = GeneratedText([{"role": "user", "content": "<i>"}])
    assert "user: &lt;i&gt;" in Results([chat])._repr_html_()
    assert Results([])._repr_html_() == "<p>no results</p>" and Results(["<"])._repr_html_() == "<p>&lt;</p>"
    assert Results([1, 2]) == [1, 2] and repr(Results([1, 2])) == str(Results([1, 2])) == "[1, 2]"
    assert pickle.loads(pickle.dumps(Results([Summary("a")]))) == [{"summary_text": "a"}]
