"""How `make site` makes a site of these pages, with Sphinx. The pages stay plain Markdown, as GitHub shows it.

What is done to them on the way:

- The lists of `index.md` become the table of contents: the order is in one place.
- A link to a file of the repository leads to a page with its numbered lines, `code/…`.
- A console block below `<!-- live view -->` is run, and the page that it writes is shown in its place.
- Formulas become MathML, which browsers draw themselves: no script, no font, no request to another machine.
- The chapters of the course, one after the other, make `print.html`.
"""

from __future__ import annotations

import html
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent

project = "Glassformer"
copyright = "The Glassformer authors"
extensions = ["myst_parser"]
exclude_patterns = ["results"]
html_theme = "furo"
html_title = "Glassformer"
html_static_path = ["site.css", "copy.js"]
html_css_files = ["site.css"]
html_js_files = [("copy.js", {"defer": "defer"})]
html_copy_source = html_show_sourcelink = False
html_show_search_summary = False  # it would fetch the pages, which browsers refuse for files
html_math_renderer = "mathml"
myst_enable_extensions = ["html_image"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 5
myst_url_schemes = {"http": None, "https": None, "code": {"url": "code/{{path}}.html#{{fragment}}"}}

SECTION = re.compile(r"^## (?P<caption>.+)\n(?P<body>(?:(?!## ).*\n?)*)", re.M)
ENTRY = re.compile(r"^(?:\d+\.|-) \[[^\]]+\]\((?P<page>[\w-]+)\.md\)", re.M)
OUTSIDE = re.compile(r"\]\(\.\./(?P<file>[^)#\s]+)(?:#L(?P<line>\d+))?\)")
LIVE = re.compile(
    r"^<!-- live view(?: #(?P<state>\S+))?: (?P<caption>.+) -->\n```console\n\$ (?P<command>.+)\n```$", re.M
)


def order() -> dict[str, list[str]]:
    """The pages of each section of `index.md`: {"The course": ["attention", …], …}."""
    text = (DOCS / "index.md").read_text("utf-8")
    sections = {match["caption"]: ENTRY.findall(match["body"]) for match in SECTION.finditer(text)}
    return {caption: pages for caption, pages in sections.items() if pages}


def views_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """The file that each live view of a page is written to, and the command that writes it."""
    for match in LIVE.finditer(text):
        words = shlex.split(match["command"])
        yield words[words.index("--html") + 1], words


def adapt(app: Sphinx, page: str, source: list[str]) -> None:
    """Before a page is parsed: contents, links to files outside `docs/`, live views."""
    text = source[0]
    if page == "index":
        contents = (
            f"```{{toctree}}\n:caption: {caption}\n:hidden:\n\n" + "\n".join(pages) + "\n```"
            for caption, pages in order().items()
        )
        text += (
            '\n\n<p><a href="print.html">The course on one page, to print</a></p>\n\n' + "\n\n".join(contents) + "\n"
        )

    def code(match: re.Match[str]) -> str:
        file = match["file"]
        if not (ROOT / file).is_file():
            return match[0]
        app.config.code_files[file] = app.config.code_files.get(file, False) or match["line"] is not None
        return f"](code:{file}#{'L-' + match['line'] if match['line'] else 'top'})"

    def frame(match: re.Match[str]) -> str:
        words = shlex.split(match["command"])
        file = words[words.index("--html") + 1]
        if match["state"]:  # of the explorer, as its address has it
            file += f"#v=1&amp;{html.escape(match['state'])}"
        return (
            f'<figure class="live"><iframe src="views/{file}" title="{html.escape(match["caption"])}" loading="lazy">'
            f'</iframe><figcaption>{html.escape(match["caption"])} <a href="views/{file}">Open it alone</a>. '
            f"Written by <code>{html.escape(match['command'])}</code></figcaption></figure>"
        )

    text = OUTSIDE.sub(code, text)
    if app.config.live_views:
        text = LIVE.sub(frame, text)
    source[0] = text


PLAIN = re.compile(r'<span class="(?:n|p|w|o)">([^<]*)</span>')
"""Names, brackets, spaces and operators have the colour of the text: four in five of a file's tags."""


def code_page(file: str, coloured: bool) -> str:
    """A file of the repository as a page: its lines, each with the anchor L-NUMBER.

    Args:
        file: its path in the repository.
        coloured: by its syntax, which takes two thirds of the time of a build if every module is.
    """
    text = (ROOT / file).read_text("utf-8")
    lexer = get_lexer_for_filename(file, stripnl=False) if coloured else TextLexer(stripnl=False)
    lines = PLAIN.sub(r"\1", highlight(text, lexer, HtmlFormatter(linespans="L")))
    up = "../" * (file.count("/") + 1)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{file}</title><link rel="stylesheet" href="{up}_static/code.css">'
        f'<body id="top"><p><a href="{up}index.html">Glassformer</a> · {file}</p>{lines}</body></html>'
    )


