"""`docs/` as a site: built without a warning, every link and anchor leads somewhere, and it asks no other machine."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.explorer.browser.conftest import chromium as chromium
from tests.explorer.browser.conftest import tab as tab
from tests.explorer.browser.tab import OVERFLOW

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENTRY = re.compile(r"^(?:\d+\.|-) \[[^\]]+\]\((?P<page>[\w-]+)\.md\)", re.M)
INDEX = (DOCS / "index.md").read_text("utf-8")
COURSE = ENTRY.findall(INDEX.split("\n## The course\n")[1].split("\n## ")[0])


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site without its live views, which take a minute; a warning, as of a broken link, is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "live_views=0"]
    done = subprocess.run(
        [*command, "-d", str(folder / "cache"), str(DOCS), str(folder / "site")],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    return folder / "site"


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        self.anchors |= {of[name] for name in ("id", "name") if name in of}
        self.loaded += [of["src"]] if "src" in of else []
        if "href" in of:
            (self.links if tag == "a" else self.loaded).append(of["href"])


def test_each_page_is_in_the_contents_once() -> None:
    pages = sorted(path.stem for path in DOCS.glob("*.md") if path.stem != "index")
    assert sorted(ENTRY.findall(INDEX)) == pages


LIVE = re.compile(
    r"^<!-- live view(?: #\S+)?: .+ -->\n```console\n\$ glassformer .+ --html (?P<file>[\w-]+)\.html\n```$", re.M
)
NO_MODEL = {"encoder-decoder", "speech"}
"""Chapters without a live view: the package carries no encoder-decoder, and no recording of speech."""


@pytest.mark.parametrize("chapter", COURSE)
def test_each_chapter_has_its_parts(chapter: str) -> None:
    """A formula and the lines of its code, a model, a live view, exercises with checked answers, a mistake."""
    text = (DOCS / f"{chapter}.md").read_text("utf-8")
    page, rest = text.split("\n## Exercises\n")
    exercises, mistakes = rest.split("\n## Spot the mistake\n")
    assert "```python\n" in page
    assert LIVE.findall(page) == ([] if chapter in NO_MODEL else [chapter]), (
        "the file of a live view has its chapter's name"
    )
    assert "```math\n" in page and re.search(r"\]\(\.\./src/glassformer/[\w/]+\.py#L\d+\)", page)
    assert "\n## In the code\n" in page
    questions = re.split(r"^\*\*\d\.\*\* ", exercises, flags=re.M)[1:]
    assert 3 <= len(questions) <= 5
    for question in questions:
        answer = question.split("<details><summary>Answer</summary>")[1]
        assert "```python\n" in answer and "</details>" in answer
        assert "assert " in answer or "raise AssertionError" in answer
    shown = mistakes.split("<details><summary>What is wrong</summary>")
    assert len(shown) >= 2 and "```python\n" in shown[0]
    assert all("assert " in answer or "raise AssertionError" in answer for answer in shown[1:])


@pytest.mark.soak
def test_live_views_are_made(tmp_path: Path) -> None:
    """Each is one file that shows its model without a server."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(tmp_path / "cache")]
    subprocess.run([*command, str(DOCS), str(tmp_path / "site")], check=True, timeout=1800)
    for chapter in set(COURSE) - NO_MODEL:
        view = tmp_path / "site" / "views" / f"{chapter}.html"
        assert view.stat().st_size > 100_000
        assert f'<iframe src="views/{chapter}.html' in (tmp_path / "site" / f"{chapter}.html").read_text("utf-8")


def test_the_first_page_shows_the_story() -> None:
    assert LIVE.findall(INDEX) == ["story"]


def test_links_and_anchors_lead_somewhere(site: Path) -> None:
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 100
    broken = []
    for path, page in pages.items():
        for link in {*page.links, *page.loaded}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = target.is_file() and site.resolve() in target.parents
            anchored = not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].anchors
            if not found or not (anchored or parts.fragment == "top"):
                broken.append(f"{path.name}: {link}")
    assert not broken, broken[:20]


@pytest.mark.parametrize("file", ["README.md", "CHANGELOG.md"])
def test_anchors_of_links_into_the_docs_exist(site: Path, file: str) -> None:
    links = re.findall(r"\]\(docs/([\w-]+)\.md#([^)]+)\)", (ROOT / file).read_text("utf-8"))
    assert len(links) > 5
    for page, anchor in links:
        assert anchor in Page(site / f"{page}.html").anchors, f"{file} links to {page}.md#{anchor}"


def test_nothing_is_loaded_from_another_machine(site: Path) -> None:
    for path in site.rglob("*.html"):
        elsewhere = [link for link in Page(path).loaded if urlsplit(link).scheme not in ("", "data")]
        assert not elsewhere, f"{path.name} loads {elsewhere}"
    for path in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", path.read_text("utf-8")), path.name


def test_lines_of_code_are_pages(site: Path) -> None:
    links = {link for link in Page(site / "glossary.html").links if link.startswith("code/")}
    assert len(links) > 20
    for link in links:
        path, anchor = link.split("#")
        assert f'id="{anchor}"' in (site / path).read_text("utf-8") or anchor == "top", link


def test_formulas_need_no_script(site: Path) -> None:
    for chapter in COURSE:
        text = (site / f"{chapter}.html").read_text("utf-8")
        formulas = (DOCS / f"{chapter}.md").read_text("utf-8").count("```math\n")
        assert text.count("<math ") == formulas and "MathJax" not in text


def test_the_first_picture_of_the_readme_leads_to_the_course() -> None:
    picture = (ROOT / "README.md").read_text("utf-8").split("![", 1)
    assert picture[0].endswith("[") and "](docs/explorer-model.png)](docs/index.md)" in picture[1].split("\n")[0]


def test_the_course_is_one_page_to_print(site: Path) -> None:
    text = (site / "print.html").read_text("utf-8")
    places = [text.index(f'id="{page}--') for page in COURSE]
    assert len(places) >= 10 and places == sorted(places)
    assert "<details>" not in text and "@media print" in (site / "_static" / "site.css").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_it_opens_from_disk(site: Path, tab: Any, width: int, scheme: str) -> None:
    opened = tab(viewport={"width": width, "height": 900}, color_scheme=scheme)
    for name in ("index", COURSE[0], "families"):
        page = opened.goto(site / f"{name}.html")
        assert page.evaluate(OVERFLOW) <= 0, f"{name} is wider than the screen"
    assert all(url.startswith("file:") for url in opened.requested_urls)


def test_it_is_searched_without_a_server(site: Path, tab: Any) -> None:
    opened = tab()
    page = opened.page
    page.goto((site / "search.html").as_uri() + "?q=induction")
    page.wait_for_selector("#search-results li a")
    assert "patching.html" in page.inner_html("#search-results")


def test_the_commands_of_a_console_are_copied_without_prompt_and_output(site: Path, tab: Any) -> None:
    opened = tab()
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened.goto(site / "lessons.html")
    block = page.locator("div.highlight", has_text="$ glassformer").first
    lines = [line for line in block.locator("pre").inner_text().splitlines() if line.startswith("$ ")]
    block.get_by_role("button", name="Copy").press("Enter")
    block.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "\n".join(line[2:] for line in lines)
