"""Every occurrence of a word, and its states: those that the reference library and the lecture's function give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import glassformer
from glassformer import Model
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.inspect.embeddings.contextual import ContextualEmbeddings
from glassformer.inspect.embeddings.occurrences import embed_texts, embed_words, find_word
from tests.e2e.tiny_models import make_folder
from tests.parity.sides import perturb

TEXTS = ["time flies like an arrow", "fruit flies like a banana", "a banana . a banana ."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of the reference library, with the layers and the width of the base model."""
    import transformers

    folder = tmp_path_factory.mktemp("bert")
    sizes = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 64}
    make_folder(folder, "bert", max_position_embeddings=16, **sizes)
    torch.manual_seed(7)
    model = transformers.BertModel(transformers.BertConfig.from_pretrained(folder))
    perturb(model, 0.02)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return glassformer.load(folder)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    def load(family: str) -> Model:
        return glassformer.load(make_folder(tmp_path_factory.mktemp(family), family))

    return load


def lecture_embeddings(folder: Path, ids: list[int], segment: int) -> tuple[Tensor, Tensor]:
    """The lecture's function on one text: all levels of each token [T, 13, 768], and sums of the last four layers."""
    import transformers

    reference = transformers.BertModel.from_pretrained(folder).eval()
    with torch.no_grad():
        output = reference(
            torch.tensor([ids]), token_type_ids=torch.full((1, len(ids)), segment), output_hidden_states=True
        )
    embeddings = torch.stack(output.hidden_states, dim=0).squeeze(1).permute(1, 0, 2)
    return embeddings, torch.stack([layers[-4:].sum(0) for layers in embeddings])


@pytest.mark.parametrize("segment", [None, 1])
def test_states_are_those_of_the_lecture(folder: Path, model: Model, segment: int | None) -> None:
    found = embed_words(model, TEXTS, "flies", token_type=segment)
    assert [item.key for item in found.items] == ["0:2", "1:2"]
    assert found.states.shape == (13, 2, 768)
    for row, text in enumerate(TEXTS[:2]):
        ids = model.tokenizer(text)["input_ids"]
        levels, sums = lecture_embeddings(folder, ids, segment or 0)
        np.testing.assert_allclose(found.states[:, row], levels[2].numpy(), atol=1e-5)
        np.testing.assert_allclose(found.vectors()[row], sums[2].numpy(), atol=1e-5, rtol=1e-5)


def test_another_segment_gives_other_vectors(model: Model) -> None:
    """What the lecture's notebook does: it gives a single text the segment of a second one."""
    right, wrong = (embed_words(model, TEXTS, "flies", token_type=segment).vectors() for segment in (0, 1))
    assert np.abs(right - wrong).max() > 1e-2
    with pytest.raises(ConfigError, match="token types"):
        embed_words(model, TEXTS, "flies", token_type=7)


def test_combinations_of_layers(model: Model) -> None:
    found = embed_words(model, TEXTS, "flies")
    last = found.states[-4:]
    assert np.array_equal(found.vectors("last"), found.states[-1])
    assert np.array_equal(found.vectors("concat"), np.concatenate(list(last), -1))
    np.testing.assert_allclose(found.vectors("mean") * 4, found.vectors("sum"), rtol=1e-5)
    assert np.array_equal(found.vectors(3), found.states[3]) and np.array_equal(found.vectors(-1), found.states[12])
    for wrong in (13, "five", True):
        with pytest.raises(ConfigError, match="layers is"):
            found.vectors(wrong)


def test_a_word_twice_in_a_text(model: Model) -> None:
    found = embed_words(model, TEXTS, "banana", labels=["x", "y", "z"])
    assert [item.key for item in found.items] == ["1:5", "2:2", "2:5"]
    assert found.labels == ["y", "z", "z"]
    assert np.allclose(found.static_cosine(), 1)
    cosine = found.cosine()
    assert np.allclose(np.diag(cosine.values), 1) and cosine.values[1, 2] < 1 - 1e-6
    assert found.nearest(1, 1)[0][0] == cosine.pairs()[0][1 if cosine.pairs()[0][0] == 1 else 0]


