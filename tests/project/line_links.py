"""Links of the docs to a line of code: [`the code`](../src/….py#L12).

`python -m tests.project.line_links` renumbers them.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE_LINK = re.compile(r"\[`(?P<code>[^`]+)`\]\((?P<file>[^)#\s]+)#L(?P<line>\d+)\)")


def lines_with(page: Path, match: re.Match[str]) -> list[int]:
    """The lines of the linked file that hold the code of a link."""
    lines = (page.parent / match["file"]).read_text("utf-8").split("\n")
    return [number for number, line in enumerate(lines, 1) if match["code"] in line]


def wrong_lines(page: Path, text: str) -> list[str]:
    """Links to a line that does not hold their code, and the lines that do."""
    return [
        f"{match['code']!r} is not in line {match['line']} of {match['file']}, but in {lines or 'none'}"
        for match in CODE_LINK.finditer(text)
        if int(match["line"]) not in (lines := lines_with(page, match))
    ]


def renumbered(page: Path, text: str) -> str:
    """The text of a page whose links go to the nearest line that holds their code, where there is one."""

    def link(match: re.Match[str]) -> str:
        before = int(match["line"])
        line = min(lines_with(page, match), key=lambda number: abs(number - before), default=before)
        return f"[`{match['code']}`]({match['file']}#L{line})"

    return CODE_LINK.sub(link, text)


if __name__ == "__main__":
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        path.write_text(renumbered(path, path.read_text("utf-8")), "utf-8")
