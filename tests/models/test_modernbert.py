"""ModernBERT: local and global layers, its published config, and sentence encoders that stand on it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn

import glassformer
from glassformer import Model
from glassformer.core import YarnScaling
from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.models import FAMILIES, ConfigReader
from tests.peak import PEAK_KB

FAMILY = FAMILIES["modernbert"]

PUBLISHED: dict[str, Any] = {
    **{"architectures": ["ModernBertForMaskedLM"], "attention_bias": False, "attention_dropout": 0.0},
    **{"bos_token_id": 50281, "classifier_activation": "gelu", "classifier_bias": False},
    **{"classifier_dropout": 0.0, "classifier_pooling": "mean", "cls_token_id": 50281, "decoder_bias": True},
    **{"deterministic_flash_attn": False, "embedding_dropout": 0.0, "eos_token_id": 50282},
    **{"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "gradient_checkpointing": False},
    **{"hidden_activation": "gelu", "hidden_size": 768, "initializer_cutoff_factor": 2.0},
    **{"initializer_range": 0.02, "intermediate_size": 1152, "layer_norm_eps": 1e-05, "local_attention": 128},
    **{"local_rope_theta": 10000.0, "max_position_embeddings": 8192, "mlp_bias": False, "mlp_dropout": 0.0},
    **{"model_type": "modernbert", "norm_bias": False, "norm_eps": 1e-05, "num_attention_heads": 12},
    **{"num_hidden_layers": 22, "pad_token_id": 50283, "position_embedding_type": "absolute"},
    **{"sep_token_id": 50282, "tie_word_embeddings": True, "torch_dtype": "float32", "vocab_size": 50368},
}


def spec_of(**changes: Any) -> Any:
    return FAMILY.spec(ConfigReader({**FAMILY.tiny, **changes}))


def test_the_published_config() -> None:
    model = Model.from_config(PUBLISHED, device="meta")
    assert not model.report.warnings
    blocks = model.spec.blocks.blocks
    assert [block.attention.window for block in blocks[:4]] == [None, 65, 65, None]
    assert [block.attention.rotary.theta for block in blocks[:3]] == [160_000.0, 10_000.0, 10_000.0]
    assert sum(block.attention.window is None for block in blocks) == 8
    assert sum(p.numel() for p in model.network.parameters()) == 149_655_232  # "149 million"
    assert model.spec.pooling == "mean"


def test_the_first_block_has_no_norm_before_attention() -> None:
    network = Model.from_config(FAMILY.tiny).network
    norms = [block.attn_residual.before for block in network.blocks]
    assert isinstance(norms[0], nn.Identity)
    assert all(isinstance(norm, glassformer.core.LayerNorm) for norm in norms[1:])


def test_scalings_belong_to_a_kind_of_layers() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    blocks = spec_of(rope_parameters={"full_attention": yarn}).blocks.blocks
    assert isinstance(blocks[0].attention.rotary.scaling, YarnScaling)
    assert blocks[1].attention.rotary.scaling is None


def test_a_classifier_reads_the_first_token_or_the_mean() -> None:
    for pooling, first in (("cls", True), ("mean", False)):
        model = Model.from_config({**FAMILY.tiny, "classifier_pooling": pooling}, task="text-classification")
        head = model.network.head
        assert head is not None and head.reads_first_token is first


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"local_attention": 0}, ConfigError, "local_attention is 0"),
        ({"global_attn_every_n_layers": 0}, ConfigError, "global_attn_every_n_layers is 0"),
        ({"global_rope_theta": "many"}, ConfigError, "global_rope_theta is 'many'"),
        ({"local_rope_theta": 0}, ConfigError, "rope_theta is 0.0; it must be a number above 0"),
        ({"layer_types": ["full_attention"]}, ConfigError, "a kind for each of 3 layers"),
        (
            {"layer_types": "full_attention"},
            ConfigError,
            "layer_types is 'full_attention'; it must be a list",
        ),
        (
            {"layer_types": ["full_attention"] * 2 + ["chunked_attention"]},
            UnsupportedError,
            "chunked_attention",
        ),
        ({"rope_parameters": [1]}, ConfigError, "rope_parameters is [1]; it must be an object"),
        (
            {"rope_parameters": {"full_attention": 3}},
            ConfigError,
            "full_attention is 3; it must be an object",
        ),
        ({"rope_parameters": {"sliding_attention": {"rope_type": "x"}}}, UnsupportedError, "scaling 'x'"),
        (
            {"rope_parameters": {}, "rope_scaling": {"type": "linear", "factor": 2}},
            UnsupportedError,
            "rope_scaling",
        ),
        ({"classifier_pooling": "max"}, UnsupportedError, "classifier_pooling = 'max'"),
        ({"hidden_activation": "gelux"}, UnsupportedError, "gelux"),
        ({"decoder_bias": "yes"}, ConfigError, "decoder_bias is 'yes'"),
        ({"norm_bias": 1}, ConfigError, "norm_bias is 1"),
        ({"position_embedding_type": "relative_key"}, UnsupportedError, "relative_key"),
    ],
)
def test_a_wrong_config(changes: dict[str, Any], error: type[GlassformerError], says: str) -> None:
    with pytest.raises(error) as raised:
        Model.from_config({**FAMILY.tiny, **changes})
    assert says in str(raised.value)


# ------------------------------------------------------------------------------------------- as a user has it


CORPUS = ["the quick brown fox jumps over the lazy dog", "sphinx of black quartz, judge my vow"] * 20


def write_tokenizer(folder: Path) -> None:
    """A `tokenizer.json` of the published kind: byte-pair encoding of bytes after NFC."""
    engine = Tokenizer(models.BPE())
    engine.normalizer = normalizers.NFC()
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    engine.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    engine.save(str(folder / "tokenizer.json"))
    names = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]", "unk": "[UNK]"}
    config = {f"{kind}_token": name for kind, name in names.items()}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**config, "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192})
    )


def write_sentence_encoder(folder: Path, *, limit: int) -> None:
    """The files of sentence-transformers: mean pooling, normalised, with prompts."""
    steps = ["Transformer", "Pooling", "Normalize"]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{step}"}
        for i, (step, path) in enumerate(zip(steps, paths, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False, "include_prompt": True})
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit, "do_lower_case": False}))
    prompts = {"query": "search_query: ", "document": "search_document: "}
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"})
    )


@torch.no_grad()
def mean_of_states(theirs: Any, ids: list[int]) -> np.ndarray:
    states = theirs(torch.tensor([ids])).last_hidden_state[0].mean(0)
    return nn.functional.normalize(states, dim=0).numpy()


def test_a_sentence_encoder_with_prompts_and_long_texts(tmp_path: Path) -> None:
    """Beyond 772 tokens local layers take queries in blocks; 8,192 are the limit, and longer texts are cut."""
    from transformers import AutoTokenizer, ModernBertConfig, ModernBertModel

    torch.manual_seed(3)
    config = ModernBertConfig(
        **{
            **FAMILY.tiny,
            "vocab_size": 300,
            "hidden_size": 8,
            "intermediate_size": 8,
            "local_attention": 128,
        },
        **{"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    )
    theirs = ModernBertModel(config).eval()
    for parameter in theirs.parameters():
        parameter.data.normal_(0, 0.3)
    theirs.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    write_sentence_encoder(tmp_path, limit=2000)

    model = glassformer.load(tmp_path)
    texts = ["", "a quick vow", " ".join(CORPUS), "judge " * 3000]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for name, prompt in ((None, ""), ("query", "search_query: ")):
        with pytest.warns(UserWarning, match="1 of 4 texts were cut to 2000 tokens"):
            vectors = model.encode(texts, prompt_name=name)
        ids = [tokenizer(prompt + text, truncation=True, max_length=2000)["input_ids"] for text in texts]
        assert max(map(len, ids)) == 2000 and len(ids[2]) > 300
        expected = np.stack([mean_of_states(theirs, row) for row in ids])
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_the_tokenizer_masks_a_word(tmp_path: Path) -> None:
    from transformers import ModernBertConfig, ModernBertForMaskedLM

    config = ModernBertConfig(
        **{**FAMILY.tiny, "vocab_size": 300},
        **{"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    )
    theirs = ModernBertForMaskedLM(config).eval()
    theirs.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    (best,) = glassformer.pipeline("fill-mask", model=str(tmp_path))("the [MASK] brown fox", top_k=1)
    ids = glassformer.load(tmp_path).tokenizer.encode("the [MASK] brown fox")
    logits = theirs(torch.tensor([ids])).logits[0, ids.index(3)]
    assert best["token"] == int(logits.argmax())


MEASURE = (
    PEAK_KB
    + """
import sys, torch
from glassformer import Model
from glassformer.engine.encoder import final_states
from glassformer.models import FAMILIES

sizes = {"hidden_size": 32, "intermediate_size": 32, "local_attention": 128, "num_hidden_layers": 4}
network = Model.from_config({**FAMILIES["modernbert"].tiny, **sizes}, task="feature-extraction").eval().network
with torch.inference_mode():
    final_states(network, [[7] * 64])
    before = peak_kb()
    final_states(network, [[7] * 8192])
print((peak_kb() - before) / (2**20 if sys.platform == "darwin" else 2**10))
"""
)


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is only measured on POSIX")
def test_a_text_of_8192_tokens_takes_no_square_of_memory() -> None:
    """A mask of 8,192² would be 64 MB, and 256 MB in the fused kernel."""
    ran = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 60
