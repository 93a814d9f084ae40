"""T5: two versions, old and new names in configs and files, tied and untied heads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import glassformer
from glassformer import Tape
from glassformer.core import Batch, Flow
from glassformer.core.embeddings import Embedding
from glassformer.core.feed_forward import FeedForwardSpec, GatedFeedForwardSpec
from glassformer.core.position_bias import BucketedBias
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
from glassformer.models import FAMILIES, ConfigReader, Network
from glassformer.models._seq2seq import EncoderDecoderSpec, Seq2SeqLMHead
from glassformer.models.t5 import T5Encoder
from tests.parity.families import BY_FAMILY
from tests.parity.inputs import draw_inputs
from tests.parity.sides import close, lifted, load_ours, load_theirs, make, read_config, write_config
from tests.parity.test_files import rewritten

T5, ROW = FAMILIES["t5"], BY_FAMILY["t5"]
OLD = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
NEW = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": True, "scale_decoder_outputs": False}


def spec_of(**changes: Any) -> EncoderDecoderSpec:
    config = {**T5.tiny, **changes}
    read = T5.spec(ConfigReader({key: value for key, value in config.items() if value is not None}))
    assert isinstance(read, EncoderDecoderSpec)
    return read


def network_of(task: str, **changes: Any) -> Network:
    torch.manual_seed(0)
    spec = spec_of(**changes)
    network = T5.build(spec, task)
    T5.initialise(network, spec)
    return network.eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 1.0 as the reference library saves it."""
    return make(ROW, ROW.main, tmp_path_factory.mktemp("t5"))


# -------------------------------------------------------------------------------------------------------- config


def test_every_key_of_an_old_config_is_read() -> None:
    task = {
        "early_stopping": True,
        "max_length": 300,
        "num_beams": 4,
        "prefix": "translate English to German: ",
    }
    old = {
        "n_positions": 512,
        "output_past": True,
        "task_specific_params": {f"translation_en_to_{to}": task for to in ("de", "fr", "ro")}
        | {"summarization": {**task, "length_penalty": 2.0, "no_repeat_ngram_size": 3}},
    }
    reader = ConfigReader({**T5.tiny, **old, "swirl": 3})
    assert T5.spec(reader) == spec_of()
    assert reader.unused_key_warnings() == ["config.json: swirl = 3 is not read"]


def test_what_old_configs_leave_out() -> None:
    left_out = (
        "num_decoder_layers",
        "relative_attention_max_distance",
        "relative_attention_num_buckets",
        "d_kv",
    )
    spec = spec_of(**dict.fromkeys((*left_out, "decoder_start_token_id", "eos_token_id", "dropout_rate")))
    for stream in (spec.encoder, spec.decoder):
        assert len(stream.blocks.blocks) == 3 and stream.blocks.blocks[0].attention.E == 64
        assert stream.blocks.bias is not None and stream.embed.dropout == 0.1
        assert (stream.blocks.bias.buckets, stream.blocks.bias.max_distance) == (32, 128)
    assert (spec.start_id, spec.end_id, spec.labels) == (0, 1, 2)
    assert spec.encoder.blocks.bias.bidirectional and not spec.decoder.blocks.bias.bidirectional


@pytest.mark.parametrize(
    ("keys", "kind", "activation"),
    [
        ({}, FeedForwardSpec, "relu"),
        ({"feed_forward_proj": "gelu"}, FeedForwardSpec, "gelu"),
        ({"feed_forward_proj": "gated-gelu"}, GatedFeedForwardSpec, "gelu_new"),
        ({"feed_forward_proj": "gated-silu"}, GatedFeedForwardSpec, "silu"),
        ({"feed_forward_proj": "gated-relu", "dense_act_fn": "gelu"}, GatedFeedForwardSpec, "gelu"),
        ({"feed_forward_proj": "gated-gelu", "is_gated_act": False}, FeedForwardSpec, "gelu_new"),
    ],
)
def test_the_feed_forward_layer(keys: dict[str, Any], kind: type, activation: str) -> None:
    layer = spec_of(**keys).decoder.blocks.blocks[0].feed_forward
    assert type(layer) is kind and layer.activation == activation and not layer.bias  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("keys", "own"),
    [
        ({}, False),
        ({"tie_word_embeddings": True}, False),
        ({"tie_word_embeddings": False}, True),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, True),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": True}, False),
    ],
)
def test_the_head_is_the_table_and_scaled_or_neither(keys: dict[str, Any], own: bool) -> None:
    network = network_of("translation", **keys)
    assert isinstance(network.head, Seq2SeqLMHead)
    assert network.head.logit_scale == (1.0 if own else network.width**-0.5)
    assert (network.head.decoder.weight is network.embedding.tokens.weight) != own


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"feed_forward_proj": "gelu-gated"}, "feed_forward_proj = 'gelu-gated'"),
        ({"feed_forward_proj": "gated-gelu-new"}, "feed_forward_proj = 'gated-gelu-new'"),
        ({"feed_forward_proj": "swirl"}, "activation 'swirl'"),
        ({"is_decoder": True}, "is_decoder = True"),
    ],
)
def test_what_is_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        network_of("translation", **keys)
    assert says in str(error.value)


