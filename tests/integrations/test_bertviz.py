"""bertviz's calls by name: the page of the explorer, and tables of attention tensors alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.errors import DataError, UnknownOptionError
from glassformer.explorer.look import Look
from glassformer.integrations import bertviz
from glassformer.model import Model, load
from tests.e2e.tiny_models import make_folder, word_tokenizer

TEXTS = ["time flies", "fruit flies"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = make_folder(tmp_path_factory.mktemp("model"), "bert")
    word_tokenizer(framed=True).save(str(folder / "tokenizer.json"))
    return load(folder)


def opened(look: object) -> tuple[tuple[str, ...], str]:
    assert isinstance(look, Look)
    return look.texts, look.start.fragment


def test_the_three_calls_open_the_page(model: Model, tmp_path: Path) -> None:
    file: Any = {"html": tmp_path / "page.html"}
    shown = bertviz.show(model, "bert", model.tokenizer, "time flies", display_mode="light", layer=0, head=1, **file)
    assert opened(shown) == (("time flies",), "v=1&view=neuron&l=0&h=1&theme=light")
    two = bertviz.show(model, "bert", model.tokenizer, "time flies", "fruit flies", **file)
    assert opened(two) == (tuple(TEXTS), "v=1&view=neuron")
    heads = bertviz.head_view(model, "time flies", layer=0, heads=[1, 0], **file)
    assert opened(heads) == (("time flies",), "v=1&view=head&l=0&h=1,0")
    assert opened(bertviz.model_view(model, "time flies", **file)) == (("time flies",), "v=1&view=model")


def test_attention_tensors_are_tables(model: Model) -> None:
    inputs = model.tokenizer("time flies", return_tensors="pt")
    attention = model(**inputs, output_attentions=True).attentions
    tokens = model.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    maps = bertviz.head_view(attention, tokens, heads=[1])
    assert isinstance(maps, bertviz.AttentionMaps)
    (table,) = maps.tables()
    assert table.caption == "layer 0 head 1" and [*table.headings[1:]] == tokens
    assert table.shades is not None
    weights = attention[0][0, 1]
    torch.testing.assert_close(torch.tensor(table.shades), (weights / weights.max()).double(), check_dtype=False)
    assert "layer 0 head 1" in maps._repr_html_()
    for wrong, message in (
        ({"layer": 3}, "no layer 3"),
        ({"heads": [7]}, "no head 7"),
        ({"theme": "dark"}, "not theme"),
    ):
        with pytest.raises(DataError, match=message):
            bertviz.head_view(attention, tokens, **wrong)
    with pytest.raises(DataError, match="names of rows"):
        bertviz.head_view(attention, tokens[:2])


def test_what_is_no_model_is_said(model: Model) -> None:
    with pytest.raises(DataError, match=r"the model is 'minilm'; give a loaded model"):
        bertviz.show("minilm", "bert", None, "time flies")  # type: ignore[arg-type]
    with pytest.raises(
        UnknownOptionError, match=r"look\(…\) takes no 'display_mode'; it is theme= here; allowed: lesson, view, "
    ):
        model.look("time flies", display_mode="light")
    with pytest.raises(UnknownOptionError, match="takes no 'veiw'; nearest: 'view'"):
        model.look("time flies", veiw="head")
    with pytest.raises(UnknownOptionError, match="takes no 'head'; nearest: 'heads'"):
        model.look("time flies", head=0)
