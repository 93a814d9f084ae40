"""JSON description of a session, as declared in web/src/core/types.ts: all that the page needs before any numbers."""

from __future__ import annotations

import hashlib
import json
import shlex
import sysconfig
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.compression.precision_copy import other_precisions
from glassformer.core.quantised import StoredLevels, count_weights
from glassformer.engine.pooling import PoolingSettings
from glassformer.errors import UnsupportedError
from glassformer.explorer.glossary import GLOSSARY
from glassformer.explorer.how_to_read import HOW_TO_READ
from glassformer.explorer.readings import explains_quickly
from glassformer.explorer.registry import tabs
from glassformer.hub.find import packaged_name
from glassformer.inspect.answer import answer
from glassformer.inspect.lookup import streams_with_table
from glassformer.inspect.opening import explained_token, short_streams
from glassformer.inspect.outputs import reads_layers
from glassformer.inspect.patching.readout import predicts
from glassformer.inspect.session import AttentionMap, Session
from glassformer.loaded_model import LoadedModel
from glassformer.reports.page import shown_command, shown_path

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
_PACKAGE = Path(__file__).parents[1]
_GENERIC_NAMES = ("model", "checkpoint", "final", "best", "output", "weights")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """ModelFacts about a model, shown next to every figure.

    cli_arguments: how the command line names the model.
    """

    name: str
    cli_arguments: list[str]
    family: str
    task: str
    revision: str
    dtype: str
    parameters: int
    max_tokens: int | None
    modality: str | None  # "picture" or "sound": the kind of file that the first text names
    can_generate: bool
    can_transcribe: bool
    predicts: str | None  # "text": a class of a text; "token": something at each token; None: there is nothing to patch
    can_compare: bool  # two texts, by vectors of them
    mask_token: str | None
    reads: bool  # its head can read every layer: logit lens and attribution
    is_encoder_decoder: bool
    precisions: list[str]  # that it can be compared with itself in
    layers: int  # of the deepest group of attention layers
    heads: int
    corpus: dict[str, Any] | None = None  # what the index of a corpus holds, where there is one
    against: str | None = None  # the name of the model, or the precision, that it is compared with
    levels: str | None = None  # "int8" or "int4": what most of its weights are stored as, where they are levels


def model_facts(model: LoadedModel) -> ModelFacts:
    """Collect the facts about a model."""
    name, cli_arguments = _name(model.folder)
    groups = [group.layers for group in model.network.attention_layout().values()]
    return ModelFacts(
        name=name or model.family.model_type,
        cli_arguments=cli_arguments,
        family=model.family.model_type,
        task=model.task,
        revision=model.network.fingerprint(),
        dtype=str(model.dtype).removeprefix("torch."),
        parameters=count_weights(model.network),
        max_tokens=model.network.max_tokens,
        modality="sound" if model.network.sizes.codebooks else model.family.modality,
        can_generate=model.writes,
        predicts=predicts(model.network),
        reads=reads_layers(model.network),
        can_transcribe=model.task == "automatic-speech-recognition",
        can_compare=makes_text_vectors(model),
        mask_token=model.tokenizer.mask_token if model.has_tokenizer and not model.family.modality else None,
        is_encoder_decoder="decoder_input_ids" in model.network.READS,
        precisions=other_precisions(model.network),
        layers=max(map(len, groups), default=0),
        heads=max((layer.attention.spec.heads for group in groups for layer in group), default=0),
        levels=_levels(model),
    )


def _levels(model: LoadedModel) -> str | None:
    """What most of the quantised weights of a model are stored as."""
    numbers = Counter[str]()
    for module in model.network.modules():
        if isinstance(module, StoredLevels):
            numbers[f"int{module.bits}"] += module.rows * module.columns
    return max(numbers, key=numbers.__getitem__, default=None)


def views_of(facts: ModelFacts) -> list[str]:
    """The names of the views that a model has."""
    return [name for name, tab in tabs().items() if tab.has(facts)]


def check_view(view: str | None, facts: ModelFacts, texts: Sequence[str]) -> None:
    """Raises: UnsupportedError: the model does not have this view, or the view needs two texts."""
    if view is None:
        return
    tab = tabs()[view]
    if tab.has(facts) and (view != "similarity" or len(texts) == 2):
        return
    names = [f"{name} (of two texts)" if name == "similarity" else name for name in views_of(facts)]
    raise UnsupportedError(
        f"view is {view!r}, which {tab.purpose}; this {facts.family!r} model, with "
        f"{'one text' if len(texts) == 1 else 'two texts'}, has the views {', '.join(names)}"
    )


def opens_with_generation(facts: ModelFacts, texts: Sequence[str]) -> bool:
    """Whether a page opens with what the model writes: a decoder's, unless two texts are looked at together."""
    return facts.can_generate and not facts.is_encoder_decoder and facts.modality is None and len(texts) == 1


def makes_text_vectors(model: LoadedModel) -> bool:
    """Whether texts are compared by its vectors: its folder says how to pool, or it has no head for anything else."""
    pooled = isinstance(model.pooling, PoolingSettings) and (model.pooling.stored or model.network.head is None)
    return pooled and list(model.network.stacks()) == ["text"] and not model.family.modality


def session_id(revision: str, texts: Sequence[str]) -> str:
    """Session id: a hash of model and texts, so that a session evicted and run again has the same one."""
    return hashlib.sha256(json.dumps([revision, *texts]).encode()).hexdigest()[:16]