# --------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("config", [OLD, NEW], ids=["old config", "new config"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@torch.no_grad()
def test_a_head_of_its_own(config: dict[str, Any], dtype: torch.dtype, tmp_path: Path) -> None:
    """Version 1.1: the reference keeps what it finds stored, whatever the config says of ties."""
    folder = make(ROW, ROW.main, tmp_path / "made", as_written=True, **config)
    copy = rewritten(folder, tmp_path / "copy", lambda t: {**t, "lm_head.weight": torch.randn(99, 32)})
    ours, theirs = load_ours(copy, dtype), load_theirs(copy, ROW, dtype)
    inputs = draw_inputs(ours.config, "right")
    with lifted(ROW, dtype):
        expected = theirs(**inputs.theirs).logits
    within = ROW.fp64 if dtype == torch.float64 else ROW.fp32
    close(ours(**inputs.ours).logits[inputs.keep], expected[inputs.keep], within)
    before = load_file(copy / "model.safetensors")
    load_ours(copy).save_pretrained(tmp_path / "saved")
    after = load_file(tmp_path / "saved/model.safetensors")
    assert set(before) == set(after) and all(torch.equal(before[name], after[name]) for name in before)


def test_a_head_of_its_own_that_no_file_holds_is_the_table(tmp_path: Path) -> None:
    """So the reference saves a version 1.1 that it made from nothing; trained on, the two stay one."""
    folder = make(ROW, ROW.main, tmp_path / "made", **OLD)
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    model = load_ours(folder)
    assert model.network.head.decoder.weight is model.network.embedding.tokens.weight
    assert type(model.network.head) is Seq2SeqLMHead
    model.save_pretrained(tmp_path / "saved")
    assert set(load_file(folder / "model.safetensors")) == set(load_file(tmp_path / "saved/model.safetensors"))
    load_theirs(tmp_path / "saved", ROW)  # says that it misses nothing


@torch.no_grad()
def test_an_unused_bias_of_the_first_checkpoints_is_no_surplus(folder: Path, tmp_path: Path) -> None:
    name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    copy = rewritten(
        folder,
        tmp_path / "copy",
        lambda t: {**t, name: torch.ones(8, 4), **{other: t["shared.weight"].clone() for other in names}},
    )
    inputs = draw_inputs(load_ours(folder).config, "none")
    assert torch.equal(load_ours(copy)(**inputs.ours).logits, load_ours(folder)(**inputs.ours).logits)


def test_the_first_name_of_the_class(folder: Path, tmp_path: Path) -> None:
    copy = rewritten(folder, tmp_path / "copy", dict, {"architectures": ["T5WithLMHeadModel"]})
    model = load_ours(copy)
    assert model.task == "translation"
    model.save_pretrained(tmp_path / "saved")
    assert read_config(tmp_path / "saved")["architectures"] == ["T5ForConditionalGeneration"]


@pytest.mark.parametrize("task", ["feature-extraction", "translation", "sentence-similarity"])
@torch.no_grad()
def test_a_classifiers_body_serves_other_heads(task: str, tmp_path: Path) -> None:
    """Its files have a prefix that theirs have not."""
    folder = make(ROW, "T5ForSequenceClassification", tmp_path / "made")
    model = glassformer.load(folder, task=task)
    assert not model.report.new
    model.save_pretrained(tmp_path / "saved")
    saved = load_file(tmp_path / "saved/model.safetensors")
    assert not any(name.startswith("transformer.") for name in saved)
    theirs = load_theirs(tmp_path / "saved", ROW)  # says that it misses nothing
    inputs = draw_inputs(read_config(tmp_path / "saved"), "none")
    close(model(**inputs.ours)[field(task)], theirs(**inputs.theirs)[field(task)], ROW.fp32)


def field(task: str) -> str:
    return "logits" if task == "translation" else "last_hidden_state"


@torch.no_grad()
def test_the_encoder_is_taken_out_of_a_whole_model(folder: Path) -> None:
    """Its states are what the whole model's decoder is given; nothing of the decoder is read."""
    alone = glassformer.load(folder, task="sentence-similarity")
    assert isinstance(alone.network, T5Encoder) and not alone.report.new
    assert alone.report.unused and all(name.startswith("decoder.") for name in alone.report.unused)
    inputs = draw_inputs(read_config(folder), "left")
    memory = load_ours(folder)(**inputs.ours).encoder_last_hidden_state
    states = alone(inputs.source, inputs.source_keep.long()).last_hidden_state
    assert torch.equal(states, memory)


