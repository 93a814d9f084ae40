"""The names of the reference library on a tokenizer: the same results, or what to write instead."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import decoders

from glassformer.errors import ConfigError, DataError, UnknownOptionError, UnsupportedError
from glassformer.hf.reference_tokenizer import INSTEAD, ReferenceTokenizer, as_reference_tokenizer
from glassformer.text import Tokenizer

transformers = pytest.importorskip("transformers", reason="needs the reference library: pip install 'glassformer[dev]'")

TEXT, OTHER = "Time flies like an arrow, doesn't it?", "Fruit flies like a banana."
TEXTS, OTHERS = [TEXT, "Once.", OTHER], [OTHER, "Upon a time.", "x y z"]
WORDS = [text.split() for text in TEXTS]
CHAT = [{"role": "user", "content": "Time?"}, {"role": "assistant", "content": "Flies."}]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{{ '>' if add_generation_prompt }}"

KINDS = ["wordpiece", "byte-bpe", "xlm-roberta", "t5", "llama"]


@pytest.fixture(scope="module")
def both(
    minilm: Path, gpt2_folder: Path, family_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[ReferenceTokenizer, Any]]:
    """A tokenizer of ours and the reference's of the same saved folder, both newly read: a test may change them."""
    saved: dict[str, Path] = {}

    def read(kind: str) -> tuple[ReferenceTokenizer, Any]:
        if kind not in saved:
            known = {"wordpiece": minilm, "byte-bpe": gpt2_folder}
            saved[kind] = tmp_path_factory.mktemp("saved") / kind
            Tokenizer.from_folder(known[kind] if kind in known else family_folder(kind)).save(saved[kind])
        ours = ReferenceTokenizer.from_pretrained(saved[kind])
        theirs = transformers.AutoTokenizer.from_pretrained(saved[kind])
        for tokenizer in (ours, theirs):
            if tokenizer.pad_token is None:
                tokenizer.pad_token = tokenizer.eos_token
        return ours, theirs

    return read


