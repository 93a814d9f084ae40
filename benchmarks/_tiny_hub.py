"""Tiny checkpoints under names of the Hub, with random weights and tokenizers trained on random sentences."""

from __future__ import annotations

import hashlib
import json
import random
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from _rows import MOODS, OTHERS, TAGS, paragraph

NLI = ["contradiction", "neutral", "entailment"]
CHECKPOINTS: tuple[tuple[str, str, str, list[str]], ...] = (
    (r"mnli", "Bart", "ForSequenceClassification", NLI),
    (r"emotion", "DistilBert", "ForSequenceClassification", MOODS),
    (r"sst-?2", "DistilBert", "ForSequenceClassification", ["NEGATIVE", "POSITIVE"]),
    (r"sentiment", "Bert", "ForSequenceClassification", [f"{stars} stars" for stars in range(1, 6)]),
    (r"clinc", "Bert", "ForSequenceClassification", [f"intent {number}" for number in range(7)]),
    (r"bert.*(conll03|-ner\b|-pos\b)", "Bert", "ForTokenClassification", TAGS),
    (r"distil.*squad", "DistilBert", "ForQuestionAnswering", []),
    (r"roberta.*squad", "Roberta", "ForQuestionAnswering", []),
    (r"(bert|minilm).*squad", "Bert", "ForQuestionAnswering", []),
    (r"opus-mt|marian", "Marian", "MTModel", []),
    (r"mbart", "MBart", "ForConditionalGeneration", []),
    (r"pegasus", "Pegasus", "ForConditionalGeneration", []),
    (r"(^|/|distil)bart-", "Bart", "ForConditionalGeneration", []),
    (r"(^|/|m|code|flan-)t5-", "T5", "ForConditionalGeneration", []),
    (r"camembert-", "Camembert", "ForMaskedLM", []),
    (r"xlm-roberta-", "XLMRoberta", "ForMaskedLM", []),
    (r"roberta-", "Roberta", "ForMaskedLM", []),
    (r"electra-", "Electra", "ForPreTraining", []),
    (r"distilbert-", "DistilBert", "ForMaskedLM", []),
    (r"(^|/)(bert-(base|large)|multi-qa-mpnet)", "Bert", "ForPreTraining", []),
    (r"gpt-?2|codeparrot", "GPT2", "LMHeadModel", []),
    (r"llama|mistral|smollm(?!3)|zephyr|qwen", "Llama", "ForCausalLM", []),
    (r"(^|/)vit-", "ViT", "ForImageClassification", [f"class {number}" for number in range(10)]),
    (r"wav2vec2-", "Wav2Vec2", "ForCTC", []),
)
"""A pattern in a name of the Hub → family, end of the class name, labels; the first that matches."""

ENCODER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
DRY = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
PAIR = {"d_model": 32, "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
PAIR |= {f"{side}_{key}": size for side in ("encoder", "decoder")
         for key, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))}  # fmt: skip
SIZES: dict[str, dict[str, Any]] = {
    **{key: {**ENCODER, **DRY, "max_position_embeddings": 512} for key in ("Bert", "Electra")},
    **{
        key: {**ENCODER, **DRY, "max_position_embeddings": 514, "type_vocab_size": 1}
        for key in ("Roberta", "XLMRoberta", "Camembert")
    },
    **{key: {**PAIR, "max_position_embeddings": 1024} for key in ("Bart", "MBart", "Pegasus")},
    "Marian": {**PAIR, "max_position_embeddings": 512, "scale_embedding": True},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "dropout": 0.0, "attention_dropout": 0.0}
    | {"qa_dropout": 0.0, "seq_classif_dropout": 0.0},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "T5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0},
    "Llama": {**ENCODER, "num_key_value_heads": 2, "max_position_embeddings": 1024},
    "ViT": {**ENCODER, **DRY, "image_size": 32, "patch_size": 8},
    "Wav2Vec2": {**ENCODER, "conv_dim": [16] * 3, "conv_kernel": [10, 8, 4], "conv_stride": [8] * 3}
    | {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "apply_spec_augment": False}
    | dict.fromkeys("hidden_dropout attention_dropout feat_proj_dropout activation_dropout layerdrop".split(), 0.0)
    | {"final_dropout": 0.0},
}
CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def checkpoint_of(name: str) -> tuple[str, str, list[str]] | None:
    """Family, end of the class name and labels of a name of the Hub; None = no checkpoint of a known family."""
    found = (row for row in CHECKPOINTS if re.search(row[0], name.lower()))
    return next(((family, end, labels) for _, family, end, labels in found), None)


def write_hub(cache: Path, codes: Iterable[str]) -> None:
    """Write a tiny checkpoint for each name of the Hub in these lines of code, and for the defaults of pipelines."""
    names = {name for code in codes for name in re.findall(r"""["']([\w-]+(?:/[\w.-]+)?)["']""", code)}
    write_defaults(cache)
    for name in sorted(names):
        write_checkpoint(cache, name)


