"""The tables of docs/data-sets.md, from `sets.yaml`; `python -m tests.project.data_set_page` writes them again."""

from __future__ import annotations

from pathlib import Path

from glassformer.data.sets import DataSet, data_sets

PAGE = Path(__file__).parents[2] / "docs" / "data-sets.md"
BEGIN, END = "<!-- data sets -->\n", "<!-- end of data sets -->"
TITLES = {
    "classify": "Classification",
    "tag": "Named entities",
    "answer": "Question answering",
    "summarise": "Summarisation",
    "translate": "Translation",
    "generate": "Language models and code",
    "fill": "Masked language models",
    "transcribe": "Speech",
}


def entry_of(entry: DataSet) -> str:
    """A row of a table."""
    splits = "<br>".join(split if count is None else f"{split} {count:,}" for split, count in entry.rows.items())
    columns = ", ".join(f"`{role}`" for role in entry.columns) or "as published"
    more = [
        f"{what}: {', '.join(f'`{name}`' for name in names)}"
        for what, names in (("parts", entry.parts), ("prompts", entry.prompts))
        if names
    ]
    if entry.sample:
        more.append("sample: " + ", ".join(f"{name} {count:,}" for name, count in entry.sample.items()))
    about = "<br>".join([entry.about, *([f"*{entry.note}*"] if entry.note else []), *more])
    licence = entry.licence if entry.commercial else f"{entry.licence} (not for commercial use)"
    fetched = " ✓" if entry.files else ""
    cells = [f"[`{entry.name}`]({entry.published}){fetched}", about, splits, columns, ", ".join(entry.metric), licence]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def tables() -> str:
    """A table for each task."""
    text = ""
    for task in dict.fromkeys(entry.task for entry in data_sets().values()):
        text += f"\n## {TITLES[task]}\n\nTask `{task}`.\n\n"
        text += "| data set | what | rows | columns | metric | licence |\n| --- | --- | --- | --- | --- | --- |\n"
        text += "".join(entry_of(entry) for entry in data_sets().values() if entry.task == task)
    return text + "\n"


def page(text: str) -> str:
    """The page with the tables in the place of its own."""
    return text[: text.index(BEGIN) + len(BEGIN)] + tables() + text[text.index(END) :]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
