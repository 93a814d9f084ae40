"""Checkpoints as they are found: old spellings, with and without a prefix, in shards, as pickles, tied or repeated."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import glassformer
from glassformer import Model, UnsupportedError, WeightsError
from glassformer.weights import pickled
from tests.parity.families import BY_FAMILY, DISTINCT, ROWS, Row
from tests.parity.inputs import draw_inputs
from tests.parity.sides import Folders, load_ours, load_theirs, read_config, write_config

Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]

distinct = pytest.mark.parametrize("row", DISTINCT, ids=lambda row: row.family)
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.family)


def rewritten(folder: Path, copy: Path, change: Change, config: Mapping[str, Any] | None = None) -> Path:
    """A copy of a folder with other tensors, and keys of its config changed (None takes one out)."""
    copy.mkdir()
    tensors = change(load_file(folder / "model.safetensors"))
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        copy / "model.safetensors",
        {"format": "pt"},
    )
    remaining = {**read_config(folder), **(config or {})}
    write_config(
        copy,
        {key: value for key, value in remaining.items() if value is not None or key not in (config or {})},
    )
    return copy


def logits(folder: Path, **options: Any) -> Tensor:
    model = glassformer.load(folder, strict=True, offline=True, **options)
    with torch.no_grad():
        output = model(**draw_inputs(model.config, "right").ours)
    fields = (output.logits, output.logits_per_text, output.last_hidden_state)
    return next(field for field in fields if field is not None)


# ------------------------------------------------------------------------------------------------ old spellings


def test_stacked_experts(folders: Folders, tmp_path: Path) -> None:
    """How the reference holds experts in memory, and saves them where it is told not to keep the older form."""
    row = BY_FAMILY["mixtral"]
    folder = folders(row, row.main)
    load_theirs(folder, row).save_pretrained(tmp_path, save_original_format=False)
    assert "model.layers.0.mlp.experts.gate_up_proj" in load_file(tmp_path / "model.safetensors")
    assert torch.equal(logits(tmp_path), logits(folder))


def test_gamma_and_beta(folders: Folders, tmp_path: Path) -> None:
    """How TensorFlow's norms were spelled in the first releases of BERT."""
    row = BY_FAMILY["bert"]
    folder = folders(row, row.main)

    def old(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for name, tensor in tensors.items()
        }

    copy = rewritten(folder, tmp_path / "old", old)
    assert any(name.endswith("gamma") for name in load_file(copy / "model.safetensors"))
    assert torch.equal(logits(copy), logits(folder))
    inputs = draw_inputs(read_config(folder), "right")
    theirs = load_theirs(copy, row)(**inputs.theirs).logits
    torch.testing.assert_close(logits(copy)[inputs.keep], theirs[inputs.keep], atol=1e-5, rtol=1e-5)


def test_n_ctx_and_old_buffers(folders: Folders, tmp_path: Path) -> None:
    """GPT-2's first files: a length under an old name, and the causal mask stored as a tensor."""
    row = BY_FAMILY["gpt2"]
    folder = folders(row, row.main)

    def old(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        mask = torch.ones(40, 40).tril()[None, None]
        masks = {f"transformer.h.{i}.attn.bias": mask.clone() for i in range(3)}
        return {**tensors, **masks, "transformer.h.0.attn.masked_bias": torch.tensor(-1e4)}

    copy = rewritten(folder, tmp_path / "old", old, {"n_ctx": 40})
    assert torch.equal(logits(copy), logits(folder))


def test_positions_stored_as_a_tensor(folders: Folders, tmp_path: Path) -> None:
    row = BY_FAMILY["bert"]
    folder = folders(row, row.main)
    ids = {"bert.embeddings.position_ids": torch.arange(40)[None]}
    assert torch.equal(logits(rewritten(folder, tmp_path / "old", lambda t: {**t, **ids})), logits(folder))


def test_rotary_frequencies_stored_as_a_tensor(folders: Folders, tmp_path: Path) -> None:
    row = BY_FAMILY["llama"]
    folder = folders(row, row.main)
    waves = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.rand(4) for i in range(3)}
    assert torch.equal(logits(rewritten(folder, tmp_path / "old", lambda t: {**t, **waves})), logits(folder))


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ({"rope_type": "default", "rope_theta": 777.0}, {"rope_theta": 777.0}),
        (
            {"rope_type": "linear", "factor": 3.0, "rope_theta": 777.0},
            {"rope_theta": 777.0, "rope_scaling": {"type": "linear", "factor": 3.0}},
        ),
    ],
)
def test_rotary_spellings(folders: Folders, tmp_path: Path, new: dict[str, Any], old: dict[str, Any]) -> None:
    row = BY_FAMILY["llama"]
    folder = folders(row, row.main)
    one = rewritten(folder, tmp_path / "new", dict, {"rope_parameters": new})
    other = rewritten(folder, tmp_path / "old", dict, {"rope_parameters": None, **old})
    assert torch.equal(logits(one), logits(other))
    assert not torch.allclose(logits(one), logits(folder), atol=1e-3)


