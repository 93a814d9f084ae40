"""bertviz's calls by name: the page of the explorer, and pictures of attention weights alone."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from glassformer.errors import ConfigError, DataError, UnknownOptionError
from glassformer.explorer.look import Look
from glassformer.integrations import bertviz
from glassformer.model import Model, load
from glassformer.reports.attention_picture import FAINT
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


@dataclass
class Read:
    """What bertviz's documentation makes of a text."""

    attention: tuple[Tensor, ...]
    tokens: list[str]
    second: int


@pytest.fixture(scope="module")
def read(model: Model) -> Read:
    inputs = model.tokenizer(*TEXTS, return_tensors="pt")
    tokens = model.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    second = inputs["token_type_ids"][0].tolist().index(1)
    return Read(model(**inputs, output_attentions=True).attentions, tokens, second)


def test_attention_weights_are_pictures_and_tables(read: Read) -> None:
    shown = bertviz.head_view(read.attention, read.tokens, heads=[1])
    assert isinstance(shown, bertviz.AttentionPictures)
    (table,) = shown.tables()
    assert table.caption == "layer 0 head 1" and [*table.headings[1:]] == read.tokens
    assert table.shades is not None
    weights = read.attention[0][0, 1]
    torch.testing.assert_close(
        torch.tensor(table.shades), (weights / weights.max()).detach().double(), check_dtype=False
    )
    lines = shown.pictures[0].svg().count("<path ")
    assert lines == (weights >= FAINT).sum()
    assert "layer 0, heads 1, as numbers" in shown.data and shown.data.startswith("<!doctype html>")


