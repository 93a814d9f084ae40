"""HTML: what a browser shows, in order, with headings and the rows of tables.

    <h1>Apples</h1> <p>They are <b>green</b>.</p> <nav>…</nav>      "Apples\\n\\nThey are green.\\n\\n"
    the rows Sort, Weeks and Gala, 12 of a table                    "| Sort | Weeks |\\n| Gala | 12 |\\n"

Scripts, styles, comments and hidden elements are left out; no style sheet is read. So is what a site has on every page:
navigation, and the header, footer and side bar around the page's own content, by their elements and ARIA roles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from glassformer.errors import DataError, import_optional
from glassformer.retrieval.document import Document
from glassformer.retrieval.formats.blocks import TextBlocks
from glassformer.retrieval.formats.encoding import decode

_LEFT_OUT = frozenset(
    "script style template noscript head iframe object embed svg canvas math select datalist audio video map".split()
)
_BLOCKS = frozenset(
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form "
    "header hr html legend main menu nav ol p section summary table ul caption".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NAVIGATION = (
    "nav, menu, [role=navigation], [role=menu], [role=menubar], [role=search], [role=contentinfo], [role=banner]"
)
_AROUND = "header, footer, aside, [role=complementary]"
"""Of the page, where no `_CONTENT` is around them; within, they are parts of it, such as a note or the author."""
_CONTENT = frozenset("main article section blockquote td".split())
_LEAST_MAIN = 0.5
"""Share of a page's text that its `main` has, where that alone is read."""
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_DECLARED = re.compile(rb"""<(?:meta\b[^>]*?charset|\?xml\b[^>]*?encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_DECLARED_WITHIN = 4_096  # browsers look at the first 1,024 bytes


def html_document(data: bytes) -> Document:
    """The document of a page. Raises: DataError: there is no text in it. MissingExtraError: selectolax is missing."""
    declared = _DECLARED.search(data[:_DECLARED_WITHIN])
    text = decode(data, declared[1].decode("ascii", "replace") if declared else None)
    lexbor = import_optional("selectolax.lexbor", "selectolax", "documents", "HTML")
    for whole in (False, True):  # a page of nothing but navigation, such as a list of contents, is read whole
        tree = lexbor.LexborHTMLParser(text)
        blocks = TextBlocks()
        if tree.root is not None:
            _Writer(blocks).write(tree.root if whole else _content(tree))
        title = tree.css_first("title")
        name = "" if title is None else " ".join(title.text().split())
        with suppress(DataError):
            return blocks.document(title=name, metadata=dict(_metadata(tree)))
    raise DataError("it shows no text: perhaps scripts write its content")


def _content(tree: Any) -> Any:
    """The part of a page that is its own, without what a site has on every page; but with the only main heading."""
    for node in tree.css(_NAVIGATION):
        node.decompose()
    headings = tree.css("h1")
    for node in tree.css(_AROUND):
        if not _is_within_content(node) and not (len(headings) == 1 and node.css_first("h1") is not None):
            node.decompose()
    tree.strip_tags(["script", "style", "template", "noscript"])  # which `text` would count
    main = tree.css_first("main, [role=main]")
    if main is None or len(main.text()) < _LEAST_MAIN * len(tree.root.text()):
        return tree.root
    return main


def _is_within_content(node: Any) -> bool:
    while (node := node.parent) is not None:
        if node.tag in _CONTENT or node.attributes.get("role") in ("main", "article"):
            return True
    return False


def _metadata(tree: Any) -> Iterator[tuple[str, str]]:
    for name in ("description", "author", "keywords"):
        node = tree.css_first(f"meta[name={name}]")
        if node is not None and (content := (node.attributes.get("content") or "").strip()):
            yield name, content
    language = tree.css_first("html[lang]")
    if language is not None and language.attributes.get("lang"):
        yield "language", str(language.attributes["lang"])


class _Writer:
    """Writes the nodes of a tree as blocks. It calls itself for no child: elements may be nested without end."""

    def __init__(self, blocks: TextBlocks) -> None:
        self._blocks = blocks
        self._heading = 0  # the level of the heading that is open
        self._rows = self._verbatim = 0  # open rows of tables and preformatted elements

    def write(self, root: Any) -> None:
        node, entering, end = root, True, root.mem_id
        while node is not None:
            if entering and self._enter(node) and node.child is not None:
                node = node.child
                continue
            self._leave(node)
            if node.mem_id == end:
                return
            following = node.next
            node, entering = (node.parent, False) if following is None else (following, True)

    def _enter(self, node: Any) -> bool:
        """Write what begins with a node; whether its children are looked at."""
        tag = node.tag
        if tag == "-text":
            self._blocks.write(node.text_content or "", verbatim=bool(self._verbatim))
            return False
        if tag.startswith(("-", "!", "_")) or tag in _LEFT_OUT or _is_hidden(node):
            return False
        if tag in _HEADINGS and not self._rows:
            self._blocks.begin_heading()
            self._heading = _HEADINGS[tag]
        elif tag == "tr":
            self._blocks.begin_row()
            self._rows += 1
        elif tag in ("td", "th"):
            self._blocks.next_cell()
        elif tag == "br":
            self._blocks.end_line()
        elif tag == "li":
            self._blocks.end_line()
            self._blocks.write("- ")
        elif tag in ("pre", "textarea"):
            self._blocks.end_block()
            self._verbatim += 1
        elif tag in _BLOCKS:
            self._blocks.end_block()
        elif tag == "img" and (alt := (node.attributes.get("alt") or "").strip()):
            self._blocks.write(alt)
        return True

    def _leave(self, node: Any) -> None:
        """Write what ends with a node that was entered."""
        tag = node.tag
        if tag in _LEFT_OUT or tag == "-text":
            return
        if tag in _HEADINGS and self._heading == _HEADINGS[tag]:
            self._blocks.end_heading(self._heading)
            self._heading = 0
        elif tag == "tr" and self._rows and not _is_hidden(node):
            self._rows -= 1
            self._blocks.end_row()
        elif tag in ("pre", "textarea") and self._verbatim and not _is_hidden(node):
            self._verbatim -= 1
            self._blocks.end_block()
        elif tag == "li":
            self._blocks.end_line()
        elif tag in _BLOCKS:
            self._blocks.end_block()


def _is_hidden(node: Any) -> bool:
    attributes = node.attributes
    if not attributes:
        return False
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    return bool(_HIDDEN_STYLE.search(attributes.get("style") or ""))
