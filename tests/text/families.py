"""Small tokenizer folders as each family publishes them: vocabulary files alone, trained in moments on `corpus.txt`.

The corpus is a copy of some pages of docs/, kept as it was: a vocabulary changes with every word it is trained on.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers

CORPUS = Path(__file__).with_name("corpus.txt")

SCRIPTS = "Crème brûlée, naïve café, Straße, Ελλάδα, Привет мир, 漢字 かな 한국어 ﬁne ½ ①"


@cache
def lines() -> list[str]:
    return CORPUS.read_text(encoding="utf-8").splitlines() + [SCRIPTS] * 5


def train_pieces(path: Path, **options: Any) -> None:
    """A SentencePiece file of about 800 pieces."""
    trainer = pytest.importorskip("sentencepiece", reason="trains the vocabularies: pip install 'glassformer[dev]'")
    kinds = {"model_type": "unigram", "hard_vocab_limit": options.get("model_type") == "bpe"}
    content = io.BytesIO()
    trainer.SentencePieceTrainer.train(
        sentence_iterator=iter(lines()),
        model_writer=content,
        minloglevel=2,
        num_threads=1,
        character_coverage=1.0,
        **{**kinds, "vocab_size": 800, **options},
    )
    path.write_bytes(content.getvalue())


def pieces_of(path: Path) -> Any:
    """The SentencePiece library's own reading of a file."""
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def train_merges(folder: Path, words: pre_tokenizers.PreTokenizer, special: Iterable[str], **options: Any) -> None:
    """`vocab.json` and `merges.txt` of about 900 pieces."""
    engine = tokenizers.Tokenizer(models.BPE(**{k: v for k, v in options.items() if k != "normalizer"}))
    engine.pre_tokenizer = words
    if "normalizer" in options:
        engine.normalizer = options["normalizer"]
    suffix = {"end_of_word_suffix": options["end_of_word_suffix"]} if "end_of_word_suffix" in options else {}
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=list(special),
        initial_alphabet=[] if suffix else sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        **suffix,
    )
    engine.train_from_iterator(lines(), trainer)
    engine.model.save(str(folder))


def xlm_roberta(folder: Path) -> None:
    train_pieces(folder / "sentencepiece.bpe.model")


def xlnet(folder: Path) -> None:
    symbols = "<cls>,<sep>,<pad>,<mask>,<eod>,<eop>"
    train_pieces(folder / "spiece.model", unk_id=0, bos_id=1, eos_id=2, control_symbols=symbols)


def gemma(folder: Path) -> None:
    pieces = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "eos_piece": "<eos>", "bos_piece": "<bos>"}
    train_pieces(
        folder / "tokenizer.model",
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
        add_dummy_prefix=False,
        user_defined_symbols="<mask>,<start_of_turn>,<end_of_turn>",
        **pieces,
    )


def mbart(folder: Path) -> None:
    """Without a map of characters: the reference leaves it out where this family has one."""
    train_pieces(folder / "sentencepiece.bpe.model", normalization_rule_name="identity")


def t5(folder: Path) -> None:
    train_pieces(folder / "spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


def albert(folder: Path) -> None:
    special = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": "[CLS],[SEP],[MASK]"}
    train_pieces(folder / "spiece.model", **special)


def deberta_v2(folder: Path) -> None:
    """Without [MASK], as the published file."""
    pieces = {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
    ids = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
    train_pieces(folder / "spm.model", normalization_rule_name="identity", **ids, **pieces)


def deberta(folder: Path) -> None:
    special = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
    train_merges(folder, pre_tokenizers.ByteLevel(add_prefix_space=False), special)


def big_bird(folder: Path) -> None:
    special = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "control_symbols": "[CLS],[SEP],[MASK]"}
    train_pieces(folder / "spiece.model", normalization_rule_name="identity", **special)


def llama(folder: Path) -> None:
    train_pieces(
        folder / "tokenizer.model",
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
    )


def marian(folder: Path) -> None:
    """Pieces of two languages, numbered together, in an order of their own."""
    train_pieces(folder / "source.spm")
    train_pieces(folder / "target.spm", vocab_size=500, model_type="bpe")
    files = [pieces_of(folder / name) for name in ("target.spm", "source.spm")]
    pieces = [file.id_to_piece(i) for file in files for i in range(3, file.get_piece_size())]
    tokens = ["</s>", "<unk>", *dict.fromkeys([*pieces, ">>fra<<"]), "<pad>"]
    numbers = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(numbers), encoding="utf-8")


def gpt_neox(folder: Path) -> None:
    train_merges(folder, pre_tokenizers.ByteLevel(add_prefix_space=False), ("<|endoftext|>", "<|padding|>"))


def roberta(folder: Path) -> None:
    special = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    train_merges(folder, pre_tokenizers.ByteLevel(add_prefix_space=False), special)


WHISPER_ADDED = "<|startoftranscript|> <|en|> <|fr|> <|translate|> <|transcribe|> <|notimestamps|>".split()


def whisper(folder: Path) -> None:
    train_merges(folder, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])
    size = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    added = {token: size + number for number, token in enumerate(WHISPER_ADDED)}
    (folder / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")


def clip(folder: Path) -> None:
    """Every byte is there with and without the end of a word, as in the published vocabulary."""
    parts = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
    words = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(parts), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    train_merges(folder, words, [], end_of_word_suffix="</w>", normalizer=normalizers.Lowercase())
    path = folder / "vocab.json"
    vocabulary = json.loads(path.read_text(encoding="utf-8"))
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    for token in (*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"):
        vocabulary.setdefault(token, len(vocabulary))
    path.write_text(json.dumps(vocabulary), encoding="utf-8")


def openai_gpt(folder: Path) -> None:
    train_merges(
        folder,
        pre_tokenizers.BertPreTokenizer(),
        ["<unk>"],
        end_of_word_suffix="</w>",
        unk_token="<unk>",
        normalizer=normalizers.BertNormalizer(lowercase=True),
    )


def wav2vec2(folder: Path) -> None:
    tokens = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"]
    numbers = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(numbers), encoding="utf-8")


FAMILIES: dict[str, Callable[[Path], None]] = {
    "albert": albert,
    "bart": roberta,
    "big_bird": big_bird,
    "camembert": xlm_roberta,
    "clip": clip,
    "deberta": deberta,
    "deberta-v2": deberta_v2,
    "gemma": gemma,
    "gpt_neox": gpt_neox,
    "llama": llama,
    "marian": marian,
    "mbart": mbart,
    "mbart50": xlm_roberta,
    "openai-gpt": openai_gpt,
    "pegasus": t5,
    "roberta": roberta,
    "t5": t5,
    "wav2vec2": wav2vec2,
    "whisper": whisper,
    "xlm-roberta": xlm_roberta,
    "xlnet": xlnet,
}


def make(family: str, folder: Path) -> Path:
    """A folder of this family, with nothing but `config.json` and vocabulary files in it."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": family}), encoding="utf-8")
    FAMILIES[family](folder)
    return folder
