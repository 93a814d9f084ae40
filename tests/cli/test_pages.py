"""Every command that writes a page: the page names its command, and no folder of the machine that made it."""

from __future__ import annotations

import base64
import json
import re
import shlex
import zlib
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml

from glassformer.reports.page import shown_command
from glassformer.runs.config import parse_config
from glassformer.training.run import make_trainer
from tests.cli.conftest import Command
from tests.e2e.tiny_models import make_folder, word_tokenizer
from tests.explorer.reader import Reader
from tests.inspect.test_codes_input import CODEC, made

BERT = {
    "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 16,
}  # fmt: skip

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
LETTERS = ["[PAD]", "<s>", "</s>", "<unk>", "|", *"abcdefgh"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder with models, data, a recording and two runs."""
    home = tmp_path_factory.mktemp("somebodys-own-place")
    encoder = make_folder(home / "encoder", "bert", task="feature-extraction")
    (encoder / "modules.json").write_text(json.dumps(MODULES))
    (encoder / "1_Pooling").mkdir()
    (encoder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    make_folder(home / "classifier", "bert", task="text-classification")
    make_folder(home / "decoder", "gpt2")
    make_folder(home / "whisper", "whisper")
    letters = make_folder(home / "letters", "wav2vec2", task="automatic-speech-recognition", vocab_size=len(LETTERS))
    (letters / "vocab.json").write_text(json.dumps({letter: i for i, letter in enumerate(LETTERS)}))
    (letters / "tokenizer.json").unlink()
    made(CODEC).save_pretrained(home / "codec")
    soundfile.write(home / "clip.wav", np.sin(np.arange(4_000) * 0.1), 16_000)
    (home / "words").mkdir()
    word_tokenizer().save(str(home / "words" / "tokenizer.json"))
    rows = [f"{word} flies,{label}" for word, label in (("time", "a"), ("fruit", "b"))] * 10
    (home / "rows.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    (home / "lines.txt").write_text("time flies like an arrow\n\nfruit flies like a banana\n")
    config = {
        "task": "classify",
        "scratch": BERT,
        "tokenizer": str(home / "words"),
        "data": {"train": str(home / "rows.csv"), "validation": 0.3},
        "training": {"steps": 2, "batch_size": 8},
    }
    for run in ("one", "two"):
        make_trainer(parse_config({**config, "output": str(home / "runs" / run)})).train()
    space = {"trials": 2, "space": {"training.learning_rate": [0.1, 0.2]}}
    (home / "search.yaml").write_text(yaml.safe_dump({**config, "search": space}))
    return home


LINES = {
    "look": "look {home}/encoder 'time flies' --view head --layer 0 --html {page}",
    "look two": "look {home}/encoder 'time flies' 'fruit flies' --html={page}",
    "look decoder": "look {home}/decoder 'time flies' --html {page} --max-new-tokens 3 --view generate",
    "look decoder unasked": "look {home}/decoder 'time flies' --html {page}",
    "look sound": "look {home}/whisper {home}/clip.wav 'time flies' --html {page}",
    "look codec": "look {home}/codec {home}/clip.wav --html {page}",
    "look run": "look {home}/runs/one --html {page}",
    "lens": "lens {home}/decoder 'time flies' --html {page}",
    "attribute": "attribute {home}/classifier 'time flies' --html {page}",
    "patch": "patch {home}/classifier 'time flies' --html {page}",
    "similar": "similar {home}/encoder 'time flies' 'fruit flies' --html {page}",
    "embed-map": "embed-map {home}/encoder {home}/lines.txt --word flies --html {page}",
    "corpus": "corpus search {home}/encoder {home}/index 'time flies' --token flies --layer 1 --html {page}",
    "transcribe": "transcribe {home}/letters {home}/clip.wav --html {page}",
    "listen": "listen {home}/codec --task reconstruct --data {home}/clip.wav --html {page}",
    "data": "data inspect {home}/rows.csv --html {page}",
    "curves": "curves {home}/runs/one {home}/runs/two --html {page}",
    "errors": "errors {home}/runs/one --html {page} --look 2",
    "compare": "compare {home}/runs/one {home}/runs/two --html {page}",
    "search": "search {home}/search.yaml --output {home}/search",
}
PAGES = {"search": "{home}/search/trials.html"}
MADE_ALONGSIDE = {"look run": "*-look/*.html", "errors": "*-look/*.html"}


def contents(page: Path) -> Iterator[str]:
    """All that a page holds, as texts: its HTML, and what is compressed in it."""
    text = page.read_text("utf-8")
    yield text
    for _, block in Reader(text).scripts():
        try:
            yield zlib.decompress(base64.b64decode(block, validate=True)).decode("utf-8", "replace")
        except (ValueError, zlib.error):
            continue  # the program, or JSON as it is


def shown_commands(page: Path) -> list[str]:
    """The commands at the foot of a page."""
    text = page.read_text("utf-8")
    made = [unescape(found) for found in re.findall(r'class="made-by">Made by <code>(.*?)</code>', text)]
    blocks = {about.get("id"): block for about, block in Reader(text).scripts()}
    for name in {"session", "transcript", "listening"} & blocks.keys():
        made.append(json.loads(zlib.decompress(base64.b64decode(blocks[name])))["command"])
    return made


@pytest.mark.parametrize("name", LINES)
def test_a_page_names_its_command_and_no_folder(
    name: str, command: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.chdir(tmp_path)
    if name == "corpus" and not (home / "index").exists():
        assert command("corpus", "index", home / "encoder", home / "lines.txt", "-o", home / "index").returncode == 0
    line = LINES[name].format(home=home, page=tmp_path / "page.html")
    done = command(*shlex.split(line))
    assert done.returncode == 0, done.stderr
    page = Path(PAGES.get(name, str(tmp_path / "page.html")).format(home=home))
    alongside = sorted(page.parent.glob(MADE_ALONGSIDE.get(name, "no other page")))
    assert len(alongside) == {"look run": 5, "errors": 2}.get(name, 0)
    for each in [page, *alongside]:
        assert not [text[:80] for text in contents(each) if home.name in text or str(tmp_path) in text]
        (shown,) = shown_commands(each)
        shown_words = [word.replace(f"{home}/runs/", "…/").replace(f"{home}/", "…/") for word in shlex.split(line)]
        expected = [word.replace(f"{tmp_path}/", "") for word in shown_words]
        assert shlex.split(shown) == ["glassformer", *expected]
    for found in re.findall(r'"model":"([^"]*)"', page.read_text("utf-8")):  # in the commands of single rows
        assert found == "…/one"


def test_words_of_a_command_line_as_a_page_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["train", f"--set=data.train=[{tmp_path}/here.csv,/else/where.csv]", "it's $HOME", "word " * 100]
    assert shown_command(words) == (
        "train '--set=data.train=[here.csv,…/where.csv]' 'it'\"'\"'s $HOME' \"$(cat text.txt)\""
    )