def describe(
    session: Session, facts: ModelFacts, texts: Sequence[str], id: str | None = None, *, shown: Sequence[str] = ()
) -> dict[str, Any]:
    """A session as a JSON object. `look` is the command that opens it, to which options can be appended.

    Args:
        texts: as the user gave them; an encoder-decoder may have generated the second of `session.texts` itself.
        id: session id; None = that of its texts.
        shown: the views of the page; none = all of the model's.
    """
    views = [name for name in views_of(facts) if not shown or name in shown]
    model = {key: value for key, value in asdict(facts).items() if key != "cli_arguments"}
    return {
        "id": id or session_id(facts.revision, texts),
        "model": model,
        "views": views,
        "glossary": GLOSSARY,
        "how_to_read": {name: HOW_TO_READ[name] for name in views if name in HOW_TO_READ},
        "reports": {
            name: {"title": tab.title, "sentence": tab.sentence}
            for name, tab in tabs().items()
            if tab.title and name in views
        },
        "texts": list(session.texts),
        "text_hash": hashlib.sha256(json.dumps(session.texts).encode()).hexdigest()[:8],
        "fields": _fields(session, facts.modality),
        "streams": {name: [asdict(token) for token in tokens] for name, tokens in session.streams.items()},
        "maps": [_map(session, attention_map) for attention_map in session.maps.values()],
        "opening": _opening(session, facts, texts),
        "lookups": streams_with_table(session),
        "nbytes": session.nbytes,
        "seconds": session.seconds,
        "look": command(facts, texts),
        "command": command(facts, texts),
    }


def _opening(session: Session, facts: ModelFacts, texts: Sequence[str]) -> dict[str, Any]:
    """What the page opens with: a view, what heads do in this text, the most telling first, and what the model says."""
    reply = answer(session, explained_token(session))
    view = "model"
    if facts.can_transcribe:
        view = "sound"
    elif opens_with_generation(facts, texts):
        view = "generate"
    elif reply is not None and not facts.can_generate and explains_quickly(session):
        view = "attribution"
    return {
        "view": view,
        "findings": [asdict(each) for each in session.findings],
        "short": bool(short_streams(session)),
        "answer": None if reply is None else asdict(reply),
    }


def _fields(session: Session, modality: str | None) -> list[str]:
    """Labels of the text fields."""
    if modality is None:
        return ["source", "target"] if "source" in session.streams else ["text", "second text"]
    side_names = {"text": "text", "target": "transcript"}
    return [modality, *(name for side, name in side_names.items() if side in session.streams)]


def command(facts: ModelFacts, texts: Sequence[str], *options: str) -> str:
    """The command line that reproduces this page."""
    arguments = [shown_command([text]) for text in texts]
    if any(text.startswith("-") for text in texts):
        return " ".join(["glassformer look", *facts.cli_arguments, *options, "--", *arguments])
    return " ".join(["glassformer look", *facts.cli_arguments, *arguments, *options])


def _map(session: Session, about: AttentionMap) -> dict[str, Any]:
    paths = [session.attention_layer(layer, about.name).attention.path for layer in range(about.layers)]
    return {**asdict(about), "title": TITLES[about.name], "paths": paths}


def _name(folder: Path | None) -> tuple[str | None, list[str]]:
    """Display name of the model in a folder, and its command-line arguments.

    …/models--org--name/snapshots/0123…  is the Hub's  org/name --revision 0123…; of a folder called "model" the name
    of the folder around it says more.
    """
    if folder is None:
        return None, ["MODEL"]
    path = folder.absolute()
    if (known := packaged_name(path)) is not None:
        return known.rpartition("/")[2], [shlex.quote(known)]
    repository = path.parent.parent
    if path.parent.name == "snapshots" and repository.name.startswith("models--"):
        name = repository.name.removeprefix("models--").replace("--", "/")
        return name, [shlex.quote(name), "--revision", path.name]
    parent = path.parent.name
    name = f"{parent}/{path.name}" if path.name.startswith(_GENERIC_NAMES) and parent else path.name
    return name.removesuffix("/model"), [_short_path(folder)]


def shown_texts(texts: Sequence[str], facts: ModelFacts) -> list[str]:
    """Texts for what leaves this machine: of the file of an image or a sound, no folders."""
    return [shown_path(text) if i == 0 and facts.modality is not None else text for i, text in enumerate(texts)]


def without_places(facts: ModelFacts) -> ModelFacts:
    """Facts for a page that leaves this machine: for an absolute path in the command, the model's name."""
    arguments = [
        shlex.quote(facts.name) if Path(" ".join(shlex.split(argument))).is_absolute() else argument
        for argument in facts.cli_arguments
    ]
    return replace(facts, cli_arguments=arguments)


def _short_path(folder: Path) -> str:
    """A path quoted for a shell: of an installed package by its name, below the home folder with ~, else as it is."""
    if folder.is_relative_to(_PACKAGE):  # of an editable install, it lies elsewhere than the others
        return shlex.quote(f"package:{folder.relative_to(_PACKAGE.parent).as_posix()}")
    for place in {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}:
        if folder.is_relative_to(place):
            return shlex.quote(f"package:{folder.relative_to(place).as_posix()}")
    try:
        inside = folder.relative_to(Path.home())
    except (ValueError, RuntimeError):  # elsewhere; or there is no home
        return shlex.quote(str(folder))
    return "~/" + shlex.quote(str(inside))