def test_the_missing_tensor_is_named_and_its_neighbours_are_no_surplus(folder: Path, tmp_path: Path) -> None:
    """Three of theirs are one of ours."""
    lost = "encoder.block.1.layer.0.SelfAttention.k.weight"
    copy = rewritten(folder, tmp_path / "copy", lambda t: {name: x for name, x in t.items() if name != lost})
    with pytest.raises(WeightsError) as error:
        glassformer.load(copy, strict=True)
    assert "1 missing" in str(error.value) and lost in str(error.value) and "surplus" not in str(error.value)


# ------------------------------------------------------------------------------------------------------- network


@torch.no_grad()
def test_cl_22_scores_are_products_and_the_bias_of_the_distance(folder: Path) -> None:
    """Undivided; every layer of a side adds the same bias, and cross-attention none."""
    model = load_ours(folder, torch.float64)
    table = {name: x.double() for name, x in load_file(folder / "model.safetensors").items()}
    inputs = draw_inputs(model.config, "none")
    taps = model(**inputs.ours, tape=Tape("attn.*", "cross.*")).taps
    for stream, layers in (("encoder", 3), ("decoder", 2)):
        distances = table[f"{stream}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        for i in range(layers):
            q, k, scores = (taps[f"{stream}.blocks.{i}.attn.{name}"] for name in ("q", "k", "scores"))
            gap = scores - q @ k.mT
            close(gap[:, :, 5, 5], distances[0].expand(3, 4), 1e-12, "on itself")
            close(gap[:, :, 7, 6], distances[1].expand(3, 4), 1e-12, "on the one before")
            close(gap[:, :, 10, 0], distances[3 if stream == "encoder" else 7].expand(3, 4), 1e-12, "far back")
            after = gap[:, :, 5, 6]
            if stream == "encoder":
                close(after, distances[4 + 1].expand(3, 4), 1e-12, "on the one after")
            else:
                assert after.isneginf().all()
    for i in range(2):
        q, k, scores = (taps[f"decoder.blocks.{i}.cross.{name}"] for name in ("q", "k", "scores"))
        close(scores, q @ k.mT, 1e-12, "cross")


@torch.no_grad()
def test_texts_have_no_end_of_positions() -> None:
    network = network_of("translation")
    assert network.max_tokens is None
    ids = torch.randint(2, 99, (1, 700), generator=torch.Generator().manual_seed(1))
    output = network(Batch(input_ids=ids, decoder_input_ids=ids[:, :300]), Flow())
    assert output.logits is not None and output.logits.shape == (1, 300, 99) and output.logits.isfinite().all()


def test_the_body_alone_needs_decoder_input_ids() -> None:
    for task in ("feature-extraction", "translation"):
        with pytest.raises(ConfigError, match="decoder_input_ids"):
            network_of(task)(Batch(input_ids=torch.tensor([[5, 6]])), Flow())


@torch.no_grad()
def test_weights_start_as_the_paper_has_them() -> None:
    network = network_of(
        "translation",
        d_model=256,
        d_kv=64,
        d_ff=400,
        initializer_factor=2.0,
        relative_attention_num_buckets=128,
        relative_attention_max_distance=128,
    )
    expected: dict[str, float] = {}
    for path, module in network.named_modules():
        if isinstance(module, nn.Linear):
            expected[f"{path}.weight"] = 2 * module.in_features**-0.5
        elif isinstance(module, BucketedBias):
            expected[f"{path}.table.weight"] = 2 / 16
    for path, module in network.named_modules():
        if isinstance(module, Embedding):
            expected[f"{path}.tokens.weight"] = 2.0
    expected["head.decoder.weight"] = 2.0  # the table
    wide: dict[str, Tensor] = dict(network.named_parameters(remove_duplicate=False))
    for name, deviation in expected.items():
        weight = wide[name]
        if name.endswith("attn.qkv.weight"):
            q, weight = weight[: 4 * 64], weight[4 * 64 :]
            assert float(q.std()) == pytest.approx(deviation / 8, rel=0.05), name
        deviation /= 8 if name.endswith("cross.q.weight") else 1
        assert float(weight.std()) == pytest.approx(deviation, rel=0.15), name
    norms = [x for name, x in wide.items() if x.dim() == 1]
    assert norms and all((x == 1).all() for x in norms)


def test_a_head_that_is_new_starts_so_too(folder: Path) -> None:
    model = glassformer.load(folder, task="text-classification")
    assert set(model.report.new) == {f"head.{name}" for name, _ in model.network.head.named_parameters()}
    assert float(model.network.head.dense.weight.detach().std()) == pytest.approx(0.3 * 32**-0.5, rel=0.2)


def test_an_encoder_saved_alone_says_that_it_is_no_pair(tmp_path: Path) -> None:
    folder = make(ROW, "T5EncoderModel", tmp_path / "made")
    assert json.loads((folder / "config.json").read_text())["is_encoder_decoder"] is False
    assert load_ours(folder).task == "sentence-similarity"
    write_config(folder, {**read_config(folder), "is_encoder_decoder": True})
    assert load_ours(folder).task == "sentence-similarity"
