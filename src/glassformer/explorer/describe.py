"""A session in JSON, as web/src/core/types.ts has it: what the page must know before it asks for numbers."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from glassformer.inspect.session import AttentionMap, Session

if TYPE_CHECKING:
    from glassformer.model import Model

TITLES = {
    "self": "self-attention",
    "text": "text to text",
    "image": "image to image",
    "text to image": "cross-attention: text to image",
    "image to text": "cross-attention: image to text",
    "encoder": "encoder: source to source",
    "decoder": "decoder: target to target",
    "cross": "cross-attention: target to source",
}
SAMPLES = 256
"""Numbers of each parameter that go into the hash."""
LONGEST_ARGUMENT = 300
"""Characters of a text that a command line shows; a longer text stands in a file."""
_SAY_LITTLE = ("model", "checkpoint", "final", "best", "output", "weights")


@dataclass(frozen=True, slots=True)
class Facts:
    """What every picture says of the model. `place` is what the command line calls it."""

    name: str
    place: list[str]
    family: str
    task: str
    revision: str
    dtype: str
    parameters: int
    max_tokens: int | None
    opens: str | None  # what its first text names the file of: "picture" or "sound"
    writes: bool  # can it generate text?
    answers: bool  # does it answer what it reads, instead of continuing it?


def facts_of(model: Model) -> Facts:
    """Look at a model once."""
    name, place = _name(model.folder)
    return Facts(
        name=name or model.family.model_type,
        place=place,
        family=model.family.model_type,
        task=model.task,
        revision=revision_of(model),
        dtype=str(model.dtype).removeprefix("torch."),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        max_tokens=model.network.max_tokens,
        opens=model.family.opens,
        writes=model.writes,
        answers="decoder_input_ids" in model.network.READS,
    )


def revision_of(model: Model) -> str:
    """Ten hex digits that name these weights.

    A hash of every parameter's name, shape and dtype, and of numbers picked evenly from it: of the weights in memory,
    so two fine-tunings of one model differ, and so does a model whose weights somebody edited. It is no proof that
    every number is the same; a change of a few numbers only can escape it.
    """
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        flat = parameter.detach().flatten()
        some = flat[:: max(1, len(flat) // SAMPLES)]
        digest.update(f"{name} {list(parameter.shape)} {parameter.dtype}\n".encode())
        digest.update(some.to("cpu", torch.float64).numpy().tobytes())
    return digest.hexdigest()[:10]


def session_id(revision: str, texts: Sequence[str]) -> str:
    """The same for the same model and texts, so that a session let go and made anew keeps its name."""
    return hashlib.sha256(json.dumps([revision, *texts]).encode()).hexdigest()[:16]


def describe(session: Session, facts: Facts, asked: Sequence[str], id: str | None = None) -> dict[str, Any]:
    """A session as the page gets it.

    Args:
        asked: the texts as they were given; an encoder-decoder may have written the second of `session.texts` itself.
        id: the name by which it is found again; None = that of its texts.
    """
    model = {key: value for key, value in asdict(facts).items() if key != "place"}
    return {
        "id": id or session_id(facts.revision, asked),
        "model": model,
        "texts": list(session.texts),
        "text_hash": hashlib.sha256(json.dumps(session.texts).encode()).hexdigest()[:8],
        "fields": _fields(session, facts.opens),
        "sides": {side: [asdict(token) for token in tokens] for side, tokens in session.sides.items()},
        "maps": [_map(found) for found in session.maps.values()],
        "nbytes": session.nbytes,
        "seconds": session.seconds,
        "command": command(facts, asked),
    }


def _fields(session: Session, opens: str | None) -> list[str]:
    """What each of the texts is called."""
    if opens is None:
        return ["source", "target"] if "source" in session.sides else ["text", "second text"]
    beside = {"text": "text", "target": "transcript"}
    return [opens, *(name for side, name in beside.items() if side in session.sides)]


def command(facts: Facts, texts: Sequence[str], *options: str) -> str:
    """The command line that makes this page again."""
    arguments = [_argument(text) for text in texts]
    if any(text.startswith("-") for text in texts):
        return " ".join(["glassformer look", *facts.place, *options, "--", *arguments])
    return " ".join(["glassformer look", *facts.place, *arguments, *options])


def _argument(text: str) -> str:
    return shlex.quote(text) if len(text) <= LONGEST_ARGUMENT else '"$(cat text.txt)"'


def _map(found: AttentionMap) -> dict[str, Any]:
    return {**asdict(found), "title": TITLES[found.name]}


def _name(folder: Path | None) -> tuple[str | None, list[str]]:
    """What people call the model of a folder, and how the command line names it.

    …/models--org--name/snapshots/0123…  is the Hub's  org/name --revision 0123…; of a folder called "model" the name
    of the folder around it says more.
    """
    if folder is None:
        return None, ["MODEL"]
    whole = folder.absolute()
    repository = whole.parent.parent
    if whole.parent.name == "snapshots" and repository.name.startswith("models--"):
        name = repository.name.removeprefix("models--").replace("--", "/")
        return name, [shlex.quote(name), "--revision", whole.name]
    parent = whole.parent.name
    name = f"{parent}/{whole.name}" if whole.name.startswith(_SAY_LITTLE) and parent else whole.name
    return name.removesuffix("/model"), [_short_path(folder)]


def _short_path(folder: Path) -> str:
    """A path for a shell; below the home folder it begins with ~, which names nobody."""
    try:
        inside = folder.relative_to(Path.home())
    except (ValueError, RuntimeError):  # elsewhere; or there is no home
        return shlex.quote(str(folder))
    return "~/" + shlex.quote(str(inside))