def write_code(app: Sphinx, problem: Exception | None) -> None:
    """Last: the pages of linked files, and the live views."""
    if problem or app.builder.name != "html":
        return
    out = Path(app.outdir)
    light, dark = (HtmlFormatter(style=style).get_style_defs(".highlight") for style in ("friendly", "github-dark"))
    (out / "_static" / "code.css").write_text(CODE_CSS.replace("LIGHT", light).replace("DARK", dark), "utf-8")
    for file, coloured in sorted(app.config.code_files.items()):
        target = out / "code" / f"{file}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(code_page(file, coloured), "utf-8")
    if app.config.live_views:
        (out / "views").mkdir(exist_ok=True)
        for page in sorted(DOCS.glob("*.md")):
            for file, words in views_of(page.read_text("utf-8")):
                print(f"{page.name}: {shlex.join(words)}", flush=True)
                command = [sys.executable, "-m", *words]
                subprocess.run(command, cwd=out / "views", check=True, stdout=subprocess.DEVNULL)
                assert (out / "views" / file).exists(), f"{page.name}: {shlex.join(words)} wrote no {file}"


CODE_CSS = """body { margin: 1rem; font: 15px/1.5 system-ui, sans-serif; } pre { line-height: 1.45; font-size: 13px; }
pre { counter-reset: line; overflow-x: auto; } span[id]::before { counter-increment: line; content: counter(line);
display: inline-block; width: 3em; margin-right: 1.5em; text-align: right; opacity: 0.5; }
:target { background: #ffd54a55; }
LIGHT
@media (prefers-color-scheme: dark) { body { background: #14181f; color: #dbe1ea; } a { color: #7db4ff; }
DARK
}
"""


def print_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """`print.html`: the course as one page, answers open. Anchors get their chapter's name in front."""
    if app.builder.name != "html":
        return
    chapters = []
    for page in order()["The course"]:
        tree = app.env.get_and_resolve_doctree(page, app.builder)
        body = app.builder.render_partial(tree)["fragment"]  # type: ignore[attr-defined]
        body = re.sub(r'(\bid="|\bhref="#)', rf"\g<1>{page}--", body).replace("<details>", "<details open>")
        body = re.sub(r'<figure class="live">.*?</figure>', "", body, flags=re.S)  # paper shows no explorer
        chapters.append(f'<section class="chapter">{body}</section>')
    context = {"title": "The course, to print", "body": "\n".join(chapters), "parents": [], "display_toc": False}
    yield "print", context, "page.html"


def visit_math(translator: Any, node: nodes.Element, block: bool = False) -> None:
    """A formula as MathML."""
    formula = tex2mathml(node.astext(), as_block=block)
    translator.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.Element) -> None:
    """A formula on lines of its own."""
    visit_math(translator, node, block=True)


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.add_config_value("live_views", True, "env", bool)
    app.add_config_value("code_files", {}, "", dict)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_block, None))
    app.connect("source-read", adapt)
    app.connect("html-collect-pages", print_page)
    app.connect("build-finished", write_code)
