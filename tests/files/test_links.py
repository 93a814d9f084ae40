"""Links out of a model folder: configs, vocabularies and templates are refused, those of the Hub's cache are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.files import check_links
from glassformer.text import Tokenizer

NAMES = ["config.json", "tokenizer.json", "vocab.txt", "spiece.model", "chat_template.jinja", "1_Pooling/config.json"]


@pytest.mark.parametrize("name", NAMES)
def test_a_link_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder, outside = tmp_path / "model", tmp_path / "secret"
    outside.write_text("{}")
    (folder / name).parent.mkdir(parents=True)
    (folder / name).symlink_to(outside)
    with pytest.raises(ConfigError, match="is a link that leads out of the model's folder"):
        check_links(folder, ConfigError)
    with pytest.raises(DataError, match="is a link that leads out"):
        Tokenizer.from_folder(folder)


def test_links_within_the_folder_and_the_hubs_cache_are_followed(tmp_path: Path) -> None:
    repository = tmp_path / "models--a--b"
    snapshot, blobs = repository / "snapshots" / "1", repository / "blobs"
    for folder in (snapshot, blobs):
        folder.mkdir(parents=True)
    (blobs / "0").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ntime\n")
    (snapshot / "vocab.txt").symlink_to("../../blobs/0")
    (snapshot / "notes").symlink_to(tmp_path)  # no file of the model
    (tmp_path / "named").symlink_to(snapshot)
    for folder in (snapshot, tmp_path / "named"):
        assert Tokenizer.from_folder(folder, model_type="bert").encode("time") == [2, 5, 3]


def test_loading_a_model_checks_its_links(tmp_path: Path) -> None:
    import glassformer

    (tmp_path / "secret.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(ConfigError, match=r"config\.json: is a link that leads out"):
        glassformer.load(tmp_path / "model")
