"""HTML: what a browser shows, and nothing else."""

from __future__ import annotations

import pytest

from glassformer.errors import DataError
from glassformer.retrieval.formats.html import html_document
from glassformer.retrieval.formats.isolated import read_isolated

PAGE = """<!DOCTYPE html><html lang="en"><head><title> The
 page </title><meta name="description" content="about apples"><style>p { color: red }</style></head><body>
<h1>Apples &amp; pears</h1><!-- comment --><p>They are <b>gre</b>en.<br>And
round.</p><script>alert("1")</script><noscript>no script</noscript><template>template</template>
<p hidden>hidden one</p><div style="color: red; display:none">hidden two</div>
<span aria-hidden="true">hidden three</span>
<ul><li>One<li>Two <i>x</i></ul>
<h2>Sorts <a href="#x">of them</a></h2>
<table><thead><tr><th>Sort<th>Weeks</thead><tr><td>Gala<td>12<tr><td>Fuji <td><p>20</p><p>or more</p></table>
<pre>def f():
    return  1</pre>
<h4>Deep</h4>text<div>outer<div>inner</div>again</div><img alt="A tree" src="x"></body></html>"""


def test_text_comes_in_order_without_what_is_not_shown() -> None:
    assert html_document(PAGE.encode()).text == (
        "Apples & pears\n\nThey are green.\nAnd round.\n\n- One\n- Two x\n\nSorts of them\n\n"
        "| Sort | Weeks |\n| Gala | 12 |\n| Fuji | 20 or more |\n\ndef f():\n    return  1\n\nDeep\n\n"
        "text\n\nouter\n\ninner\n\nagain\n\nA tree\n\n"
    )


def test_headings_begin_parts() -> None:
    document = html_document(PAGE.encode())
    top = "Apples & pears"
    assert [part.headings for part in document.parts] == [
        (top,), (top, "Sorts of them"), (top, "Sorts of them", "Deep")
    ]  # fmt: skip
    assert all(document.text[part.start :].startswith(part.headings[-1]) for part in document.parts)


@pytest.mark.parametrize(
    "inside", ["One<br>two", "<div>One</div><p>two</p>", "<span>One</span> <b>tw</b>o", "<ul><li>One two</ul>"]
)
def test_a_heading_may_have_lines_and_blocks(inside: str) -> None:
    document = html_document(f"<p>before<h2>{inside}</h2>after".encode())
    assert [part.headings for part in document.parts] in ([(), ("One two",)], [(), ("- One two",)])
    assert document.text.split("\n\n")[::2] == ["before", "after"]


def test_title_description_and_language_are_kept() -> None:
    document = html_document(PAGE.encode())
    assert document.title == "The page"
    assert document.metadata == {"description": "about apples", "language": "en"}
    assert html_document(b"<h1>Only</h1><p>text").title == "Only"
    (part,) = html_document(b"<h1>One</h1><h2>Two</h2><p>text").parts
    assert part == (0, ("One", "Two"), 0, {})


@pytest.mark.parametrize("head", ['<meta charset="windows-1251">', '<meta http-equiv="x" content="a; charset=cp1251">'])
def test_the_declared_encoding_is_believed(head: str) -> None:
    text = "Яблоки"  # too short to guess
    assert html_document(f"{head}<p>{text}".encode("cp1251")).text.strip() == text
    assert html_document(f"{head}<p>{text}".encode()).text.strip() == text  # UTF-8 all the same


def test_a_table_that_lays_out_a_page_is_text() -> None:
    document = html_document(
        b"<table><tr><td><p>One text.</p></td></tr><tr><td>Two <table><tr><td>a<td>b</table></table>"
    )
    assert document.text.strip() == "One text.\nTwo a b"


@pytest.mark.parametrize("page", [b"", b"<html><body></body></html>", b"<script>write('x')</script><p hidden>a</p>"])
def test_a_page_that_shows_nothing_is_refused(page: bytes) -> None:
    with pytest.raises(DataError, match="it shows no text"):
        html_document(page)


@pytest.mark.parametrize(
    "page",
    [b"<p>open <b>never <i>closed", b"</div></p><p>x", b"<tr><td>x", b"<table>x", b"<p>&#xD800;&#0;x", b"<<<>>x",
     b"<li>x<li>"],
)  # fmt: skip
def test_damaged_pages_are_read_as_browsers_do(page: bytes) -> None:
    text = html_document(page).text
    assert text.strip() and text.encode()


def test_nesting_without_end_is_bounded_in_time_and_the_next_page_is_read() -> None:
    assert html_document(b"<div>" * 3_000 + b"x").text == "x\n\n"
    with pytest.raises(DataError, match="it could not be read: it runs too long; the limit is 1 s"):
        read_isolated("html", b"<div>" * 2_000_000, 1.0)
    assert read_isolated("html", b"<p>next", 1.0).text == "next\n\n"


def test_the_child_gives_the_same_document() -> None:
    assert read_isolated("html", PAGE.encode(), 60.0) == html_document(PAGE.encode())
    with pytest.raises(DataError, match="it shows no text"):
        read_isolated("html", b"", 60.0)


SITE = """<title>Ferry</title><body><header><a href=/>Ferry Ltd</a></header><nav><ul><li>Home<li>About us</ul></nav>
<div role="navigation">Next</div><div class="page">{page}</div>
<aside>Related: <a href=x>Trains</a></aside><footer>Copyright 2020. Privacy policy.</footer>"""
ARTICLE = (
    "<h1>Ferry</h1><header>By Ann</header><p>It leaves at 8:15.</p><aside>Mind the gap.</aside>"
    "<nav>Contents</nav><footer>Corrected in May.</footer>"
)
SHOWN = "Ferry\n\nBy Ann\n\nIt leaves at 8:15.\n\nMind the gap.\n\nCorrected in May.\n\n"


@pytest.mark.parametrize("page", [f"<main>{ARTICLE}</main>", f"<article>{ARTICLE}</article>", f"<p><section>{ARTICLE}"])
def test_what_a_site_has_on_every_page_is_left_out(page: str) -> None:
    assert html_document(SITE.format(page=page).encode()).text == SHOWN


def test_what_is_around_the_main_element_is_left_out_where_that_has_most_of_the_text() -> None:
    dialog = f"<div>Keyboard shortcuts</div><script>{'let a = 1;' * 99}</script>"
    assert html_document(f"{dialog}<main>{ARTICLE}</main>".encode()).text == SHOWN
    text = html_document(f"<main><p>Log in</p></main><h1>Ferry</h1><p>{'It leaves at 8:15. ' * 9}".encode()).text
    assert text.startswith("Log in\n\nFerry\n\nIt leaves")


def test_a_page_of_navigation_alone_is_read() -> None:
    assert html_document(b"<nav><ul><li>Ferries<li>Trains</ul></nav>").text == "- Ferries\n- Trains\n\n"
    assert html_document(b"<header><h1>Ferry</h1><nav>Home</nav></header><p>Text").text == "Ferry\n\nText\n\n"
