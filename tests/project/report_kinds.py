"""The table of docs/reports.md, made from the classes: `python -m tests.project.report_kinds` renews it."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from pathlib import Path

import glassformer
from glassformer.reports.report import Report

PAGE = Path(__file__).parents[2] / "docs" / "reports.md"
HEAD = "| kind | what it is | keys |\n| --- | --- | --- |\n"
LEFT_OUT = ("glassformer.__main__", "glassformer.integrations")
"""A command that runs when it is imported, and bridges to libraries that may not be installed."""


def report_classes() -> list[type[Report]]:
    """Every report class of the package, by kind; a dataclass with slots is made twice, under one name."""
    for module in pkgutil.walk_packages(glassformer.__path__, "glassformer."):
        if not module.name.startswith(LEFT_OUT):
            importlib.import_module(module.name)
    classes: dict[str, type[Report]] = {}
    waiting: list[type[Report]] = [Report]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls.__module__.startswith("glassformer.") and "KIND" in vars(cls):
            classes[f"{cls.__module__}.{cls.__qualname__}"] = cls
    return sorted(classes.values(), key=lambda cls: cls.KIND)


def table() -> str:
    """The table of all kinds."""
    lines = []
    for cls in report_classes():
        keys = cls.KEYS or tuple(x.name for x in dataclasses.fields(cls) if not x.name.startswith("_"))
        about = re.sub(r"\s+", " ", (cls.__doc__ or "").strip().split("\n\n")[0]).split(". ")[0].rstrip(".:")
        names = ", ".join(f"`{key}`" for key in keys)
        lines.append(f"| `{cls.KIND}` | {about.replace('|', chr(92) + '|')} | {names} |\n")
    return HEAD + "".join(lines)


def page_with(text: str) -> str:
    """The page with a table in the place of its own."""
    start = text.index(HEAD)
    end = text.find("\n\n", start)
    return text[:start] + table() + (text[end + 1 :] if end >= 0 else "")


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text("utf-8")), "utf-8")