def test_words_are_found_by_case_and_as_a_whole() -> None:
    texts = ["Adoption of an adoption", "readoption, Adoptions; adoption.", "C++ is C", ""]
    where = [(x.sentence, x.start, x.form) for x in find_word(texts, "adoption")]
    assert where == [(0, 0, "Adoption"), (0, 15, "adoption"), (1, 23, "adoption")]
    assert len(find_word(texts, "adoption", ignore_case=False)) == 2
    assert len(find_word(texts, "adoption", whole_word=False)) == 5
    assert [x.start for x in find_word(texts, "C++")] == [0]
    with pytest.raises(DataError, match="the word is"):
        find_word(texts, " ")


def test_a_word_that_never_occurs(model: Model) -> None:
    with pytest.raises(DataError, match=r"'zebra' does not occur in 3 texts; look at its spelling"):
        embed_words(model, TEXTS, "zebra")
    with pytest.raises(DataError, match="inside other words it does, 2 times"):
        embed_words(model, TEXTS, "fli")
    with pytest.raises(DataError, match="in another case it does, 2 times"):
        embed_words(model, TEXTS, "Flies", ignore_case=False)
    with pytest.raises(DataError, match="2 labels for 3 texts"):
        embed_words(model, TEXTS, "flies", labels=["a", "b"])


def test_a_long_text_is_read_in_windows(model: Model) -> None:
    """Each occurrence in the window whose middle it is nearest; the position is that in the whole text."""
    text = " ".join(["time"] * 40 + ["banana"] + ["fruit"] * 40 + ["banana"])
    found = embed_words(model, [text], "banana")
    assert [item.key for item in found.items] == ["0:41", "0:82"]
    alone = embed_words(model, [" ".join(["fruit"] * 13 + ["banana"])], "banana")
    np.testing.assert_allclose(found.states[:, 1], alone.states[:, 0], atol=1e-5)  # the last window ends as it does


def test_pieces_and_poolings(minilm: Path) -> None:
    """A word that is cut into pieces is their mean; the mean of all tokens is the sentence embedding."""
    model = glassformer.load(minilm)
    text = "An electroencephalographically odd banana"
    found = embed_words(model, [text], "electroencephalographically")
    (item,) = found.items
    assert len(item.pieces) > 2 and item.position == 2
    states = model.inspect(text).states(3)
    np.testing.assert_allclose(found.states[3, 0], states[2 : 2 + len(item.pieces)].mean(0), atol=1e-5)
    first = embed_words(model, [text], "banana", pooling="first")
    np.testing.assert_allclose(first.states[3, 0], states[0], atol=1e-5)
    whole = embed_texts(model, [text, "time flies"]).vectors("last")
    np.testing.assert_allclose(
        whole / np.linalg.norm(whole, axis=1, keepdims=True), model.encode([text, "time flies"]), atol=1e-6
    )


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_decoders(tiny: Callable[[str], Model], family: str) -> None:
    """States of a decoder, and the mean of all its tokens; texts of one batch do not touch each other."""
    model = tiny(family)
    found = embed_words(model, TEXTS, "banana")
    for row, item in enumerate(found.items):
        ids = model.tokenizer(TEXTS[item.sentence], return_tensors="pt")["input_ids"]
        hidden = model(input_ids=ids, output_hidden_states=True).hidden_states
        np.testing.assert_allclose(found.states[:, row], torch.stack(hidden)[:, 0, item.position].detach(), atol=1e-5)
        whole = embed_texts(model, TEXTS).states[:, item.sentence]
        np.testing.assert_allclose(whole, torch.stack(hidden)[:, 0].mean(1).detach(), atol=1e-5)