def plain(value: Any) -> Any:
    """A result as lists, numbers and texts."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "items"):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


CALLS: list[Callable[[Any], Any]] = [
    lambda t: t(TEXT),
    lambda t: t(text=TEXT, text_pair=OTHER),
    lambda t: t(TEXTS, OTHERS, padding=True, truncation=True, max_length=12, return_tensors="pt"),
    lambda t: t(TEXTS, padding="max_length", max_length=40, return_tensors="np", padding_side="left"),
    lambda t: t(TEXTS, padding=True, pad_to_multiple_of=8, return_length=False),
    lambda t: t(TEXTS, truncation="do_not_truncate", padding="do_not_pad"),
    lambda t: t(TEXTS, add_special_tokens=False, return_attention_mask=False),
    lambda t: t(TEXT, OTHER, return_token_type_ids=True, return_special_tokens_mask=True),
    lambda t: t(TEXTS, padding=True, return_offsets_mapping=True, return_special_tokens_mask=True, return_tensors="pt"),
    lambda t: t(OTHER, TEXT, truncation="only_second", max_length=36, stride=2, return_overflowing_tokens=True),
    lambda t: t(
        TEXTS, truncation=True, max_length=9, stride=1, return_overflowing_tokens=True, return_offsets_mapping=True
    ),
    lambda t: t(WORDS[0], is_split_into_words=True),
    lambda t: t(WORDS, is_split_into_words=True, padding=True, truncation=True, max_length=9, return_tensors="pt"),
    lambda t: t(WORDS, [words[:2] for words in WORDS], is_split_into_words=True, return_offsets_mapping=True),
    lambda t: [t(WORDS, is_split_into_words=True).word_ids(i) for i in range(3)],
    lambda t: t(TEXT).word_ids(),
    lambda t: t(TEXT, OTHER).sequence_ids(0),
    lambda t: t(TEXTS).tokens(1),
    lambda t: [t(TEXT).char_to_token(i) for i in range(len(TEXT)) if TEXT[i] != " "],
    lambda t: [t(TEXTS, OTHERS).char_to_token(2, i, 1) for i in (0, 2, 4)],
    lambda t: [t(TEXT).token_to_chars(i) for i in range(2, 6)],
    lambda t: t(TEXTS).token_to_word(2, 3),
    lambda t: t(TEXT, OTHER).token_to_sequence(2),
    lambda t: t(TEXT).word_to_tokens(2),
    lambda t: t(TEXT).word_to_chars(0),
    lambda t: t(TEXT).char_to_word(7),
    lambda t: t(TEXTS, padding=True, return_tensors="pt").to("cpu"),
    lambda t: sorted({**t(TEXTS, padding=True, return_tensors="pt")}),
    lambda t: t(TEXTS).input_ids,
    lambda t: t(text_target=OTHERS),
    lambda t: t(TEXTS, text_target=OTHERS)["labels"],
    lambda t: t.encode(TEXT),
    lambda t: t.encode(TEXT, OTHER, truncation=True, max_length=9, return_tensors="pt"),
    lambda t: t.tokenize(TEXT),
    lambda t: t.tokenize(TEXT, add_special_tokens=True),
    lambda t: t.convert_ids_to_tokens(t(TEXT).input_ids),
    lambda t: t.convert_ids_to_tokens(t(TEXT).input_ids, skip_special_tokens=True),
    lambda t: t.convert_tokens_to_ids(t.tokenize(TEXT)),
    lambda t: t.convert_tokens_to_string(t.tokenize(TEXT)),
    lambda t: t.decode(t(TEXT).input_ids),
    lambda t: t.decode(t(TEXT).input_ids, skip_special_tokens=True, clean_up_tokenization_spaces=True),
    lambda t: t.decode(t(TEXTS).input_ids),
    lambda t: t.batch_decode(t(TEXTS, padding=True, return_tensors="pt").input_ids, skip_special_tokens=True),
    lambda t: t.batch_decode(t(TEXTS).input_ids, clean_up_tokenization_spaces=False),
    lambda t: (t.vocab_size, len(t), t.is_fast),
    lambda t: (t.get_vocab(), t.vocab["s"], t.get_added_vocab()),
    lambda t: (t.pad_token, t.pad_token_id, t.unk_token_id, t.eos_token, t.cls_token_id, t.mask_token),
    lambda t: [token for token in sorted(t.all_special_tokens) if "<extra_id_" not in token],
    lambda t: len(t.all_special_ids) == len(t.all_special_tokens),
    lambda t: dict(t.special_tokens_map)["unk_token"],
    lambda t: sorted(t.added_tokens_decoder),
    lambda t: t.backend_tokenizer.get_vocab_size(),
    lambda t: (t.num_special_tokens_to_add(), t.num_special_tokens_to_add(pair=True)),
    lambda t: t.pad([t(text) for text in TEXTS], padding=True, return_tensors="pt"),
    lambda t: t.pad({"input_ids": [[5, 6], [7]]}, padding="max_length", max_length=5, pad_to_multiple_of=4),
    lambda t: t.pad([{"input_ids": torch.tensor([5, 6])}, {"input_ids": np.array([7])}], return_tensors="np"),
    lambda t: t.pad({"input_ids": [5, 6, 7]}, padding="max_length", max_length=5),
    lambda t: t.apply_chat_template(CHAT, chat_template=TEMPLATE, tokenize=False, add_generation_prompt=True),
    lambda t: t.apply_chat_template([CHAT, CHAT[:1]], chat_template=TEMPLATE, padding=True, return_tensors="pt"),
]

CHANGES: list[Callable[[Any], Any]] = [
    lambda t: (setattr(t, "padding_side", "left"), t(TEXTS, padding=True)),
    lambda t: (setattr(t, "truncation_side", "left"), t(TEXTS, truncation=True, max_length=6)),
    lambda t: (setattr(t, "model_max_length", 5), t(TEXTS, truncation=True)),
    lambda t: (setattr(t, "pad_token", t.unk_token), t.pad_token_id, t(TEXTS, padding=True)),
    lambda t: (setattr(t, "pad_token_id", 7), t.pad_token, t(TEXTS, padding=True)),
    lambda t: (setattr(t, "chat_template", TEMPLATE), t.apply_chat_template(CHAT, tokenize=False)),
    lambda t: (t.add_tokens(["gearbox", "<x>"]), len(t), t.tokenize("a gearbox <x>b"), t.add_tokens("<x>")),
    lambda t: (t.add_tokens(["<y>"], special_tokens=True), t.decode(t("a <y>").input_ids, skip_special_tokens=True)),
    lambda t: (t.add_special_tokens({"pad_token": "[P]", "additional_special_tokens": ["[X]"]}), t.pad_token_id),
    lambda t: (t.add_special_tokens({"bos_token": "[B]"}), t.bos_token, t("[B] time").input_ids),
]


@pytest.mark.parametrize("kind", KINDS)
def test_as_the_reference(both: Callable[[str], tuple[ReferenceTokenizer, Any]], kind: str) -> None:
    ours, theirs = both(kind)
    for number, call in enumerate(CALLS):
        assert plain(call(ours)) == plain(call(theirs)), f"call {number}"


@pytest.mark.parametrize("number", range(len(CHANGES)))
@pytest.mark.parametrize("kind", ["byte-bpe", "xlm-roberta"])
def test_changed_as_the_reference(
    both: Callable[[str], tuple[ReferenceTokenizer, Any]], kind: str, number: int
) -> None:
    ours, theirs = (plain(CHANGES[number](tokenizer)) for tokenizer in both(kind))
    assert ours == theirs


@pytest.fixture
def bert(bert_folder: Path) -> ReferenceTokenizer:
    return ReferenceTokenizer.from_pretrained(bert_folder)


def test_padding_leaves_the_mask_out_where_asked_to(bert: ReferenceTokenizer) -> None:
    rows = [bert(text) for text in TEXTS]
    assert "attention_mask" in rows[0] and "attention_mask" in bert.pad(rows)
    for given in (rows, [{"input_ids": row["input_ids"]} for row in rows]):
        padded = bert.pad(given, return_attention_mask=False, return_tensors="pt")
        assert "attention_mask" not in padded and len(padded["input_ids"]) == len(TEXTS)


def test_a_special_token_that_is_set_counts_everywhere(bert: ReferenceTokenizer, tmp_path: Path) -> None:
    bert.pad_token = "[MASK]"
    assert bert(["time flies", "time"], padding=True).input_ids[1] == [2, 5, 3, bert.mask_token_id]
    assert bert.padding_id == bert.pad_token_id == bert.mask_token_id == 4
    bert.pad_token = tokenizers.AddedToken("time")  # an ordinary token becomes a special one
    assert bert.pad_token_id == 5 and 5 in bert.special_ids
    bert.pad_token = None
    assert bert.pad_token_id is None
    bert.pad_token_id, bert.padding_side, bert.model_max_length = 0, "left", 9
    bert.save_pretrained(tmp_path / "saved")
    again = ReferenceTokenizer.from_pretrained(tmp_path / "saved", use_fast=True)
    assert (again.pad_token, again.padding_side, again.model_max_length) == ("[PAD]", "left", 9)


def test_added_tokens_leave_running_calls_alone(bert: ReferenceTokenizer) -> None:
    engine, before = bert.engine, bert("time flies").input_ids
    assert bert.add_tokens(["gear"]) == 1 and bert.add_tokens(["gear"]) == 0
    assert bert.engine is not engine and engine.token_to_id("gear") is None
    assert bert("time gear").input_ids == [2, 5, 28, 3] and len(bert) == 29 and bert.vocab_size == 28
    assert bert("time flies").input_ids == before and bert.decode([28]) == "gear"
    assert bert.add_special_tokens({"additional_special_tokens": ["[X]", "[Y]"]}) == 2
    assert bert.additional_special_tokens == ["[X]", "[Y]"] and bert.decode([29], skip_special_tokens=True) == ""
    for other in (copy.deepcopy(bert), pickle.loads(pickle.dumps(bert))):
        assert other("time gear [X]").input_ids == [2, 5, 28, 29, 3]


def test_clean_up_of_spaces_as_the_folder_says(bert_folder: Path, both: Callable[[str], tuple[Any, Any]]) -> None:
    ids = Tokenizer.from_folder(bert_folder)("don't fly, time!").input_ids
    config = json.loads((bert_folder / "tokenizer_config.json").read_text())
    texts = []
    for cleans in (False, True):
        config["clean_up_tokenization_spaces"] = cleans
        (bert_folder / "tokenizer_config.json").write_text(json.dumps(config))
        tokenizer = ReferenceTokenizer.from_pretrained(bert_folder)
        tokenizer.engine.decoder = decoders.WordPiece(cleanup=False)
        texts.append(tokenizer.decode(ids, skip_special_tokens=True))
        assert tokenizer.batch_decode([ids], clean_up_tokenization_spaces=True) == [tokenizer.decode(ids, False, True)]
    assert texts == ["don ' t , time !", "don't, time!"]
    ours, _ = both("byte-bpe")  # has the text's own spaces
    assert ours.decode(ours("a , b").input_ids, clean_up_tokenization_spaces=True) == "a , b"


def test_an_encoding_is_a_mapping_that_can_be_changed(bert: ReferenceTokenizer) -> None:
    encoding = bert("time flies", text_target="a banana")
    encoding["extra"] = [1]
    assert encoding.pop("labels") == bert("a banana").input_ids and encoding.extra == [1]
    assert sorted(encoding) == ["attention_mask", "extra", "input_ids", "token_type_ids"]
    assert copy.deepcopy(encoding).tokens() == pickle.loads(pickle.dumps(encoding)).tokens() == encoding.tokens()
    assert encoding.char_to_token(4) is None and encoding.token_to_chars(0) is None
    with pytest.raises(ConfigError, match="return_tensors='pt'"):
        encoding.to("cpu")
    with pytest.raises(AttributeError, match="its keys are input_ids"):
        _ = encoding.labels
    for wrong in (
        lambda: encoding.token_to_word(99),
        lambda: encoding.token_to_chars(1, 0),
        lambda: encoding.tokens(3),
    ):
        with pytest.raises(DataError, match="there is no"):
            wrong()


@pytest.mark.parametrize("name", INSTEAD)
def test_what_there_is_not_says_what_to_write_instead(bert: ReferenceTokenizer, name: str) -> None:
    with pytest.raises(AttributeError, match=f"a Tokenizer has no '{name}'; write "):
        getattr(bert, name)


REFUSED: list[tuple[Callable[[ReferenceTokenizer], Any], type[Exception], str]] = [
    (lambda t: t.no_such_name, AttributeError, "has no 'no_such_name'$"),
    (lambda t: setattr(t, "pad_token", "[NONE]"), ConfigError, r"not in the vocabulary; add it first: .*resize_token"),
    (lambda t: setattr(t, "pad_token", 5), ConfigError, "pad_token is 5"),
    (lambda t: setattr(t, "pad_token_id", 999), DataError, "id 999 is not in the vocabulary"),
    (lambda t: setattr(t, "padding_side", "top"), ConfigError, "must be 'left' or 'right'"),
    (lambda t: setattr(t, "model_max_length", 0), ConfigError, "a number of tokens from 1"),
    (lambda t: setattr(t, "chat_template", 5), ConfigError, "must be text, or texts by name"),
    (lambda t: t.add_tokens([5]), ConfigError, "a new token is 5"),
    (lambda t: t.add_tokens([""]), ConfigError, "not empty"),
    (lambda t: t.add_special_tokens({"pad_tokn": "x"}), ConfigError, "names no special token; nearest: 'pad_token'"),
    (lambda t: t(), DataError, "texts must be a string"),
    (lambda t: t(None), DataError, "texts must be a string"),
    (lambda t: t(5, is_split_into_words=True), DataError, "lists of words"),
    (lambda t: t("a b", is_split_into_words=True), DataError, r"text\.split"),
    (lambda t: t([["a"], 5], is_split_into_words=True), DataError, "texts must be"),
    (lambda t: t([["a"]], [["b"], ["c"]], is_split_into_words=True), DataError, "got 1 texts and 2 pairs"),
    (lambda t: t(["\ud800", "a"], is_split_into_words=True), DataError, "half of a surrogate pair"),
    (lambda t: t("a", return_tensors="tf"), ConfigError, "return_tensors='tf' is not known"),
    (lambda t: t("a", padding=True, pad_to_multiple_of=0), ConfigError, "pad_to_multiple_of is 0; it must be"),
    (lambda t: t.pad(t("a"), pad_to_multiple_of="8"), ConfigError, "pad_to_multiple_of is '8'; it must be"),
    (lambda t: t.pad(t("a"), padding="max_length", max_length=-1), ConfigError, "max_length is -1; it must be"),
    (lambda t: t.pad(t("a"), padding="max_length", max_length=10**12), ConfigError, "1,000,000,000,000 tokens"),
    (lambda t: t.pad(["a"]), DataError, "rows to pad have 'input_ids'"),
    (lambda t: t.pad({"ids": [1]}), DataError, "rows to pad have 'input_ids'"),
    (lambda t: t.pad([]), DataError, "rows to pad have 'input_ids'"),
    (lambda t: t.pad({"input_ids": [[1]]}, padding="all"), ConfigError, "padding='all' is not known"),
    (lambda t: t.decode([999999]), DataError, "far beyond the vocabulary of 28 tokens"),
    (lambda t: t.batch_decode(5), DataError, "ids"),
    (
        lambda t: t.apply_chat_template(CHAT, return_assistant_tokens_mask=True, tokenize=False),
        ConfigError,
        "leave out continue_final_message, tokenize=False",
    ),
    (lambda t: t.apply_chat_template(CHAT, tokenizer_kwargs={}), UnsupportedError, "give padding, truncation"),
    (
        lambda t: t.save_pretrained("x", push_to_hub=True),
        UnsupportedError,
        r"takes no push_to_hub: .*\(NAME",
    ),
    (lambda t: t("a", lenght=3), UnknownOptionError, "a tokenizer takes no 'lenght'"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(
    bert: ReferenceTokenizer, call: Callable[[ReferenceTokenizer], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(bert)


def test_it_wraps_a_tokenizer_and_shares_what_is_set(bert: ReferenceTokenizer, tmp_path: Path) -> None:
    own, same = bert.inner, as_reference_tokenizer(bert)
    assert same is bert and ReferenceTokenizer.__mro__ == (ReferenceTokenizer, object)
    bert.padding_side, own.model_max_length = "left", 7
    assert own.padding_side == "left" and bert.model_max_length == 7
    bert.name_or_path, bert.note = "mine", 3
    assert (
        not hasattr(own, "note") and not hasattr(own, "name_or_path") and (bert.name_or_path, bert.note) == ("mine", 3)
    )
    for other in (copy.copy(bert), copy.deepcopy(bert), pickle.loads(pickle.dumps(bert))):
        other.pad_token, other.padding_side = "time", "right"
        other.add_tokens(["gear"])
        assert (other.name_or_path, other.note, len(other)) == ("mine", 3, len(bert) + 1)
    assert (bert.pad_token, bert.padding_side, len(bert)) == ("[PAD]", "left", 28)
    assert bert.inner("time", padding=True) == bert("time", pad_to_max_length=True, verbose=False)
    assert "ReferenceTokenizer(name_or_path='mine', vocab_size=28" in repr(bert)


def test_trained_on_other_texts_it_keeps_the_chat_template(bert: ReferenceTokenizer) -> None:
    bert.chat_template = TEMPLATE
    other = bert.train_new_from_iterator(TEXTS * 2, vocab_size=60, new_special_tokens=["<user>"])
    assert isinstance(other, ReferenceTokenizer) and other.chat_template == TEMPLATE
    assert other.special_tokens_map == bert.special_tokens_map and other.tokenize("<user>") == ["<user>"]
    assert other.model_max_length == 512 and other.tokenize("Time") != bert.tokenize("Time")


def test_a_warning_points_to_the_callers_line(bert: ReferenceTokenizer) -> None:
    for tokenizer in (bert, bert.inner):
        with pytest.warns(UserWarning, match="max_length=3 truncates") as warned:
            tokenizer("time flies like an arrow", max_length=3)
        assert warned[0].filename == __file__
