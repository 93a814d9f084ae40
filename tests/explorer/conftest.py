"""Small models of every family, a page of three lines instead of the built one, and a way to ask a real server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import pre_tokenizers, processors

from glassformer.explorer import standalone_page
from glassformer.explorer.look import Look
from glassformer.explorer.session_runs import SessionRuns
from glassformer.model import Model, load
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import TEXTS, WORDS, looked_at, make_folder, small_config, word_tokenizer
from tests.explorer.client import Client
from tests.senses import READ_NO_FILES, network_of

HOSTILE = ["<script>", "</script>", "<!--"]
"""Words that an HTML parser must never see as its own."""

INSPECTABLE = [
    family
    for family in FAMILIES
    if family not in READ_NO_FILES and "visual_feats" not in network_of(small_config(family)).READS
]
"""Families for which a text, or a file, is enough; others need tensors that no page can send, or have no attention."""

STAND_IN = {
    "index.html": """<!doctype html>
<html>
<head>
<meta charset="utf-8">
<link rel="stylesheet" href="/static/app.css">
</head>
<body>
<div id="app"></div>
<script src="/static/app.js"></script>
</body>
</html>
""",
    "app.js": 'document.title = "</script><!--";\n' + "// padding\n" * 200,
    **{f"view-{name}.js": f"// {name}\n" for name in ("model", "head", "generate", "sound")},
    "app.css": "body { margin: 0 }\n",
    "listen.js": "// sounds\n",
    "listen.css": "body { margin: 1px }\n",
}


@pytest.fixture(scope="module")
def page_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What web/ builds is tested with the page itself; here its place is taken by something small."""
    folder = tmp_path_factory.mktemp("static")
    for name, content in STAND_IN.items():
        (folder / name).write_text(content, "utf-8", newline="")
    hashes = {name: hashlib.sha256(content.encode()).hexdigest() for name, content in STAND_IN.items()}
    (folder / "manifest.json").write_text(json.dumps({"files": hashes}))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(standalone_page, "FOLDER", folder)
        yield folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model folder of each family; two layers, so that there is a second one to look at."""
    home = tmp_path_factory.mktemp("models")
    depths = {"num_hidden_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"}
    depths |= {"num_layers", "num_decoder_layers"}
    result = {}
    for family in INSPECTABLE:
        deeper = {key: 2 for key in FAMILIES[family].tiny if key in depths}
        towers = ("text_config", "vision_config")
        deeper |= {
            tower: {**small_config(family)[tower], "num_hidden_layers": 2}
            for tower in towers
            if tower in FAMILIES[family].tiny
        }
        if family == "transformer":
            deeper["max_positions"] = 64
        folder = make_folder(home / family, family, **deeper)
        engine = word_tokenizer(framed=family == "bert", words=WORDS + HOSTILE)
        engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if family == "bert":  # pairs too
            engine.post_processor = processors.TemplateProcessing(
                single="[CLS] $A [SEP]",
                pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
            )
        engine.save(str(folder / "tokenizer.json"))
        result[family] = folder
    return result


@pytest.fixture(scope="session")
def models(folders: dict[str, Path]) -> dict[str, Model]:
    return {family: load(folder) for family, folder in folders.items()}


def texts_for(model: Model, texts: tuple[str, ...] = TEXTS) -> tuple[str, ...]:
    """What a model of these fixtures is looked at with: texts, or a file of its folder."""
    assert model.folder is not None
    return looked_at(model.folder, model.family.model_type, texts)


@pytest.fixture(scope="module")
def serve(models: dict[str, Model], page_files: Path) -> Iterator[Callable[..., Client]]:
    """serve("bert", "time flies") → a client of a real server on a free port, closed after the module's last test."""
    looks: list[Look] = []

    def start(model: str | Model, *texts: str, **options: int) -> Client:
        chosen = models[model] if isinstance(model, str) else model
        # Looked up at each call, so that a test can put another `inspect` into the class.
        factory = replace(chosen.session_factory(), inspect=lambda *each, **more: chosen.inspect(*each, **more))
        look = Look(SessionRuns(factory, **options), texts)
        look.serve()
        looks.append(look)
        return Client(look)

    yield start
    for look in looks:
        look.close()


@pytest.fixture(scope="module")
def client(serve: Callable[..., Client]) -> Client:
    """Of a server that has run TEXTS through the smallest encoder."""
    return serve("bert", *TEXTS)