def write_checkpoint(cache: Path, name: str) -> None:
    """Write one tiny checkpoint into a cache of huggingface_hub, under its name, if it is of a known family."""
    import transformers

    found, folder = checkpoint_of(name), cache / f"models--{name.replace('/', '--')}"
    if found is None or folder.exists():
        return
    family, end, labels = found
    digest = hashlib.sha1(name.encode()).hexdigest()
    snapshot = folder / "snapshots" / digest
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text(digest)
    settings: dict[str, Any] = {**SIZES[family]}
    if labels:
        settings |= {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    if family == "ViT":
        transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(snapshot)
    else:
        tokenizer = _tokenizer(family, "uncased" not in name, snapshot)
        tokenizer.save_pretrained(snapshot)
        inner = getattr(tokenizer, "tokenizer", tokenizer)
        settings |= {"vocab_size": len(inner)} | _special_ids(family, inner)
    torch.manual_seed(zlib.crc32(name.encode()))
    model = getattr(transformers, family + end)(getattr(transformers, f"{family}Config")(**settings))
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases too, which begin as 1 and 0
            if parameter.requires_grad:  # not tables of sines, which models compute
                parameter.add_(0.08 * torch.randn_like(parameter))
    model.tie_weights()
    model.save_pretrained(snapshot)
    if family == "Llama":
        (snapshot / "chat_template.jinja").write_text(CHAT)


def write_defaults(cache: Path) -> None:
    """Write the checkpoints that a pipeline without a model's name loads, at the revisions that it asks for."""
    from transformers.pipelines import SUPPORTED_TASKS

    for task in SUPPORTED_TASKS.values():
        found = list(task.get("default", {}).values())  # {"model": (name, revision)}, or one for each pair of languages
        while found:
            value = found.pop()
            if isinstance(value, dict):
                found.extend(value.values())
            elif isinstance(value, tuple) and len(value) == 2 and all(isinstance(each, str) for each in value):
                name, revision = value
                write_checkpoint(cache, name)
                refs = cache / f"models--{name.replace('/', '--')}/refs"
                if refs.exists():
                    (refs / revision).write_text((refs / "main").read_text())
            elif isinstance(value, tuple):
                found.extend(value)


def _special_ids(family: str, tokenizer: Any) -> dict[str, Any]:
    ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("pad", "bos", "eos")}
    if family == "GPT2":
        return {"bos_token_id": ids["eos_token_id"], "eos_token_id": ids["eos_token_id"]}
    if family in ("Bart", "MBart", "Pegasus", "Marian", "T5"):
        start = ids["eos_token_id"] if family in ("Bart", "MBart") else ids["pad_token_id"]
        ids |= {"decoder_start_token_id": start}
        ids |= {"forced_eos_token_id": ids["eos_token_id"]} if family != "T5" else {}
    return {key: value for key, value in ids.items() if value is not None}


def _tokenizer(family: str, cased: bool, folder: Path) -> Any:
    """A tokenizer of the algorithm of a family, trained on random sentences."""
    import tokenizers
    import transformers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

    draw = random.Random(0)
    texts = [paragraph(draw, 5) for _ in range(400)] + [f"{word} {word.lower()}" for word in OTHERS] * 20
    if family == "Wav2Vec2":
        letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"]
        (folder / "vocab.json").write_text(json.dumps({letter: number for number, letter in enumerate(letters)}))
        return transformers.Wav2Vec2Processor(
            transformers.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=False),
            transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json")),
        )
    if family in ("Bert", "DistilBert", "Electra"):
        special = "[PAD] [UNK] [CLS] [SEP] [MASK]".split()
        engine = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        engine.normalizer = normalizers.BertNormalizer(lowercase=not cased)
        engine.pre_tokenizer, engine.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
        engine.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special))
        engine.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        made = getattr(transformers, f"{family}TokenizerFast")(tokenizer_object=engine, do_lower_case=not cased)
    elif family in ("Roberta", "Bart", "GPT2"):
        special = ["<|endoftext|>"] if family == "GPT2" else "<s> <pad> </s> <unk> <mask>".split()
        engine = tokenizers.Tokenizer(models.BPE())
        engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=special, initial_alphabet=alphabet)
        engine.train_from_iterator(texts, trainer)
        framed = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
        engine.post_processor = processors.ByteLevel(trim_offsets=False) if family == "GPT2" else framed
        made = getattr(transformers, f"{family}TokenizerFast")(tokenizer_object=engine)
    else:
        seq2seq = family in ("T5", "Pegasus", "Marian")
        special = "<pad> </s> <unk>".split() if seq2seq else "<s> <pad> </s> <unk> <mask>".split()
        special += [f"<extra_id_{number}>" for number in range(100)] if family == "T5" else []
        engine = tokenizers.Tokenizer(models.Unigram())
        engine.normalizer, engine.decoder = normalizers.NFKC(), decoders.Metaspace()
        engine.pre_tokenizer = pre_tokenizers.Metaspace()
        engine.train_from_iterator(
            texts, trainers.UnigramTrainer(vocab_size=1200, special_tokens=special, unk_token="<unk>")
        )
        single, pair = ("$A </s>", "$A $B </s>") if seq2seq else ("<s> $A </s>", "<s> $A </s> </s> $B </s>")
        ids = [(token, engine.token_to_id(token)) for token in ("<s>", "</s>") if token in single]
        engine.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)
        roles = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        if not seq2seq:
            roles |= {"bos_token": "<s>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
        if family == "MBart":  # which adds the tokens of its languages
            pieces = json.loads(engine.to_str())["model"]["vocab"]
            pieces = [*(("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)), *map(tuple, pieces[5:])]
            return transformers.MBart50Tokenizer(vocab=pieces, src_lang="en_XX", model_max_length=512)
        made = transformers.PreTrainedTokenizerFast(tokenizer_object=engine, **roles)
    made.model_max_length = 1024 if family == "GPT2" else 512
    return made
