"""The tokenizer against golden ids, against its own promises, and on bad input."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.text import Tokenizer

ARROW = "time flies like an arrow"


@pytest.fixture
def bert(bert_folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(bert_folder)


@pytest.fixture(scope="module")
def gpt2(gpt2_folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(gpt2_folder)


# ── golden ids ───────────────────────────────────────────────────────────────────────────────────────────


def test_golden_ids_of_a_real_wordpiece(minilm: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_folder(minilm)
    assert tokenizer.encode(ARROW, add_special_tokens=False) == [2051, 10029, 2066, 2019, 8612]
    assert tokenizer.encode(ARROW) == [101, 2051, 10029, 2066, 2019, 8612, 102]
    assert tokenizer.decode([2051, 10029, 2066, 2019, 8612]) == ARROW
    text = "Tokenizing text is a core task of NLP."
    assert tokenizer(text).tokens() == ("[CLS] token ##izing text is a core task of nl ##p . [SEP]".split())
    assert tokenizer.encode("Crème brûlée, ☃ 漢!") == [
        101,
        13675,
        21382,
        7987,
        9307,
        2063,
        1010,
        100,
        1904,
        999,
        102,
    ]
    assert tokenizer("mhealth", add_special_tokens=False).tokens() == ["m", "##hea", "##lth"]
    assert (tokenizer.vocab_size, len(tokenizer), tokenizer.model_max_length) == (30522, 30522, 512)


def test_golden_ids_of_a_small_wordpiece(bert: Tokenizer) -> None:
    assert bert.encode("Time flies, like an ARROW!") == [2, 5, 6, 17, 7, 8, 9, 16, 3]
    assert bert("Unaffable café").tokens() == ["[CLS]", "un", "##aff", "##able", "ca", "##fe", "[SEP]"]
    assert bert("zebra").tokens() == ["[CLS]", "[UNK]", "[SEP]"]


def test_golden_ids_of_a_llama_tokenizer(shared: Path) -> None:
    tokenizer = Tokenizer.from_folder(shared / "models" / "stories260k")
    assert tokenizer.encode("Once upon a time") == [1, 403, 407, 261, 378]
    assert tokenizer.decode([1, 403, 407, 261, 378], skip_special_tokens=True) == "Once upon a time"
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, None)
    assert "token_type_ids" not in tokenizer("a")


def test_golden_ids_of_a_byte_level_vocabulary(tmp_path: Path) -> None:
    """`low lower` by hand: bytes l o w e r and Ġ, merges l+o, lo+w, Ġ+low."""
    tokens = ["l", "o", "w", "e", "r", "Ġ", "lo", "low", "Ġlow", "<|endoftext|>"]
    (tmp_path / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(tokens)}), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nl o\nlo w\nĠ low\n", encoding="utf-8")
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert tokenizer.encode("low lower") == [7, 8, 3, 4]
    assert tokenizer.encode("low<|endoftext|> low") == [7, 9, 8]
    assert tokenizer.decode([7, 8, 3, 4]) == "low lower"
    assert tokenizer.eos_token_id == 9
    (tmp_path / "tokenizer_config.json").write_text('{"add_prefix_space": true, "add_bos_token": true}')
    assert Tokenizer.from_folder(tmp_path).encode("low") == [9, 8]


# ── special tokens, pairs, padding ───────────────────────────────────────────────────────────────────────


def test_pairs_have_segments_in_bert(bert: Tokenizer) -> None:
    encoding = bert("time flies", "a banana")
    assert encoding.tokens() == ["[CLS]", "time", "flies", "[SEP]", "a", "banana", "[SEP]"]
    assert encoding["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]
    assert encoding.sequence_ids() == [None, 0, 0, None, 1, 1, None]
    assert list(encoding) == ["input_ids", "token_type_ids", "attention_mask"]


def test_model_input_names_decide_about_segments(bert_folder: Path) -> None:
    (bert_folder / "config.json").write_text('{"model_type": "distilbert"}')
    assert "token_type_ids" not in Tokenizer.from_folder(bert_folder)("a")  # the model type, before the class
    assert "token_type_ids" in Tokenizer.from_folder(bert_folder, model_type="bert")("a")
    config = {"tokenizer_class": "BertTokenizer", "model_input_names": ["input_ids", "token_type_ids"]}
    (bert_folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert "token_type_ids" in Tokenizer.from_folder(bert_folder)("a")  # the file, before both


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_on_both_sides(bert: Tokenizer, side: str) -> None:
    encoding = bert(["time flies", "a"], padding=True, padding_side=side, return_tensors="np")
    short = [2, 11, 3]
    assert encoding["input_ids"].shape == (2, 4)
    assert encoding["input_ids"].dtype == np.int64
    assert encoding["input_ids"][1].tolist() == ([*short, 0] if side == "right" else [0, *short])
    assert encoding["attention_mask"][1].tolist() == ([1, 1, 1, 0] if side == "right" else [0, 1, 1, 1])
    assert encoding.tokens(1).count("[PAD]") == 1


def test_padding_falls_back_to_the_end_token(gpt2: Tokenizer) -> None:
    encoding = gpt2(["Once upon a time", "a"], padding="max_length", max_length=9, return_tensors="pt")
    assert encoding.input_ids.shape == (2, 9)
    assert encoding.input_ids[1, 1:].eq(gpt2.eos_token_id).all()
    assert encoding.attention_mask.sum(1).tolist() == [len(gpt2.encode("Once upon a time")), 1]
    assert encoding.input_ids.dtype == torch.int64
    assert gpt2.pad_token is None


def test_stored_padding_and_truncation_are_ignored(minilm: Path) -> None:
    stored = json.loads((minilm / "tokenizer.json").read_text(encoding="utf-8"))
    assert stored["padding"]["strategy"] == {"Fixed": 128}
    assert stored["truncation"]["max_length"] == 128
    tokenizer = Tokenizer.from_folder(minilm)
    assert len(tokenizer.encode("a")) == 3
    assert len(tokenizer.encode("a " * 300)) == 302


def test_special_tokens_in_text(bert: Tokenizer) -> None:
    assert bert("time [SEP] a").tokens() == ["[CLS]", "time", "[SEP]", "a", "[SEP]"]
    plain = bert("time [SEP] a", special_tokens_as_text=True)
    assert plain.tokens() == ["[CLS]", "time", "[UNK]", "[UNK]", "[UNK]", "a", "[SEP]"]
    assert bert("time [SEP] a").tokens() == [
        "[CLS]",
        "time",
        "[SEP]",
        "a",
        "[SEP]",
    ]  # nothing stayed switched


def test_a_special_token_never_forms_from_untrusted_text(shared: Path, gpt2: Tokenizer) -> None:
    text = "x </s> <s> <unk> <|endoftext|> y"
    for tokenizer in (Tokenizer.from_folder(shared / "models" / "stories260k"), gpt2):
        plain = tokenizer(text, add_special_tokens=False, special_tokens_as_text=True)["input_ids"]
        assert not tokenizer.special_ids & set(plain)
        assert tokenizer.decode(plain) == text
        assert tokenizer.special_ids & set(tokenizer.encode(text, add_special_tokens=False))


def test_special_tokens_come_from_all_the_files(bert_folder: Path) -> None:
    (bert_folder / "special_tokens_map.json").write_text(
        json.dumps({"eos_token": {"content": "<end>", "lstrip": True}, "additional_special_tokens": ["<speaker>"]})
    )
    tokenizer = Tokenizer.from_folder(bert_folder)
    added = tokenizer.convert_tokens_to_ids(["<speaker>", "<end>"])
    assert added == [tokenizer.vocab_size, tokenizer.vocab_size + 1]
    assert (tokenizer.eos_token, tokenizer.cls_token, tokenizer.bos_token) == ("<end>", "[CLS]", None)
    assert tokenizer("a <end>").tokens() == ["[CLS]", "a", " <end>", "[SEP]"]  # lstrip: with its space
    assert set(added) < tokenizer.special_ids
    assert tokenizer.largest_id == len(tokenizer) - 1


def test_an_older_list_of_added_tokens(gpt2_folder: Path, tmp_path: Path) -> None:
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((gpt2_folder / name).read_bytes())
    size = len(Tokenizer.from_folder(tmp_path))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<b>": size + 1, "<a>": size}))
    assert Tokenizer.from_folder(tmp_path).encode("<b><a>") == [size + 1, size]
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<b>": size + 7}))
    with pytest.raises(DataError, match=r"added_tokens.json.*do not belong together"):
        Tokenizer.from_folder(tmp_path)


# ── truncation and windows ───────────────────────────────────────────────────────────────────────────────


def test_windows_with_stride(bert: Tokenizer) -> None:
    """The question is repeated in each window; offsets lead back to the document."""
    question, document = "the banana", "time flies like an arrow fruit flies like a banana"
    encoding = bert(
        question, document, truncation="only_second", max_length=9, stride=2, return_overflowing_tokens=True
    )
    assert [len(ids) for ids in encoding["input_ids"]] == [9, 9, 9, 9]
    assert encoding.overflow_to_sample == [0, 0, 0, 0]
    spans = set()
    for row in range(4):
        assert encoding.tokens(row)[:4] == ["[CLS]", "the", "banana", "[SEP]"]
        for (start, end), sequence, token in zip(
            encoding.offsets(row), encoding.sequence_ids(row), encoding.tokens(row), strict=True
        ):
            if sequence == 1:
                assert document[start:end] == token
                spans.add((start, end))
    assert len(spans) == len(document.split())


def test_truncation_takes_the_model_length(bert: Tokenizer, bert_folder: Path) -> None:
    assert len(bert("a " * 1000, truncation=True)["input_ids"]) == 512
    (bert_folder / "tokenizer_config.json").write_text('{"model_max_length": 1e30}')
    unlimited = Tokenizer.from_folder(bert_folder)
    assert unlimited.model_max_length is None
    with pytest.raises(ConfigError, match="give max_length"):
        unlimited("a", truncation=True)


def test_truncation_side(bert_folder: Path) -> None:
    (bert_folder / "tokenizer_config.json").write_text('{"truncation_side": "left", "padding_side": "left"}')
    tokenizer = Tokenizer.from_folder(bert_folder)
    assert tokenizer(ARROW, truncation=True, max_length=4).tokens() == ["[CLS]", "an", "arrow", "[SEP]"]
    assert tokenizer.batch_ids([ARROW], 4) == (
        [tokenizer(ARROW, truncation=True, max_length=4)["input_ids"]],
        1,
    )
    assert tokenizer.batch_ids([ARROW], 2) == ([[2, 3]], 1)
    assert tokenizer(["a", "a a"], padding=True)["attention_mask"][0] == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truncation": True, "max_length": 1}, "no room for the 2 special tokens"),
        ({"truncation": True, "max_length": 0}, "max_length is 0; it must be a whole number from 1 up"),
        ({"truncation": True, "max_length": True}, "max_length is True; it must be a whole number"),
        ({"truncation": True, "max_length": 5, "stride": 3}, "stride=3 must be less than the 3 text tokens"),
        ({"truncation": True, "stride": -1}, "stride is -1; it must be a whole number from 0 up"),
        ({"truncation": "only_second"}, "needs pairs"),
        ({"truncation": "shortest"}, "allowed: None, False, True, 'longest_first'"),
        ({"padding": "widest"}, "padding='widest' is not known"),
        ({"padding": True, "padding_side": "top"}, "padding_side='top'"),
        ({"padding": "max_length", "max_length": 10**12}, "padded to 1,000,000,000,000 tokens"),
        ({"padding": True, "pad_to_multiple_of": 10**12}, "padded to 1,000,000,000,000 tokens"),
        ({"padding": True, "pad_to_multiple_of": "8"}, "pad_to_multiple_of is '8'; it must be a whole number"),
        ({"return_tensors": "tf"}, "return_tensors='tf'"),
        ({"return_tensors": "np"}, "rows of 3 to 4 tokens do not make one tensor; add padding=True"),
        ({"return_overflowing_tokens": True}, "needs truncation"),
    ],
)
def test_wishes_that_do_not_fit(bert: Tokenizer, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        bert(["time", "time flies"], **options)  # type: ignore[arg-type]


def test_a_length_alone_truncates_with_a_warning(bert: Tokenizer) -> None:
    with pytest.warns(UserWarning, match="max_length=4 truncates: say what it is for"):
        assert bert(ARROW, max_length=4) == bert(ARROW, truncation=True, max_length=4)
    whole = bert(ARROW)
    for options in ({"truncation": False}, {"padding": True}):
        with pytest.warns(UserWarning, match="max_length=4 has no effect"):
            assert bert(ARROW, max_length=4, **options) == whole  # type: ignore[arg-type]


@pytest.mark.parametrize(("length", "stride"), [(5, 0), (9, 2)])
def test_a_part_too_short_to_give_way(bert: Tokenizer, length: int, stride: int) -> None:
    with pytest.raises(DataError, match=f"'only_first' cannot bring every pair to max_length={length}"):
        bert("a banana a", ARROW, truncation="only_first", max_length=length, stride=stride)


# ── odd and bad input ────────────────────────────────────────────────────────────────────────────────────


def test_empty_input(bert: Tokenizer, gpt2: Tokenizer) -> None:
    assert bert("")["input_ids"] == [2, 3]
    assert gpt2("")["input_ids"] == []
    assert gpt2("", return_tensors="np")["input_ids"].shape == (1, 0)
    assert bert([])["input_ids"] == []
    assert bert([], padding=True, return_tensors="pt")["input_ids"].shape == (0, 0)
    assert bert.batch_ids([], 5) == ([], 0)
    assert bert.decode([]) == ""
    assert bert.explain("").pieces == ()


@pytest.mark.parametrize(
    "wrong", [None, 3, b"time", ["time", None], [b"x"], {"a": "b"}, [["time", "flies", "like"]], ["a", 1.5]]
)
def test_input_that_is_no_text(bert: Tokenizer, wrong: object) -> None:
    with pytest.raises(DataError, match=r"must be a string"):
        bert(wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"must be a string"):
        bert.batch_ids(wrong, 8)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"must be a string"):
        bert.encode(wrong)  # type: ignore[arg-type]


def test_pairs_in_one_list(bert: Tokenizer) -> None:
    assert (
        bert([["time", "flies"], ("fruit", "like")])["input_ids"]
        == bert(["time", "fruit"], ["flies", "like"])["input_ids"]
    )


def test_half_a_surrogate_pair_is_located(bert: Tokenizer) -> None:
    for call in (
        lambda: bert(["fine", "time \ud83d flies"]),
        lambda: bert.batch_ids(["fine", "time \ud83d flies"], 8),
    ):
        with pytest.raises(DataError, match=r"text 1 holds '\\ud83d' at character 5"):
            call()
    with pytest.raises(DataError, match="no valid Unicode"):
        bert.explain("\udc00")
    with pytest.raises(DataError):
        bert.convert_tokens_to_ids("\udc00")


def test_pairs_must_match(bert: Tokenizer) -> None:
    with pytest.raises(DataError, match="got 2 texts and 1 pairs"):
        bert(["a", "b"], ["c"])
    with pytest.raises(DataError, match="got one string and 1 pairs"):
        bert("a", ["c"])


@pytest.mark.parametrize("ids", [[-1], [2**32], [1.5], ["a"], [True], [[[1.5]]], None, 1.5])
def test_ids_that_are_none(bert: Tokenizer, ids: object) -> None:
    with pytest.raises(DataError, match="ids must be integers"):
        bert.decode(ids)


def test_ids_and_tokens(bert: Tokenizer, gpt2: Tokenizer) -> None:
    assert bert.convert_ids_to_tokens([5, 6]) == ["time", "flies"]
    assert bert.convert_ids_to_tokens(5) == "time"
    assert bert.convert_tokens_to_ids(["time", "zebra"]) == [5, 1]
    assert bert.decode(torch.tensor([2, 5, 6, 3]), skip_special_tokens=True) == "time flies"
    assert bert.decode(np.array([5, 6])) == "time flies"
    with pytest.raises(DataError, match="id 99999 is far beyond the vocabulary of 28 tokens"):
        bert.decode([5, 99999])
    assert bert.decode([5, 9999]) == "time"  # embedding tables are often padded beyond the vocabulary
    with pytest.raises(DataError, match="id 9999 is not in the vocabulary of"):
        bert.convert_ids_to_tokens([9999])


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_byte_level_round_trips_every_text(gpt2: Tokenizer, text: str) -> None:
    ids = gpt2(text, special_tokens_as_text=True)["input_ids"]
    assert gpt2.decode(ids) == text
    assert gpt2.decode(gpt2.encode(text)) == text


def test_batch_ids_equals_the_call(minilm: Path) -> None:
    tokenizer = Tokenizer.from_folder(minilm)
    texts = ["", "a", ARROW, "a " * 700, ARROW * 3, "[SEP] x"]
    rows, truncated = tokenizer.batch_ids(texts, 8)
    assert rows == tokenizer(texts, truncation=True, max_length=8)["input_ids"]
    assert truncated == 2
    assert tokenizer.batch_ids(texts, None) == (tokenizer(texts)["input_ids"], 0)
    with pytest.raises(ConfigError, match="no room"):
        tokenizer.batch_ids(texts, 1)


def test_threads_do_not_disturb_each_other(bert: Tokenizer) -> None:
    def work(length: int) -> bool:
        texts = [ARROW, "a", "fruit flies"]
        plain = bert(texts)["input_ids"]
        truncated = bert(texts, truncation=True, max_length=length, padding="max_length")["input_ids"]
        as_text = bert("[SEP]", special_tokens_as_text=True)["input_ids"]
        return (
            [len(row) for row in plain] == [7, 3, 4]
            and {len(row) for row in truncated} == {length}
            and as_text != bert.encode("[SEP]")
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, [3 + i % 6 for i in range(400)]))


# ── keeping ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_save_that_the_disk_refuses_leaves_the_files_as_they_were(
    bert: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "saved"
    bert.save(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(handle: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("glassformer.files.atomic.os.fsync", full)
    with pytest.raises(DataError, match=r"cannot be written to .*: no space left on device"):
        bert.save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_save_and_read_back(bert: Tokenizer, gpt2: Tokenizer, tmp_path: Path) -> None:
    for name, tokenizer in (("bert", bert), ("gpt2", gpt2)):
        tokenizer.save(tmp_path / name)
        again = Tokenizer.from_folder(tmp_path / name)
        texts = [ARROW, "Don't! <|endoftext|> [MASK] ☃"]
        assert dict(again(texts, padding=True)) == dict(tokenizer(texts, padding=True))
        assert again.special_tokens == tokenizer.special_tokens
        assert again.model_max_length == tokenizer.model_max_length
        assert again.model_input_names == tokenizer.model_input_names
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        bert.save(tmp_path / "file")


def test_a_vocabulary_that_holds_a_special_token_as_a_piece(tmp_path: Path) -> None:
    import tokenizers
    from tokenizers import models, pre_tokenizers

    engine = tokenizers.Tokenizer(models.WordLevel({"</s>": 0, "a": 1, "<unk>": 2}, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.add_special_tokens(["</s>", "<unk>"])
    tokenizer = Tokenizer(engine)
    assert tokenizer.encode("a </s> b") == [1, 0, 2]
    with pytest.raises(UnsupportedError, match="cannot encode '</s>' as ordinary text"):
        tokenizer("a </s> b", special_tokens_as_text=True)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"pat_token": "[X]"}, "'pat_token' names no special token; nearest: 'pad_token'"),
        ({"sep_token": None}, "a new token is None"),
        ({"sep_token": ["[X]", "[Y]"]}, "sep_token is .*not in the vocabulary"),
    ],
)
def test_special_tokens_are_added_all_or_none(bert: Tokenizer, more: dict[str, object], problem: str) -> None:
    before = len(bert), dict(bert.special_tokens)
    with pytest.raises(ConfigError, match=problem):
        bert.add_special_tokens({"pad_token": "[P]", **more})
    assert (len(bert), bert.special_tokens) == before
    assert bert.add_special_tokens({"pad_token": "[P]", "additional_special_tokens": ["<a>", "<b>"]}) == 3
    assert (len(bert), bert.pad_token) == (before[0] + 3, "[P]")


def test_text_works_without_torch() -> None:
    """Counting tokens must not wait seconds for torch, and works where only the tokenizer is wanted."""
    code = (
        "import sys; from glassformer.text import Tokenizer; import tokenizers; from tokenizers import models;"
        "t = Tokenizer(tokenizers.Tokenizer(models.WordLevel({'a': 0}, unk_token='a')));"
        "t(['a'], return_tensors='np'); assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=300)


def test_a_continuation_begins_with_its_space(bert: Tokenizer) -> None:
    time, flies = bert.encode("time flies", add_special_tokens=False)
    assert bert.decode_continuation([time], [flies]) == " flies" and bert.decode([flies]) == "flies"
    assert bert.decode_continuation([], [time, flies]) == "time flies"


# ── its surface ──────────────────────────────────────────────────────────────────────────────────────────

OWN = """
    from_folder find find_target target
    encode batch_ids batch_pairs batch_words tokenize explain in_language
    decode decode_continuation convert_ids_to_tokens convert_tokens_to_ids convert_tokens_to_string
    apply_chat_template chat_prompt chat_template
    engine vocab_size largest_id get_vocab special_tokens special_ids prefix_and_suffix padding_id add_tokens
    add_special_tokens bos_token bos_token_id eos_token eos_token_id unk_token unk_token_id sep_token sep_token_id
    pad_token pad_token_id cls_token cls_token_id mask_token mask_token_id
    model_max_length padding_side truncation_side model_input_names is_bpe cleans_up save
"""
"""Every name of a tokenizer: docs/integrations.md says which names are of `glassformer.hf` alone."""


def test_a_tokenizer_has_these_names_and_no_base(bert: Tokenizer) -> None:
    assert Tokenizer.__mro__ == (Tokenizer, object)
    assert {name for name in vars(Tokenizer) if not name.startswith("_")} == set(OWN.split())
    assert {name for name in vars(bert) if not name.startswith("_")} == {"settings", "vocabulary", "chat"}
    with pytest.raises(AttributeError, match=r"has no 'batch_decode'; .*glassformer\.hf\.AutoTokenizer"):
        bert.batch_decode([[5]])


def test_a_copy_has_a_vocabulary_of_its_own(bert: Tokenizer) -> None:
    other = copy.copy(bert)
    other.pad_token = "time"
    assert other.add_tokens(["gear"]) == 1 and len(other) == len(bert) + 1 and bert.pad_token == "[PAD]"
