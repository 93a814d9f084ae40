"""What users of the reference library type runs with `glassformer.hf` in its place, and gives the same."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, processors

from glassformer.audio import read_audio
from glassformer.errors import GlassformerError
from tests.e2e.tiny_models import WORDS, make_folder
from tests.hf.book_lines import BOOK
from tests.hf.further_lines import FURTHER
from tests.hf.guide_lines import GUIDES
from tests.hf.idiom_lines import IDIOMS
from tests.hf.lines import CHAPTERS, Line
from tests.hf.more_lines import MORE
from tests.hf.part_lines import PARTS
from tests.hf.trainer_lines import TRAINERS

LABELS = {"id2label": {"0": "NEGATIVE", "1": "POSITIVE"}, "label2id": {"NEGATIVE": 0, "POSITIVE": 1}}
TAGS = {"id2label": {"0": "O", "1": "B-X", "2": "I-X"}, "label2id": {"O": 0, "B-X": 1, "I-X": 2}}
NLI = ("contradiction", "neutral", "entailment")
CHECKPOINTS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "BERT": ("bert", "feature-extraction", {"max_position_embeddings": 40}),
    "SENTIMENT": ("distilbert", "text-classification", {**LABELS, "max_position_embeddings": 40}),
    "NER": ("bert", "token-classification", TAGS),
    "QA": ("bert", "question-answering", {}),
    "MASK": ("bert", "fill-mask", {}),
    "GPT2": ("gpt2", "text-generation", {"bos_token_id": 1, "eos_token_id": 2, "n_positions": 40}),
    "CHAT": ("llama", "text-generation", {}),
    "T5": ("t5", "translation", {}),
    "BART": ("bart", "translation", {}),
    "LAYOUT": (
        "layoutlm",
        "question-answering",
        {"max_2d_position_embeddings": 1024, "max_position_embeddings": 40},
    ),
    "NLI": (
        "bert",
        "text-classification",
        {"id2label": {str(i): x for i, x in enumerate(NLI)}, "label2id": {x: i for i, x in enumerate(NLI)}},
    ),
    "VIT": ("vit", "image-classification", LABELS),
    "CLIP": ("clip", None, {}),
    "SOUNDS": ("wav2vec2", "audio-classification", LABELS),
    "CTC": ("wav2vec2", "automatic-speech-recognition", {}),
    "WHISPER": ("whisper", None, {}),
    "TAPAS": ("tapas", "table-question-answering", {}),
}
"""Capitals of the lines → family, task, changes of its small config."""


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Capitals of the lines → tiny model folders, a picture and a sound."""
    root = tmp_path_factory.mktemp("lines")
    folders = {name: str(make_folder(root / name, family, task=task, **changes))
               for name, (family, task, changes) in CHECKPOINTS.items()}  # fmt: skip
    for name, folder in folders.items():
        settings = {"pad_token": "[PAD]", "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 40}
        if name in ("MASK", "BERT", "NER", "QA", "SENTIMENT", "NLI", "LAYOUT", "TAPAS"):
            settings |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
            settings |= {"mask_token": "[MASK]"} if name == "MASK" else {}
            if name != "SENTIMENT":
                settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
            _complete(Path(folder) / "tokenizer.json", mask=name == "MASK")
        if name == "GPT2":
            _with_spaces(Path(folder) / "tokenizer.json")
        if name in ("GPT2", "T5", "BART"):
            settings["eos_token"] = "[SEP]"
        if name == "CHAT":
            settings["chat_template"] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        (Path(folder) / "tokenizer_config.json").write_text(json.dumps(settings))
    sound = str(Path(folders["SOUNDS"]) / "sound.wav")
    return {
        **folders,
        "PICTURE": str(Path(folders["VIT"]) / "picture.png"),
        "SOUND": sound,
        "SAMPLES": read_audio(sound, 16_000),
    }


def _complete(path: Path, *, mask: bool) -> None:
    """Pairs of texts, with token types, and the mask token as one more word."""
    engine = tokenizers.Tokenizer.from_file(str(path))
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    if mask:
        engine.add_special_tokens(["[MASK]"])
    engine.save(str(path))


def _with_spaces(path: Path) -> None:
    """Words with the space before them, as GPT-2 has them; three may also begin a text."""
    words = [*WORDS[:4], *(f"Ġ{word}" for word in WORDS[4:]), "time", "fruit", "a"]
    engine = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    engine.add_special_tokens(WORDS[:4])
    engine.save(str(path))


def run(code: str, names: Mapping[str, Any], out: Path) -> Any:
    scope = {**names, "OUT": str(out)}
    torch.manual_seed(0)
    exec(compile(code, "<line>", "exec"), scope)
    return scope["out"]


def plain(value: Any) -> Any:
    """Tensors and arrays as lists, mappings as dicts, numbers to 4 digits."""
    if isinstance(value, torch.Tensor):
        value = value.detach().to(torch.float64).tolist() if value.is_floating_point() else value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | torch.Size):
        return [plain(each) for each in value]
    return round(value, 4) + 0.0 if isinstance(value, float) else value


def same(ours: Any, theirs: Any) -> None:
    """Equal, but for rounding."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict) and set(ours) == set(theirs), (ours, theirs)
        for key, value in theirs.items():
            same(ours[key], value)
    elif isinstance(theirs, list):
        assert isinstance(ours, list) and len(ours) == len(theirs), (ours, theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=2e-4), (ours, theirs)
    else:
        assert ours == theirs, (ours, theirs)


@pytest.mark.parametrize(
    "line", [pytest.param(line, id=f"{chapter}-{number}")
             for chapter, lines in {**CHAPTERS, "more": [Line(code) for code in MORE], **GUIDES, **BOOK}.items()
             for number, line in enumerate(lines, 1)]
    + [pytest.param(line, id=name) for name, line in {**IDIOMS, **FURTHER, **TRAINERS, **PARTS}.items()]
)  # fmt: skip
def test_the_same_as_the_reference(line: Line, names: dict[str, Any], tmp_path: Path) -> None:
    code = line.code.replace("transformers", "glassformer.hf")
    if line.refused is not None:
        with pytest.raises(GlassformerError, match=line.refused):
            run(code, names, tmp_path / "ours")
        return
    ours = run(code, names, tmp_path / "ours")
    if line.wanted is not None:
        assert eval(line.wanted, {"out": ours}), ours
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = run(line.code, names, tmp_path / "theirs")
    same(plain(ours), plain(theirs))