# --------------------------------------------------------------------------------------------------- tied heads


@pytest.mark.parametrize(
    ("family", "changes", "head", "table"),
    [
        ("gpt2", {}, "lm_head.weight", "transformer.wte.weight"),
        ("llama", {"tie_word_embeddings": True}, "lm_head.weight", "model.embed_tokens.weight"),
        ("bert", {}, "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    ],
)
def test_a_tied_head_may_be_stored_or_not(
    folders: Folders, tmp_path: Path, family: str, changes: dict[str, Any], head: str, table: str
) -> None:
    row = BY_FAMILY[family]
    folder = folders(row, row.main, **changes)
    assert head not in load_file(folder / "model.safetensors")
    stored = rewritten(folder, tmp_path / "stored", lambda tensors: {**tensors, head: tensors[table].clone()})
    assert torch.equal(logits(stored), logits(folder))
    model = load_ours(stored)
    assert model.network.head.decoder.weight is model.network.embed.tokens.weight


def test_an_untied_head_must_be_stored(folders: Folders, tmp_path: Path) -> None:
    row = BY_FAMILY["llama"]
    copy = rewritten(
        folders(row, row.main),
        tmp_path / "copy",
        lambda t: {name: x for name, x in t.items() if name != "lm_head.weight"},
    )
    with pytest.raises(WeightsError, match=r"1 missing: lm_head\.weight \(for head\.decoder\.weight"):
        glassformer.load(copy)


# ------------------------------------------------------------------------------------------ prefix, bare or with


BODIED = [row for row in ROWS if "feature-extraction" in row.record.tasks and len(row.record.tasks) > 1]


@pytest.mark.parametrize("row", BODIED, ids=lambda row: row.family)
def test_a_body_is_taken_out_of_a_checkpoint_with_a_head(folders: Folders, row: Row) -> None:
    folder = folders(row, row.main)
    bare = row.decodes or row.translates
    classifies = "text-classification" in row.record.tasks
    model = glassformer.load(folder, task="text-classification" if classifies and not bare else "feature-extraction")
    whole = load_ours(folder)
    inputs = draw_inputs(whole.config, "right")
    with torch.no_grad():
        assert torch.equal(model(**inputs.ours).last_hidden_state, whole(**inputs.ours).last_hidden_state)
    if bare:
        assert not model.report.new
    else:
        new = set(of_the_head(model))
        assert set(model.report.new) == new
        assert model.report.unused


def of_the_head(model: Model) -> dict[str, Tensor]:
    """What only a head has: not the pooler, where the files have one, read or not."""
    parameters = {name: x for name, x in model.named_parameters() if name.startswith("head.")}
    return {name: x for name, x in parameters.items() if name not in model.report.loaded or "pooler." not in name}


CLASSIFIERS = (
    "question-answering",
    "token-classification",
    "text-classification",
    "image-classification",
)


@pytest.mark.parametrize(
    "row",
    [row for row in BODIED if set(CLASSIFIERS) & set(row.record.tasks)],
    ids=lambda row: row.family,
)
def test_a_bare_body_serves_a_model_with_a_head(folders: Folders, row: Row) -> None:
    """Files of the bare model have no prefix; a head that only `task` asked for is new, and reported."""
    bare = folders(row, next(iter(row.record.architectures)))
    model = glassformer.load(bare, task=next(task for task in CLASSIFIERS if task in row.record.tasks))
    new = of_the_head(model)
    assert set(model.report.new) == set(new) and "initialised" in str(model.report)
    for name, x in new.items():
        if name.endswith("norm.weight"):
            assert bool((x == 1).all()), name
        else:
            assert x.std() > 0 if name.endswith("weight") else x.abs().max() == 0, name
    inputs = draw_inputs(model.config, "right")
    with torch.no_grad():
        assert torch.equal(model(**inputs.ours).last_hidden_state, load_ours(bare)(**inputs.ours).last_hidden_state)


@rows
def test_a_head_beside_a_body_without_prefix(folders: Folders, row: Row, tmp_path: Path) -> None:
    """So the first GPT-2 was published: a language model's config, a bare body's names."""
    folder = folders(row, row.main)
    copy = rewritten(
        folder,
        tmp_path / "copy",
        lambda t: {name.removeprefix(f"{row.prefix}."): x for name, x in t.items()},
    )
    assert torch.equal(logits(copy), logits(folder))


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row.prefix and "feature-extraction" in row.record.tasks],
    ids=lambda row: row.family,
)
def test_a_bare_body_saved_under_the_prefix(folders: Folders, row: Row, tmp_path: Path) -> None:
    bare = folders(row, next(iter(row.record.architectures)))
    copy = rewritten(bare, tmp_path / "copy", lambda t: {f"{row.prefix}.{name}": x for name, x in t.items()})
    assert torch.equal(logits(copy), logits(bare))