def test_the_model_view_draws_every_head_of_every_layer(read: Read) -> None:
    shown = bertviz.model_view(read.attention, read.tokens)
    assert isinstance(shown, bertviz.AttentionPictures)
    picture = shown.pictures[0].svg()
    names = re.findall(r">(layer \d+|head \d+)<", picture)
    layers, heads = len(read.attention), read.attention[0].shape[1]
    assert names == [f"layer {i}" for i in range(layers)] + [f"head {i}" for i in range(heads)]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.partition("base64,")[2].partition('"')[0]))))
    across = pixels.shape[1] // heads
    for i, layer in enumerate(read.attention):
        for j, weights in enumerate(layer[0]):
            top, left = i * (pixels.shape[0] // layers), j * across
            part = pixels[top : top + len(weights), left : left + len(weights)]
            assert np.array_equal(part, 1 + (254 * weights / weights.max()).round().detach().numpy())
    some = bertviz.model_view(read.attention, read.tokens, include_layers=[0], include_heads=[1], display_mode="dark")
    assert isinstance(some, bertviz.AttentionPictures)
    assert re.findall(r">(layer \d+|head \d+)<", some.pictures[0].svg()) == ["layer 0", "head 1"]
    assert 'fill="#10161e"' in some.pictures[0].svg()


def test_two_texts_are_shown_by_pair(read: Read) -> None:
    shown = bertviz.head_view(read.attention, read.tokens, read.second, heads=[0])
    assert isinstance(shown, bertviz.AttentionPictures)
    whole, aa, bb, ab, ba = shown.parts
    assert [part.name for part in shown.parts] == ["", *(f"text {a} → text {b}" for a, b in ("AA", "BB", "AB", "BA"))]
    assert (aa.rows, ab.rows, ab.columns) == (whole.rows[: read.second], aa.rows, bb.rows)
    assert torch.equal(ba.attention[0], read.attention[0][0][:, read.second :, : read.second])
    assert "text A → text B" in shown.notebook_html()


def test_an_encoder_decoder_has_three_pictures(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bart")
    word_tokenizer(framed=True).save(str(folder / "tokenizer.json"))
    model = load(folder, task="translation")
    source = model.tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]
    target = model.tokenizer(TEXTS[1], return_tensors="pt")["input_ids"]
    output = model(input_ids=source, decoder_input_ids=target[:, :3], output_attentions=True)
    names = [model.tokenizer.convert_ids_to_tokens(ids[0].tolist()) for ids in (source, target[:, :3])]
    shown = bertviz.model_view(
        encoder_attention=output.encoder_attentions,
        decoder_attention=output.decoder_attentions,
        cross_attention=output.cross_attentions,
        encoder_tokens=names[0],
        decoder_tokens=names[1],
    )
    assert isinstance(shown, bertviz.AttentionPictures)
    assert [(part.name, part.rows, part.columns) for part in shown.parts] == [
        ("encoder", names[0], names[0]),
        ("decoder", names[1], names[1]),
        ("cross: decoder to encoder", names[1], names[0]),
    ]
    with pytest.raises(DataError, match="encoder_tokens is None; cross_attention needs the list of its tokens"):
        bertviz.head_view(cross_attention=output.cross_attentions, decoder_tokens=names[1])


def test_a_page_is_returned_as_a_text(model: Model, read: Read) -> None:
    page = bertviz.show(model, "bert", model.tokenizer, "time flies", layer=0, head=1, html_action="return")
    assert isinstance(page, bertviz.Html) and "v=1&amp;view=neuron" not in page.data and "</html>" in page.data
    assert page.notebook_html().startswith("<iframe srcdoc=")
    pretty = bertviz.head_view(read.attention, [f"Ġ{token}" for token in read.tokens], html_action="return")
    assert isinstance(pretty, bertviz.AttentionPictures)
    assert pretty.parts[0].rows == [f" {token}" for token in read.tokens]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layer": 3}, "no layer 3; the attention has layers 0 to 0"),
        ({"heads": [7]}, "no head 7"),
        ({"tokens": ["a"]}, "there are 1 tokens, and attention is over 4"),
        ({"tokens": None}, "tokens is None; attention needs the list of its tokens"),
        ({"sentence_b_start": 4}, "sentence_b_start is 4; it must be a token from 1 to 3"),
        ({"layer": 0, "include_layers": [1]}, "layer 0 is not among include_layers: 1"),
        ({"attention": ()}, r"attention is \(\); it must be a tensor \[1, H, T, S\] for each layer"),
        ({"theme": "dark"}, "take no theme"),
        ({"html_action": "open"}, "html_action is 'open'; allowed: view, return"),
        ({"cross_attention": ()}, "cross_attention are of an encoder-decoder: give either"),
    ],
)
def test_wrong_arguments_are_said(read: Read, wrong: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"attention": read.attention, "tokens": read.tokens, **wrong}
    with pytest.raises((DataError, ConfigError), match=message):
        bertviz.head_view(**given)


def test_too_many_tokens_for_lines_are_said() -> None:
    attention, tokens = [torch.full((1, 1, 200, 200), 1 / 200)] * 2, ["a"] * 200
    with pytest.raises(DataError, match="200 tokens; a picture of lines has at most 128: call model_view"):
        bertviz.head_view(attention, tokens)
    shown = bertviz.model_view(attention, tokens)
    assert isinstance(shown, bertviz.AttentionPictures) and len(shown.data) < 20_000


def test_what_is_no_model_is_said(model: Model) -> None:
    with pytest.raises(DataError, match=r"the model is 'minilm'; give a loaded model"):
        bertviz.show("minilm", "bert", None, "time flies")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the model is None; give a loaded model"):
        bertviz.head_view()
    with pytest.raises(ConfigError, match="include_layers go with attention weights"):
        bertviz.model_view(model, "time flies", include_layers=[0])
    with pytest.raises(
        UnknownOptionError, match=r"look\(…\) takes no 'display_mode'; it is theme= here; allowed: lesson, view, "
    ):
        model.look("time flies", display_mode="light")
    with pytest.raises(UnknownOptionError, match="takes no 'veiw'; nearest: 'view'"):
        model.look("time flies", veiw="head")
    with pytest.raises(UnknownOptionError, match="takes no 'head'; nearest: 'heads'"):
        model.look("time flies", head=0)
