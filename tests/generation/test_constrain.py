"""What is said matches, for every kind of tokenizer and method; exactly what can lead to a match may follow."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from glassformer import ConfigError, DataError, MissingExtraError, Model, UnsupportedError, load
from glassformer.generation.constrain import Constraint, Grammar, choices, json_schema, regex
from glassformer.models import FAMILIES
from glassformer.text.tokenizer import Tokenizer

pytest.importorskip("llguidance", reason="needs llguidance: pip install 'glassformer[constrain]'")

END = "</s>"
BYTES = [f"<0x{number:02X}>" for number in range(256)]
TRAINED_ON = ["It was a fine day, and Zoë said: the dog is 12 years old!", '{"name": "Ana", "age": 3}'] * 3


def byte_level() -> Engine:
    """As GPT-2's."""
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    engine.train_from_iterator(
        TRAINED_ON, trainers.BpeTrainer(vocab_size=330, special_tokens=[END], initial_alphabet=alphabet)
    )
    return engine


def byte_fallback() -> Engine:
    """As Llama's: a space that begins a text is left out, and what has no piece is said in bytes."""
    pieces = [
        "<unk>",
        END,
        *BYTES,
        "▁",
        "▁▁",
        "▁the",
        "▁d",
        "og",
        *"abcdefghijklmnopqrstuvwxyz",
        "é",
        "▁é",
        '▁{"',
        "�",
    ]
    engine = Engine(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>", byte_fallback=True))
    engine.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    engine.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    engine.add_special_tokens(["<unk>", END])
    return engine


def metaspace() -> Engine:
    """As T5's: pieces with a mark for spaces, and no way to say what has none."""
    pieces = [END, "<unk>", "▁", "▁the", "▁dog", "s", *"abcdefghijklmnopqrstuvwxyz0123456789,.-"]
    engine = Engine(models.Unigram([(piece, -1.0) for piece in dict.fromkeys(pieces)], unk_id=1))
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    engine.decoder = decoders.Metaspace()
    engine.add_special_tokens([END, "<unk>"])
    return engine


def word_piece() -> Engine:
    """As BERT's: a space before each token but those that go on with a word."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789é"
    pieces = ["[UNK]", END, "the", "dog", "##s", *letters, *("##" + x for x in letters), *'.,!-{}":[]']
    engine = Engine(models.WordPiece({p: i for i, p in enumerate(dict.fromkeys(pieces))}, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(cleanup=True)
    engine.add_special_tokens(["[UNK]", END])
    return engine


KINDS: dict[str, Callable[[], Engine]] = {
    "byte level": byte_level,
    "byte fallback": byte_fallback,
    "metaspace": metaspace,
    "word piece": word_piece,
}


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {kind: Tokenizer(make()) for kind, make in KINDS.items()}


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers[request.param]


def tiny(family: str, task: str, tokenizer: Tokenizer, seed: int = 4) -> Model:
    """A random model, the harshest test: it would say anything. Its embedding has more rows than there are tokens."""
    torch.manual_seed(seed)
    end = tokenizer.convert_tokens_to_ids(END)
    config = FAMILIES[family].tiny | {
        "vocab_size": len(tokenizer) + 5,
        "eos_token_id": end,
        "pad_token_id": end,
    }
    room = {"n_positions": 120, "max_position_embeddings": 120}
    model = Model.from_config(
        {**config, **room} | {"bos_token_id": end, "decoder_start_token_id": end},
        task=task,
        tokenizer=tokenizer,
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def constrained(tokenizer: Tokenizer, grammar: Grammar, spare: int = 5) -> Constraint:
    end = tokenizer.convert_tokens_to_ids(END)
    return Constraint(grammar, tokenizer, vocabulary=len(tokenizer) + spare, prompt_length=1, stop_ids=[end])


def allowed(constraint: Constraint, tokens: list[int], vocabulary: int) -> list[int]:
    """What may follow."""
    logits = constraint(torch.tensor([[0, *tokens]]), torch.zeros(1, vocabulary))
    return logits[0].isfinite().nonzero()[:, 0].tolist()


# ------------------------------------------------------------------------------------------- exactly what may follow


Language = tuple[str, frozenset[str]]


def joined(parts: list[Language]) -> Language:
    texts = {""}
    for _, more in parts:
        texts = {a + b for a in texts for b in more}
    return "".join(f"(?:{pattern})" for pattern, _ in parts), frozenset(texts)


def either(parts: list[Language]) -> Language:
    return "|".join(f"(?:{pattern})" for pattern, _ in parts), frozenset().union(*(texts for _, texts in parts))


def repeated(part: Language, least: int, more: int) -> Language:
    counts = [joined([part] * count)[1] for count in range(least, least + more + 1)]
    return f"(?:{part[0]}){{{least},{least + more}}}", frozenset().union(*counts)


LETTERS = st.sampled_from(["a", "é", " ", "dog", "the ", "[ab]", "."]).map(
    lambda x: ("[ab]", frozenset("ab")) if x == "[ab]" else (re.escape(x), frozenset([x]))
)
EXPRESSIONS = st.recursive(
    LETTERS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(joined),
        st.lists(inner, min_size=1, max_size=3).map(either),
        st.tuples(inner, st.integers(0, 1), st.integers(0, 1)).map(lambda x: repeated(*x)),
    ),
    max_leaves=4,
).filter(lambda language: len(language[1]) < 60)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(language=EXPRESSIONS, seed=st.integers(0, 9))
def test_exactly_the_tokens_that_can_lead_to_a_match(language: Language, seed: int) -> None:
    """Against all texts of the language: a token may follow if, and only if, one of them begins so."""
    pattern, texts = language
    assert all(re.fullmatch(pattern, text) for text in texts)
    for make in (byte_fallback, byte_level):
        tokenizer = KNOWN.setdefault(make.__name__, Tokenizer(make()))
        end, vocabulary = tokenizer.convert_tokens_to_ids(END), len(tokenizer)
        constraint = constrained(tokenizer, regex(pattern), spare=0)
        wanted = {text.encode() for text in texts}
        draw, tokens = torch.Generator().manual_seed(seed), list[int]()
        first, later = spelled(tokenizer)
        while True:
            before = first[tokens[0]] + b"".join(later[token] for token in tokens[1:]) if tokens else b""
            adds = later if tokens else first
            expected = [
                token
                for token in range(vocabulary)
                if (adds[token] or later[token]) and any(text.startswith(before + adds[token]) for text in wanted)
            ]
            expected += [end] if before in wanted else []
            assert allowed(constraint, tokens, vocabulary) == sorted(expected)
            token = expected[int(torch.randint(len(expected), (), generator=draw))]
            if token == end:
                break
            tokens.append(token)
        assert tokenizer.decode(tokens) in texts


KNOWN: dict[str, Tokenizer] = {}


def spelled(tokenizer: Tokenizer) -> tuple[list[bytes], list[bytes]]:
    from glassformer.text.token_bytes import token_bytes

    first, later = token_bytes(tokenizer, len(tokenizer))
    return first, later


# --------------------------------------------------------------------------------------------- what models then write


PATTERNS = [
    "[0-9]{1,3}( [a-z]{2,4}){0,2}",
    "(the|a) (dog|cat)( and (a|the) (dog|cat)){0,2}",
    "(?i:the) dog|[^a-z\n]{2,3}",
    "[a-c]+d?",
]
METHODS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampling": {"do_sample": True, "seed": 3, "num_return_sequences": 3},
    "cut sampling": {"do_sample": True, "seed": 3, "top_k": 2, "temperature": 0.7},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "drawn beams": {"num_beams": 3, "do_sample": True, "seed": 5},
    "groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
}
PAIRS = {"gpt2": "text-generation", "bart": "translation"}


@pytest.mark.parametrize("family", PAIRS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_random_model_matches(tokenizer: Tokenizer, family: str, pattern: str) -> None:
    model = tiny(family, PAIRS[family], tokenizer)
    begun = 4 if family == "gpt2" else 1
    ids = torch.tensor([[9, 8, 7, 6], [5, 5, 5, 5]])
    ended = 0
    for constraints in METHODS.values() if family == "gpt2" else ({}, METHODS["sampling"], METHODS["beams"]):
        result = model.generate(ids, max_new_tokens=16, regex=pattern, return_scores=True, **constraints)
        for row, reason in zip(result.ids[:, begun:].tolist(), result.reasons, strict=True):
            text = tokenizer.decode(row, skip_special_tokens=True)
            assert reason == "max_new_tokens" or re.fullmatch(pattern, text), (constraints, text)
            ended += reason == "end_token"
    assert ended or pattern == "[a-c]+d?"


def person(x: Any) -> bool:
    return list(x) == ["name", "age"] and len(x["name"]) <= 6 and 1 <= x["age"] <= 120


SCHEMAS: dict[str, tuple[dict[str, Any], Callable[[Any], bool]]] = {
    "enum": ({"enum": ["Zoë", 12, None, True]}, lambda x: x in ("Zoë", 12, None, True)),
    "object": (
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 6},
                "age": {"type": "integer", "minimum": 1, "maximum": 120},
            },
            "required": ["name", "age"],
            "additionalProperties": False,
        },
        person,
    ),
    "array": (
        {"type": "array", "items": {"enum": ["é", 2]}, "minItems": 1, "maxItems": 3},
        lambda x: 1 <= len(x) <= 3 and all(item in ("é", 2) for item in x),
    ),
    "nested": (
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/b"}, "maxItems": 2}},
            "required": ["a"],
            "additionalProperties": False,
            "$defs": {"b": {"type": "object", "properties": {}, "additionalProperties": False}},
        },
        lambda x: list(x) == ["a"] and x["a"] in ([], [{}], [{}, {}]),
    ),
    "number": ({"type": "number", "minimum": -2, "maximum": 2}, lambda x: -2 <= x <= 2),
}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("kind", ["byte level", "byte fallback"])
def test_json(tokenizers: dict[str, Tokenizer], kind: str, schema: str) -> None:
    model = tiny("gpt2", "text-generation", tokenizers[kind])
    constraints, fits = SCHEMAS[schema]
    ended = 0
    for given_as in (constraints, json.dumps(constraints)):
        for method in (METHODS["sampling"] | {"num_return_sequences": 6}, METHODS["beams"]):
            result = model.generate("the dog", max_new_tokens=60, json_schema=given_as, return_scores=True, **method)
            for text, reason in zip(result.texts, result.reasons, strict=True):
                if reason == "end_token":
                    assert fits(json.loads(text)), text
                    assert schema == "number" or json.dumps(json.loads(text), ensure_ascii=False) == text
                    ended += 1
    assert ended


@pytest.mark.parametrize("constraints", METHODS.values(), ids=METHODS)
def test_choices(tokenizer: Tokenizer, constraints: dict[str, Any]) -> None:
    model = tiny("gpt2", "text-generation", tokenizer)
    texts = ["dog", "dogs", "the a", "a"]
    result = model.generate("the", max_new_tokens=20, choices=texts, return_scores=True, **constraints)
    assert set(result.texts) <= set(texts) and set(result.reasons) == {"end_token"}


def test_choices_are_no_expressions(tokenizers: dict[str, Tokenizer]) -> None:
    model = tiny("gpt2", "text-generation", tokenizers["byte level"])
    odd = ["a.b|c", "(x)", "é\n\\d", "-/#&~ \"'", "[^]"]
    for text in odd:
        assert model.generate("the", max_new_tokens=40, choices=[text]) == text


def test_a_stream_is_the_text(tokenizer: Tokenizer) -> None:
    model = tiny("gpt2", "text-generation", tokenizer)
    constraints: dict[str, Any] = {"regex": PATTERNS[1], "max_new_tokens": 40}
    assert "".join(model.stream("the", **constraints)) == model.generate("the", **constraints)


def test_a_row_does_not_depend_on_its_batch(tokenizers: dict[str, Tokenizer]) -> None:
    model = tiny("gpt2", "text-generation", tokenizers["byte level"])
    ids, mask = torch.tensor([[9, 8, 7, 6], [0, 0, 5, 5]]), torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    for constraints in ({}, {"num_beams": 3}):
        limits = {"regex": PATTERNS[0], "max_new_tokens": 20, **constraints}
        together = model.generate(ids, attention_mask=mask, **limits)[:, 4:]
        for row, begun in ((0, 0), (1, 2)):
            alone = model.generate(ids[row, None, begun:], **limits)[0, 4 - begun :]
            assert together[row, : len(alone)].equal(alone)


def test_draws_are_renormalised_at_each_step(tokenizers: dict[str, Tokenizer]) -> None:
    """What begins one of two words is drawn as often as its share of all that does."""
    tokenizer = tokenizers["word piece"]
    model = tiny("gpt2", "text-generation", tokenizer)
    ids = torch.tensor([[3, 4]])
    begin = [tokenizer.convert_tokens_to_ids(word) for word in ("the", "dog", "t", "d")]
    result = model.generate(
        ids, choices=["the", "dog"], do_sample=True, seed=1, num_return_sequences=2_000, max_new_tokens=1
    )
    expected = model(ids).logits[0, -1, begin].softmax(-1) * 2_000
    counted = torch.tensor([(result[:, -1] == token).sum() for token in begin])
    assert counted.sum() == 2_000
    assert ((counted - expected) ** 2 / expected).sum() < 16.3  # chi-squared, 3 degrees of freedom, 1 in 1,000


def test_stories(shared: Path) -> None:
    model = load(shared / "models" / "stories260k")
    prompt = "Once upon a time, there was a girl named"
    for constraints in METHODS.values():
        result = model.generate(prompt, regex="[A-Z][a-z]+( [a-z]+){2}\\.", max_new_tokens=40, **constraints)
        for text in [result] if isinstance(result, str) else result:
            assert re.fullmatch("[A-Z][a-z]+( [a-z]+){2}\\.", text), text
    assert model.generate(prompt, choices=["Lily", "Robespierre"]) == "Lily"


# ------------------------------------------------------------------------------------------------------------- its ends


def test_a_match_that_cannot_go_on_ends(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["byte level"]
    end, vocabulary = tokenizer.convert_tokens_to_ids(END), len(tokenizer) + 5
    dog, s = tokenizer.encode("dog"), tokenizer.encode("s")
    whole = constrained(tokenizer, regex("dog"))
    assert allowed(whole, dog, vocabulary) == [end]
    assert end not in allowed(whole, dog[:-1], vocabulary) if len(dog) > 1 else True
    open_ended = constrained(tokenizer, regex("dogs*"))
    assert set(allowed(open_ended, dog, vocabulary)) >= {end, *s}
    assert allowed(constrained(tokenizer, regex("")), [], vocabulary) == [end]
    assert allowed(whole, [*dog, end, 7], vocabulary) == list(range(vocabulary)), "it has ended: nobody asks"
    assert allowed(whole, [*dog, *dog], vocabulary) == [], "it is lost"


def test_states_are_found_again_in_any_order(tokenizers: dict[str, Tokenizer]) -> None:
    """Rows that are reordered, copied, taken back: the answer depends on the ids alone."""
    tokenizer = tokenizers["byte level"]
    vocabulary, draw = len(tokenizer) + 5, torch.Generator().manual_seed(2)
    constraint = constrained(tokenizer, regex("[a-z]+( [a-z]+){0,3}"))
    rows = [tokenizer.encode(text) for text in ("the dog", "a dog is old", "dogs", "a b c d")]
    for _ in range(60):
        row = rows[int(torch.randint(4, (), generator=draw))]
        tokens = row[: int(torch.randint(len(row) + 1, (), generator=draw))]
        fresh = constrained(tokenizer, regex("[a-z]+( [a-z]+){0,3}"))
        assert allowed(constraint, tokens, vocabulary) == allowed(fresh, tokens, vocabulary)


def test_it_is_cut_where_there_is_no_more_room(tokenizers: dict[str, Tokenizer]) -> None:
    model = tiny("gpt2", "text-generation", tokenizers["byte level"])
    result = model.generate("the", regex="a{30}", max_new_tokens=5, return_scores=True)
    assert result.reasons == ["max_new_tokens"] and re.fullmatch("a{5,29}", result.texts[0])
    result = model.generate("the", regex="a{30}", max_new_tokens=5, return_scores=True, num_beams=3)
    assert result.reasons == ["max_new_tokens"]


def test_a_forced_end_does_not_belie_it(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["byte level"]
    model = tiny("bart", "translation", tokenizer)
    model.config["forced_eos_token_id"] = tokenizer.convert_tokens_to_ids(END)
    result = model.generate("the", regex="a{30}", max_new_tokens=5, return_scores=True)
    assert result.reasons == ["max_new_tokens"] and set(result.texts[0]) == {"a"}


def test_a_forced_beginning_is_no_text(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["metaspace"]
    model = tiny("bart", "translation", tokenizer)
    model.config["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids("<unk>")
    result = model.generate("the", regex="the dogs?", max_new_tokens=9, return_scores=True)
    assert result.new_ids[0, 0] == model.config["forced_bos_token_id"]
    assert result.texts[0] in ("the dog", "the dogs")


# ---------------------------------------------------------------------------------------------------------- bad input


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"regex": "["}, r"regex '\[' cannot be used: unclosed character class"),
        ({"regex": "(?=a)b"}, "look-around, including look-ahead and look-behind, is not supported"),
        ({"regex": r"(a)\1"}, "backreferences are not supported"),
        ({"regex": r"\bdog"}, "cannot be used"),
        ({"regex": "(" * 300 + "a" + ")" * 300}, "maximum number of nested parentheses"),
        ({"regex": r"[^\x00-\U0010ffff]"}, "no text that regex .* allows can begin"),
        ({"regex": "a\\"}, "it ends with a backslash"),
        ({"regex": "\ud800"}, r"regex '\\ud800' is invalid Unicode"),
        ({"choices": ["\ud800"]}, r"choices \['\\ud800'\] is invalid Unicode"),
        ({"json_schema": {"const": "\ud800"}}, "json_schema cannot be used"),
        ({"regex": 3}, "regex is 3; it must be a regular expression"),
        ({"json_schema": "{"}, "json_schema is invalid JSON: "),
        ({"json_schema": "[1]"}, r"json_schema is \[1\]; a schema is an object"),
        ({"json_schema": 3}, "json_schema is 3; it must be a JSON schema: a dict, or JSON text"),
        ({"json_schema": {"a": {1}}}, "json_schema is invalid JSON: Object of type set"),
        ({"json_schema": deep(3_000)}, "json_schema is invalid JSON: maximum recursion depth"),
        ({"json_schema": deep(200)}, "json_schema cannot be used: .*recursion limit"),
        ({"json_schema": "[" * 100_000}, "json_schema is invalid JSON: maximum recursion depth"),
        ({"json_schema": {"type": "strnig"}}, "Invalid type: strnig"),
        ({"json_schema": {"not": {"type": "string"}}}, 'Unimplemented keys: \\["not"\\]'),
        ({"json_schema": {"type": "integer", "minimum": 5, "maximum": 3}}, "Unsatisfiable schema: minimum"),
        ({"json_schema": {"enum": []}}, "Unsatisfiable schema"),
        ({"json_schema": {"$ref": "#"}}, "no text that json_schema allows can begin"),
        ({"json_schema": {"$ref": "https://example.com/x"}}, "cannot be used: .*example"),
        ({"choices": []}, "choices is \\[\\]; it must be a list of texts, none of them empty"),
        ({"choices": "yes"}, "choices is 'yes'; it must be a list of texts"),
        ({"choices": ["yes"], "regex": "a"}, "regex and choices are given; one text matches one of them"),
        ({"regex": "a", "min_new_tokens": 9}, r"no token is allowed as token \d+ of a row: .*regex"),
        ({"regex": "a", "bad_words": ["a"]}, r"no token is allowed as token \d+ of a row: .*regex"),
        ({"regex": "a", "bad_words": ["a"], "num_beams": 2}, "no token is allowed as token"),
    ],
)  # fmt: skip
def test_what_cannot_be(tokenizers: dict[str, Tokenizer], constraints: dict[str, Any], message: str) -> None:
    model = tiny("gpt2", "text-generation", tokenizers["byte level"])
    start = time.process_time()
    with pytest.raises(ConfigError, match=message) as caught:
        model.generate("the", **constraints)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500
    assert time.process_time() - start < 20


@pytest.mark.parametrize("pattern", ["(a|a)*b", "(.*a){20}.{20}", "(x+x+)+y", "(a{1000}){1000}", ".{0,100000}"])
def test_what_would_take_others_for_ever(tokenizers: dict[str, Tokenizer], pattern: str) -> None:
    model = tiny("gpt2", "text-generation", tokenizers["byte level"])
    start = time.process_time()
    model.generate("the", regex=pattern, max_new_tokens=20, do_sample=True, seed=1)
    assert time.process_time() - start < 20


def test_what_grows_too_large_on_the_way(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["byte level"]
    constraint = constrained(tokenizer, regex(r"(\w{0,1000}\d{0,1000}){0,1000}é"))
    with pytest.raises(ConfigError, match=r"regex .* cannot be used: too many expressions constructed$"):
        for length in range(300):
            allowed(constraint, tokenizer.encode("7") * length, len(tokenizer) + 5)


def test_a_dead_end(tokenizers: dict[str, Tokenizer]) -> None:
    """No token says é: what a text begins with cannot be gone on with, in any way, or in one of two."""
    model = tiny("gpt2", "text-generation", tokenizers["metaspace"])
    with pytest.raises(ConfigError, match="can begin with a token of this model"):
        model.generate("the", regex="é")
    with pytest.raises(ConfigError, match="no token is allowed"):
        model.generate("the", regex="aé")
    assert model.generate("the", regex="aé|abc", num_beams=3) == "abc"


def test_without_an_end(tokenizers: dict[str, Tokenizer]) -> None:
    model = tiny("gpt2", "text-generation", tokenizers["byte level"])
    model.config["eos_token_id"] = None
    with pytest.raises(ConfigError, match="name none; give eos_token_id"):
        model.generate("the", regex="a")
    result = model.generate("the", regex="a", eos_token_id=0, return_scores=True)
    assert result.reasons == ["end_token"]


def test_without_a_tokenizer() -> None:
    model = Model.from_config(FAMILIES["gpt2"].tiny | {"eos_token_id": 2}, task="text-generation").eval()
    with pytest.raises(DataError, match="this model has no tokenizer"):
        model.generate(torch.tensor([[5, 6]]), regex="a")


def test_a_tokenizer_whose_tokens_depend_on_what_follows() -> None:
    engine = Engine(models.BPE({"a</w>": 0, END: 1, "a": 2}, []))
    engine.decoder = decoders.BPEDecoder(suffix="</w>")
    model = tiny("gpt2", "text-generation", Tokenizer(engine))
    with pytest.raises(UnsupportedError, match="its decoder is BPEDecoder"):
        model.generate(torch.tensor([[0]]), regex="a")


def test_without_the_package(tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    model = tiny("gpt2", "text-generation", tokenizers["byte level"])
    for constraints in ({"regex": "a"}, {"choices": ["a"]}, {"json_schema": {}}):
        with pytest.raises(MissingExtraError, match=r"pip install 'glassformer\[constrain\]'"):
            model.generate("the", **constraints)


def test_grammars_by_hand(tokenizers: dict[str, Tokenizer]) -> None:
    assert choices(["a|b"]).rule == r"/a\|b/"
    assert '"whitespace_flexible": false' in json_schema({"type": "string"}).rule
    flexible = {"x-guidance": {"whitespace_flexible": True}, "type": "array"}
    assert json.loads(json_schema(flexible).rule.removeprefix("%json ")) == flexible
