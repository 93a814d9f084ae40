"""Recipes as data: no stale line in a table, no stale key, and everything that a family needs is there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from torch import nn

from glassformer.models import FAMILIES, ConfigReader, Family, Network
from glassformer.weights.names import _with_placeholders
from tests.parity.families import ROWS as PARITY_ROWS
from tests.senses import READ_NO_FILES

ROOT = Path(__file__).parents[2]
families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
ROWS = {row.family: row for row in PARITY_ROWS}


OWN_FORMAT = {"transformer"}
"""The paper defines no checkpoints, and the reference library has no such family: tests/models/test_transformer.py."""
OWN_TESTS = {*OWN_FORMAT, *READ_NO_FILES}
"""What the parity table cannot ask, which is about attention and tokens of one id: they have tests of their own."""
OTHER_HEADS = {
    **{
        name: {"sums": {"use_weighted_layer_sum": True}}
        for name, family in FAMILIES.items()
        if "audio-classification" in family.tasks
    },
    "transformer": {"pre-norm": {"norm_first": True}},
}
"""Variations that the parity table cannot try, since they change a head that is not the one it varies."""


def lines_of(family: Family) -> Iterator[tuple[set[tuple[str, str]], Callable[[], nn.Module]]]:
    """The lines (ours, theirs) and network of each head, and of one head in each variation of the parity table."""
    row = ROWS.get(family.model_type)
    variations = {**(row.variations if row else {}), **OTHER_HEADS.get(family.model_type, {})}
    main = family.architectures[row.main] if row else family.tasks[0]
    of_heads = OTHER_HEADS.get(family.model_type, {})
    for name, changes in {"": {}, **variations}.items():
        spec = family.spec(ConfigReader({**family.tiny, **changes}))
        for task in family.tasks if name in ("", *of_heads) else [main]:
            names = family.names(spec, task)
            lines = {(ours, str(theirs)) for ours, theirs in {**names.body, **names.head}.items()}
            yield lines, partial(family.build_on_meta, spec, task)


def test_no_line_of_a_table_is_stale() -> None:
    """Each line names a parameter of some head of a family that has this line: else it is a mistake, or left over."""
    every: set[tuple[str, str]] = set()
    used: set[tuple[str, str]] = set()
    for family in FAMILIES.values():
        for lines, network in lines_of(family):
            if lines <= used:
                continue
            parameters = {name for name, _ in network().named_parameters(remove_duplicate=False)}
            patterns = {_with_placeholders(name)[0] for name in parameters}
            patterns |= {_with_placeholders(name.rpartition(".")[0])[0] for name in parameters}
            patterns |= {part for name in parameters for part in (name, name.rpartition(".")[0])}
            every |= lines
            used |= {line for line in lines if line[0] in patterns}
    assert every == used, f"lines that name no parameter of any head of any family: {sorted(every - used)}"


@families
def test_a_family_has_everything(family: Family) -> None:
    """What a new family still lacks, all at once."""
    name = family.model_type
    module = name.replace("-", "_")
    docs = (ROOT / "docs" / "families.md").read_text()
    lacks = [
        what
        for what, there in {
            "a row in tests/parity/families.py": name in ROWS or name in OWN_TESTS,
            f"tests/golden/{module}.json": any(
                (ROOT / "tests" / "golden" / f"{stem}.json").exists() for stem in (name, module)
            )
            or name in OWN_FORMAT,
            "a distinction, for the table of families": bool(family.distinction),
            "a tiny config": family.tiny.get("model_type") == name,
            "its name in docs/families.md": re.search(rf"\b{re.escape(name)}\b|`{re.escape(name)}`", docs) is not None,
        }.items()
        if not there
    ]
    assert not lacks, f"{name} lacks: {'; '.join(lacks)}"


RECIPE, WITH_PARTS = 120, 200
MODELS = ROOT / "src" / "glassformer" / "models"


@families
def test_recipes_keep_their_budget(family: Family) -> None:
    """A recipe has at most 120 lines, 200 where its module defines parts too; parts of a folder are not counted."""
    name = family.model_type.replace("-", "_")
    folder = (MODELS / name).is_dir()
    module = import_module(f"glassformer.models.{name}.recipe" if folder else f"glassformer.models.{name}")
    own = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    parts = [c for c in own if issubclass(c, nn.Module) and not issubclass(c, Network)]
    assert not (folder and parts), f"{parts} stand in a recipe; the folder has modules for them"
    count = Path(str(module.__file__)).read_text(encoding="utf-8").count("\n")
    assert count <= (WITH_PARTS if parts else RECIPE), f"the recipe of {name} has {count} lines"