# ----------------------------------------------------------------------------------------- shards and old files


@distinct
def test_shards(folders: Folders, row: Row, tmp_path: Path) -> None:
    """Theirs read by us, and ours by them."""
    import transformers

    folder = folders(row, row.main)
    model = getattr(transformers, row.main).from_pretrained(folder, local_files_only=True)
    model.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    assert (tmp_path / "theirs" / "model.safetensors.index.json").is_file()
    assert torch.equal(logits(tmp_path / "theirs"), logits(folder))

    load_ours(folder).save_pretrained(tmp_path / "ours", max_shard_bytes=20_000)
    assert len(list((tmp_path / "ours").glob("*.safetensors"))) > 2
    inputs = draw_inputs(read_config(folder), "none")
    with torch.no_grad():
        ours, theirs = (load_theirs(place, row)(**inputs.theirs)[row.logits] for place in (tmp_path / "ours", folder))
    assert torch.equal(ours, theirs)


def pickled_copy(folder: Path, copy: Path) -> Path:
    """The same checkpoint as `pytorch_model.bin`."""
    torch.save(load_file(folder / "model.safetensors"), copy / "pytorch_model.bin")
    shutil.copy(folder / "config.json", copy)
    return copy


@rows
def test_old_pickles(folders: Folders, row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Converted in this process: a child that imports torch for each of them would take a second, and says no more."""
    folder = folders(row, row.main)
    copy = pickled_copy(folder, tmp_path)
    with pytest.raises(WeightsError, match="allow_pickle"):
        glassformer.load(copy)
    converted: list[Path] = []

    def convert_here(source: Path, target: Path) -> None:
        converted.append(source)
        pickled._convert_in_child(source, target)

    monkeypatch.setattr("glassformer.weights.read.convert", convert_here)
    assert torch.equal(logits(copy, allow_pickle=True), logits(folder))
    assert set(converted) == {copy / "pytorch_model.bin"}


@pytest.mark.parametrize(
    "row",
    [row if row.family == "bert" else pytest.param(row, marks=pytest.mark.soak) for row in ROWS],
    ids=lambda row: row.family,
)
def test_old_pickles_converted_in_a_child_process(folders: Folders, row: Row, tmp_path: Path) -> None:
    folder = folders(row, row.main)
    assert torch.equal(logits(pickled_copy(folder, tmp_path), allow_pickle=True), logits(folder))


# ---------------------------------------------------------------------------------------------------- refusals


@rows
def test_an_unknown_key_is_a_warning(folders: Folders, row: Row, tmp_path: Path) -> None:
    copy = rewritten(folders(row, row.main), tmp_path / "copy", dict, {"flux_capacitor": 1.21})
    report = glassformer.load(copy).report
    assert report.warnings == ["config.json: flux_capacitor = 1.21 is not read"]
    assert "flux_capacitor" in str(report)


@distinct
def test_a_feature_that_is_not_there_is_refused(folders: Folders, row: Row, tmp_path: Path) -> None:
    folder = folders(row, row.main)
    expected, config = logits(folder), read_config(folder)
    copy = rewritten(folder, tmp_path / "copy", dict)
    features = {"kv_lora_rank": 128, "n_routed_experts": 8, "alibi": True}
    for key, value in features.items():
        write_config(copy, {**config, key: value})
        with pytest.raises(UnsupportedError) as error:
            glassformer.load(copy)
        assert key in str(error.value) and repr(value) in str(error.value), key
        write_config(copy, {**config, key: False})
        assert torch.equal(logits(copy), expected), key


@pytest.mark.parametrize(
    ("family", "changes", "says"),
    [
        ("bert", {"position_embedding_type": "relative_key"}, "relative_key"),
        ("mpnet", {"is_decoder": True}, "is_decoder = True"),
        ("bert", {"is_decoder": True, "add_cross_attention": True}, "add_cross_attention = True"),
        (
            "bert",
            {"architectures": ["BertLMHeadModel"]},
            "is_decoder = False is not supported for 'text-generation' with a 'bert' model; it must be True",
        ),
        ("bert", {"tie_word_embeddings": False}, "tie_word_embeddings = False"),
        ("bert", {"hidden_act": "gelu_nwe"}, "gelu_nwe"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention = True"),
        ("llama", {"rope_scaling": {"type": "dynamik", "factor": 2.0}, "rope_parameters": None}, "dynamik"),
        ("llama", {"rope_parameters": {"rope_type": "proportional", "factor": 2.0}}, "proportional"),
        ("llama", {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "0.5"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        ("bert", {"problem_type": "ranking"}, "ranking"),
        ("bart", {"normalize_before": True}, "normalize_before = True"),
        ("bart", {"tie_word_embeddings": False}, "tie_word_embeddings = False"),
        ("mbart", {"add_final_layer_norm": False}, "add_final_layer_norm = False"),
        ("marian", {"tie_word_embeddings": False}, "tie_word_embeddings = False"),
        ("marian", {"decoder_vocab_size": 50}, "decoder_vocab_size = 50"),
        ("pegasus", {"static_position_embeddings": False}, "static_position_embeddings = False"),
        ("bert", {"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice"),
        ("bert", {"model_type": "bret"}, "nearest: 'bert'"),
    ],
)
def test_a_value_that_is_not_supported_is_named(
    folders: Folders, tmp_path: Path, family: str, changes: dict[str, Any], says: str
) -> None:
    row = BY_FAMILY[family]
    copy = rewritten(folders(row, row.main), tmp_path / "copy", dict, changes)
    with pytest.raises(UnsupportedError) as error:
        glassformer.load(copy)
    assert says in str(error.value)


@rows
def test_missing_misshapen_and_surplus_tensors_are_named(folders: Folders, row: Row, tmp_path: Path) -> None:
    folder = folders(row, row.main)
    names = sorted(load_file(folder / "model.safetensors"))
    may_be_lost = {*row.computed, "final_logits_bias"}
    named = [name for name in names if name.endswith(("weight", "bias"))]
    read = [name for name in named if name.removeprefix(f"{row.prefix}.") not in may_be_lost]
    lost, bent = read[0], next(name for name in read[1:] if name.endswith("weight"))

    def damaged(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        remaining = {name: tensor for name, tensor in tensors.items() if name != lost}
        return {
            **remaining,
            bent: torch.zeros(5),
            lost.replace("weight", "wieght").replace("bias", "bais"): tensors[lost],
        }

    copy = rewritten(folder, tmp_path / "copy", damaged)
    with pytest.raises(WeightsError) as error:
        glassformer.load(copy, strict=True)
    message = str(error.value)
    assert "1 missing" in message and "1 misshapen" in message and "1 surplus" in message
    assert f"{lost} (for " in message and "nearest: " in message
    assert f"{bent} is [5], the config asks for " in message


def test_only_the_first_ten_are_named(folders: Folders, tmp_path: Path) -> None:
    row = BY_FAMILY["llama"]
    surplus = {f"extra.{i}": torch.zeros(1) for i in range(25)}
    copy = rewritten(folders(row, row.main), tmp_path / "copy", lambda t: {**t, **surplus})
    with pytest.raises(WeightsError, match=r"25 surplus: extra\.\d+.*, and 15 more") as error:
        glassformer.load(copy, strict=True)
    assert str(error.value).count("extra.") == 10
    assert len(glassformer.load(copy).report.unused) == 25  # not strict: reported, never allocated