def test_what_cannot_be_embedded(tiny: Callable[[str], Model], model: Model) -> None:
    with pytest.raises(UnsupportedError, match="source and target"):
        embed_words(tiny("transformer"), TEXTS, "flies")
    with pytest.raises(DataError, match=r"take .* GB, and the limit"):
        embed_words(model, TEXTS, "flies", limit_bytes=1000)
    with pytest.raises(ConfigError, match="pooling is 'cls'"):
        embed_texts(model, TEXTS, pooling="cls")
    with pytest.raises(DataError, match="no texts"):
        embed_texts(model, [])
    broken = tiny("bert")
    next(iter(broken.network.parameters())).data.fill_(float("nan"))
    with pytest.raises(WeightsError, match="level 0 hold NaN"):
        embed_words(broken, TEXTS, "flies")


# ── what is made of them ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def adoption(minilm: Path, shared: Path) -> ContextualEmbeddings:
    titles = (shared / "data/polysemy/adoption.txt").read_text().splitlines()
    return embed_words(glassformer.load(minilm), titles, "adoption", labels=["uptake"] * 12 + ["family"] * 8)


def test_the_twenty_titles(adoption: ContextualEmbeddings) -> None:
    """15 occurrences in 14 titles: each pair is labelled by the titles that it comes from."""
    table = adoption.cosine()
    assert table.values.shape == (15, 15) and np.allclose(np.diag(table.values), 1)
    assert [item.sentence for item in adoption.items] == [*range(12), 13, 14, 14]
    assert table.contexts[12] == "Navigating the Unique Needs of Adolescent Adoption"
    assert len(table.pairs()) == 105 and table.pairs()[0][2] == pytest.approx(
        np.sort(table.values[np.triu_indices(15, 1)])[-1]
    )
    assert table.to_pandas().loc["3:3", "0:7"] == table.values[3, 0]
    (shown,) = adoption.layer_curve().tables()
    headings, rows = shown.headings, shown.rows
    assert headings == ["level", "all pairs", "within", "between", "baseline", "above baseline"] and len(rows) == 7


def test_the_layer_curve_is_the_mean_of_pairs(adoption: ContextualEmbeddings) -> None:
    curve, labels = adoption.layer_curve(), np.array(adoption.labels)
    values, pairs = adoption.cosine(4).values, np.triu(np.ones((15, 15), bool), 1)
    same = labels[:, None] == labels
    assert curve.all[4] == pytest.approx(values[pairs].mean(), abs=1e-6)
    assert curve.within is not None and curve.within[4] == pytest.approx(values[pairs & same].mean(), abs=1e-6)
    assert curve.between is not None and curve.between[4] == pytest.approx(values[pairs & ~same].mean(), abs=1e-6)
    assert (
        curve.within[6] > curve.between[6] > curve.baseline[6]
    )  # senses are apart, both more alike than any two words
    assert curve.to_dict()["curves"]["all pairs"][0] == pytest.approx(curve.all[0])


@pytest.mark.parametrize("method", ["kmeans", "agglomerative"])
def test_senses(adoption: ContextualEmbeddings, method: str) -> None:
    senses = adoption.senses(method=method)
    assert senses.count == 2 and senses.silhouette > 0.3
    assert senses.purity is not None and senses.bag_of_words_purity is not None and senses.majority == 0.8
    assert senses.purity > senses.bag_of_words_purity
    assert adoption.senses(3).count == 3


def test_too_few_to_cluster(model: Model) -> None:
    found = embed_words(model, TEXTS, "flies")
    with pytest.raises(DataError, match="2 occurrences with 2 different vectors"):
        found.senses()
    alike = embed_words(model, TEXTS[:1] * 5, "flies")
    with pytest.raises(DataError, match="5 occurrences with 1 different"):
        alike.senses()
    with pytest.raises(ConfigError, match="method is"):
        alike.senses(method="dbscan")
    once = embed_words(model, TEXTS, "arrow")
    assert np.isnan(once.layer_curve().all).all() and once.nearest(0) == [] and once.cosine().pairs() == []


def test_shown_in_a_notebook(model: Model) -> None:
    found: Any = embed_words(model, ["<b>flies</b>", *TEXTS], "flies", labels=list("abcd"))
    assert "&lt;b&gt;" in found._repr_html_() and "<table>" in found.layer_curve()._repr_html_()
    assert found.to_pandas().columns.tolist() == ["sentence", "position", "form", "label", "text"]
