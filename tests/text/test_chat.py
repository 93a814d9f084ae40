"""Chat templates: the reference's text and ids, for templates in the style of the families; bad ones, bad messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, pre_tokenizers, processors

from glassformer.errors import DataError
from glassformer.text import Tokenizer
from glassformer.text.chat import is_chat, render

SPECIAL = (
    "<s>",
    "</s>",
    "<unk>",
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)

LLAMA2 = """{% if messages[0]['role'] == 'system' %}
    {%- set rest, above = messages[1:], '<<SYS>>\\n' + messages[0]['content'] + '\\n<</SYS>>\\n\\n' %}
{%- else %}
    {%- set rest, above = messages, '' %}
{%- endif %}
{%- for message in rest %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('user and assistant must take turns') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {{- bos_token + '[INST] ' + (above if loop.first else '') + message['content'].strip() + ' [/INST]' }}
    {%- else %}
        {{- ' ' + message['content'].strip() + ' ' + eos_token }}
    {%- endif %}
{%- endfor %}"""

LLAMA3 = """{{- bos_token }}
{%- set date = date_string if date_string is defined else strftime_now('%d %b %Y') %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday: ' ~ date ~ '<|eot_id|>' }}
{%- if tools is not none and tools is defined %}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
    {%- endfor %}
{%- endif %}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}
    {%- generation %}{{- message.content | trim + '<|eot_id|>' }}{%- endgeneration %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""

CHATML = """{% for message in messages %}
{% if loop.first and message.role != 'system' %}
{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
{%- endif %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{%- endif %}
"""

MISTRAL = """{{ bos_token }}{% set ns = namespace(turn=0) %}
{% for m in messages %}
    {% if m.role == 'user' %}
        {% set ns.turn = ns.turn + 1 %}
        {{- '[INST] ' ~ m.content ~ ' [/INST]' -}}
    {% elif m.role == 'assistant' %}
        {{- m.content ~ eos_token -}}
    {% else %}{% continue %}{% endif %}
{% endfor %}{# how many turns there were #}{{ ns.turn if messages | length > 5 }}"""

PHI3 = """{% macro said(message) %}<|{{ message.role }}|>
{{ message['content'] }}<|end|>
{% endmacro %}
{% for message in messages if message.content is not none %}
    {{- said(message) }}
    {%- if not loop.last and message.role == loop.nextitem.role %}{% break %}{% endif %}
{% endfor %}
{{ '<|assistant|>\\n' if add_generation_prompt else eos_token }}"""

TEMPLATES = {"llama-2": LLAMA2, "llama-3": LLAMA3, "chatml": CHATML, "mistral": MISTRAL, "phi-3": PHI3}
templates = pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)

CHAT = [
    {"role": "user", "content": "Time flies like an arrow. "},
    {"role": "assistant", "content": " Fruit flies like a banana."},
    {"role": "user", "content": "Why?"},
]


def letters() -> tokenizers.Tokenizer:
    """Every byte is a token, and each text begins with <s>."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    engine = tokenizers.Tokenizer(models.BPE({piece: i for i, piece in enumerate(alphabet)}, []))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    begin = engine.token_to_id("<s>")
    engine.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
    return engine


def make(folder: Path, template: Any = None, files: dict[str, bytes] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    letters().save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    config |= {} if template is None else {"chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def read(folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(folder, model_type="llama")


def theirs_of(folder: Path) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    return transformers.AutoTokenizer.from_pretrained(folder)


# ------------------------------------------------------------------------------------------- as the reference renders

contents = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["<s>", "</s> x", "<|im_end|>", " a ", "\n\n", "{{ 1 }}", "{% endfor %}"]
)
chats = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": contents}),
    min_size=1,
    max_size=7,
)


@templates
def test_as_the_reference_renders(tmp_path_factory: pytest.TempPathFactory, source: str) -> None:
    folder = make(tmp_path_factory.mktemp("chat"), source)
    ours, theirs = read(folder), theirs_of(folder)

    @settings(max_examples=40, deadline=None)
    @given(chat=chats, prompted=st.booleans())
    def equal(chat: list[dict[str, str]], prompted: bool) -> None:
        def both(tokenizer: Any, **options: Any) -> Any:
            try:
                return tokenizer.apply_chat_template(chat, add_generation_prompt=prompted, **options)
            except Exception as error:
                return "refused" if "take turns" in str(error) else error

        assert both(ours, tokenize=False) == both(theirs, tokenize=False)
        mine, expected = both(ours), both(theirs)
        if mine != "refused":
            assert dict(mine) == {name: expected[name] for name in mine}

    equal()


@templates
def test_several_conversations_and_tensors(tmp_path: Path, source: str) -> None:
    folder = make(tmp_path, source)
    ours, theirs = read(folder), theirs_of(folder)
    options = {"add_generation_prompt": True}
    both = [CHAT, CHAT[:1]]
    assert ours.apply_chat_template(both, tokenize=False, **options) == theirs.apply_chat_template(
        both, tokenize=False, **options
    )
    result = ours.apply_chat_template(both, padding=True, padding_side="left", return_tensors="pt", **options)
    assert result["input_ids"].shape == result["attention_mask"].shape and len(result["input_ids"]) == 2
    ids = ours.apply_chat_template(CHAT, return_dict=False, **options)
    assert ids == ours.encode(ours.apply_chat_template(CHAT, tokenize=False, **options), add_special_tokens=False)


@pytest.mark.parametrize("last", ["So", "So  ", "So <s>", "a\nb"])
@templates
def test_going_on_with_the_last_message(tmp_path: Path, source: str, last: str) -> None:
    folder = make(tmp_path, source)
    chat = [*CHAT, {"role": "assistant", "content": last}]
    options = {"tokenize": False, "continue_final_message": True}
    result = read(folder).apply_chat_template(chat, **options)
    assert result == theirs_of(folder).apply_chat_template(chat, **options)
    assert result.endswith(last.strip()) or result.endswith(last)


def test_tools_documents_parts_and_more(tmp_path: Path) -> None:
    source = (
        "{{ tools | tojson }}{{ documents[0].title }}{{ mood }}{{ date_string }}"
        "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}"
        "{{ m.get('name', '-') }}{% endfor %}"
    )
    folder = make(tmp_path, source)
    chat = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "é"}, {"type": "text", "text": "<"}],
            "name": None,
        }
    ]
    options = {
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}],
        "documents": [{"title": "T", "text": "x"}],
        "mood": ["calm", 1, 2.5, True, None],
        "date_string": "1 Jan 2024",
        "tokenize": False,
    }
    result = read(folder).apply_chat_template(chat, **options)
    assert result == theirs_of(folder).apply_chat_template(chat, **options)
    assert result.endswith("é<-")
    chat[0]["content"][1]["text"] = "So "
    going_on = {"tokenize": False, "continue_final_message": True, "documents": options["documents"]}
    assert read(folder).apply_chat_template(chat, **going_on).endswith("éSo ")


# ------------------------------------------------------------------------------------------- the assistant's tokens

MARKED = """{{- bos_token }}{%- for message in messages %}
    {{- '[' + message.role + ']\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{- message.content + eos_token }}{%- endgeneration %}
    {%- else %}{{- message.content }}{%- endif %}
{%- endfor %}"""
BOTH = [CHAT, [*CHAT, {"role": "assistant", "content": "Weil é 🍌, <s>"}]]


@pytest.mark.parametrize("chat", [CHAT, CHAT[:1], *BOTH, BOTH], ids=range(5))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": True, "return_tensors": "pt"},
        {"truncation": True, "max_length": 60},
        {"add_generation_prompt": True},
    ],
    ids=str,
)
def test_masks_of_the_assistants_tokens(tmp_path: Path, chat: Any, options: dict[str, Any]) -> None:
    folder = make(tmp_path, MARKED)
    ours, theirs = read(folder), theirs_of(folder)
    theirs.pad_token = ours.pad_token = "<unk>"
    mine = ours.apply_chat_template(chat, return_assistant_tokens_mask=True, **options)
    expected = theirs.apply_chat_template(chat, return_assistant_tokens_mask=True, **options)
    for name in ("input_ids", "assistant_masks"):
        value = expected[name]
        assert type(mine[name]) is type(value) and (
            mine[name] == value if type(value) is list else mine[name].equal(value)
        )


def test_masks_of_blocks_in_macros_and_captures(tmp_path: Path) -> None:
    """Where the reference counts from the macro's own beginning."""
    source = (
        "{% macro answer(m) %}<{% generation %}{{ m.content }}{% endgeneration %}>{% endmacro %}"
        "{% set kept %}{% generation %}kept{% endgeneration %}{% endset %}"
        "ab{{ answer(messages[0]) }}cd{{ kept }}"
    )
    tokenizer = read(make(tmp_path, source))
    chat = [{"role": "user", "content": "xyz"}]
    encoding = tokenizer.apply_chat_template(chat, return_assistant_tokens_mask=True)
    assert tokenizer.apply_chat_template(chat, tokenize=False) == "ab<xyz>cdkept"
    assert encoding["assistant_masks"] == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1]
    for broken, message in (
        ("{% set s %}{% generation %} x {% endgeneration %}{% endset %}{{ s | trim }}", "another text with marks"),
        ("{% for m in messages %}{% generation %}{% continue %}{% endgeneration %}{% endfor %}", "before its end"),
    ):
        with pytest.raises(DataError, match=message):
            tokenizer.apply_chat_template(chat, chat_template=broken, return_assistant_tokens_mask=True)
    assert tokenizer.apply_chat_template(chat, return_assistant_tokens_mask=True, chat_template="a")[
        "assistant_masks"
    ] == [0]


def test_variables_replace_special_tokens(tmp_path: Path) -> None:
    folder = make(tmp_path, "{{ bos_token }}{{ eos_token }}")
    options = {"bos_token": "<!>", "tokenize": False}
    assert read(folder).apply_chat_template(CHAT, **options) == theirs_of(folder).apply_chat_template(CHAT, **options)


# ---------------------------------------------------------------------------------------------- where templates are


def test_where_templates_stand(tmp_path: Path) -> None:
    assert read(make(tmp_path / "none")).chat_template is None
    assert read(make(tmp_path / "one", "a")).chat_template == "a"
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b{{ tools }}"}]
    several = read(make(tmp_path / "several", named))
    assert several.chat_template == {"default": "a", "tool_use": "b{{ tools }}"}
    files = {"chat_template.jinja": b"c\r\n{{ 1 }}", "additional_chat_templates/rag.jinja": b"d"}
    filed = read(make(tmp_path / "files", "never read", files))
    assert filed.chat_template == {"default": "c\r\n{{ 1 }}", "rag": "d"}

    def rendered(tokenizer: Tokenizer, **options: Any) -> str:
        text: str = tokenizer.apply_chat_template(CHAT, tokenize=False, **options)
        return text

    assert (rendered(several), rendered(several, tools=[])) == ("a", "b[]")
    assert (rendered(several, chat_template="tool_use"), rendered(several, chat_template="x{{ 2 }}")) == (
        "bNone",
        "x2",
    )
    assert (rendered(filed), rendered(filed, chat_template="rag")) == ("c\n1", "d")
    for name in ("one", "several", "files"):
        theirs = theirs_of(tmp_path / name)
        assert rendered(read(tmp_path / name)) == theirs.apply_chat_template(CHAT, tokenize=False)
    with pytest.raises(DataError, match=r"has the chat templates rag, and none of them is the default"):
        rendered(read(make(tmp_path / "no default", None, {"additional_chat_templates/rag.jinja": b"d"})))
    with pytest.raises(DataError, match="has no chat template"):
        rendered(read(tmp_path / "none"))


@pytest.mark.parametrize("template", [5, ["a"], [{"name": "a"}], [{"name": 1, "template": "x"}], {"default": "x"}])
def test_a_template_that_is_no_text(tmp_path: Path, template: Any) -> None:
    with pytest.raises(DataError, match=r"tokenizer_config.json: chat_template must be text, or a list"):
        read(make(tmp_path, template))


def test_saved_as_it_was(tmp_path: Path) -> None:
    source = 'é {%- if true %}\r\n\t"x" {{ 1 }}{% endif %}\n'
    files = {"chat_template.jinja": source.encode(), "additional_chat_templates/rag.jinja": b"\r\nd"}
    read(make(tmp_path / "files", None, files)).save(tmp_path / "copy")
    for name, content in files.items():
        assert (tmp_path / "copy" / name).read_bytes() == content
    assert theirs_of(tmp_path / "copy").chat_template["rag"].strip() == "d"

    read(make(tmp_path / "config", source)).save(tmp_path / "copy")  # over another: its files do not stay
    assert not list((tmp_path / "copy").rglob("*.jinja"))
    saved = json.loads((tmp_path / "copy" / "tokenizer_config.json").read_text("utf-8"))
    assert saved["chat_template"] == source == read(tmp_path / "copy").chat_template


@pytest.mark.parametrize("template", ["a{{ 1 }}", {"default": "a", "rag": "b"}, {"rag": "b"}], ids=str)
def test_templates_in_the_config(tmp_path: Path, template: Any) -> None:
    tokenizer = read(make(tmp_path / "first", "older"))
    tokenizer.chat_template = template
    tokenizer.save(tmp_path / "saved", template_files=False)
    assert not list((tmp_path / "saved").rglob("*.jinja"))
    assert read(tmp_path / "saved").chat_template == theirs_of(tmp_path / "saved").chat_template == template
    tokenizer.save(tmp_path / "saved")
    assert "chat_template" not in json.loads((tmp_path / "saved/tokenizer_config.json").read_text("utf-8"))
    assert read(tmp_path / "saved").chat_template == theirs_of(tmp_path / "saved").chat_template == template
    tokenizer.chat_template = None
    tokenizer.save(tmp_path / "saved")
    assert read(tmp_path / "saved").chat_template is theirs_of(tmp_path / "saved").chat_template is None


# ------------------------------------------------------------------------------------------------------------ bad ones

BAD_TEMPLATES = {
    "{% for x in y %": r"has a syntax error: line 1: unexpected",
    "\n\n{% nonsense %}": r"has a syntax error: line 3: Encountered unknown tag 'nonsense'",
    "{{ 1 | nosuch }}": r"No filter named 'nosuch'",
    "{{ raise_exception('no system here') }}": r"rejects these messages: no system here",
    "{{ messages[9].content.text }}": r"fails on these messages: list object has no element 9",
    "{{ 1 // 0 }}": r"ZeroDivisionError",
    "{{ nosuch() }}": r"'nosuch' is undefined",
    "{{ 'x'.nosuch() }}": r"has no attribute 'nosuch'",
    "x" * 300_000: r"has 300000 characters; at most 250000",
    "{{ " + "(" * 9999 + ")" * 9999 + " }}": r"RecursionError|too many nested",
}


@pytest.mark.parametrize(("source", "message"), BAD_TEMPLATES.items(), ids=range(len(BAD_TEMPLATES)))
def test_bad_templates(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(make(tmp_path, source)).apply_chat_template(CHAT)
    assert str(caught.value).startswith("the chat template") and "\n" not in str(caught.value)


BAD_CHATS: list[tuple[Any, str]] = [
    ("Hello", "a conversation is a list of messages, at least one"),
    ([], "a conversation is a list of messages, at least one"),
    ([[]], "a conversation is a list of messages, at least one"),
    (5, "a conversation is a list of messages"),
    ({"role": "user", "content": "x"}, "a conversation is a list of messages"),
    (["Hello"], "message 0 is 'Hello'; it must be a mapping"),
    ([*CHAT, "Hello"], "message 3 is 'Hello'"),
    ([{"content": "x"}], "message 0 has the role None"),
    ([{"rolle": "user", "content": "x"}], "nearest: 'rolle'"),
    ([{"role": 5, "content": "x"}], "message 0 has the role 5"),
    ([{"role": "user", "content": 5}], "message 0 has a int as content"),
    ([{"role": "user", "content": b"x"}], "message 0 has a bytes as content"),
    ([{"role": "user", "content": [object()]}], r"message 0\['content'\]\[0\] is a object"),
]


@pytest.mark.parametrize(("chat", "message"), BAD_CHATS, ids=range(len(BAD_CHATS)))
def test_bad_messages(tmp_path: Path, chat: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(make(tmp_path, CHATML)).apply_chat_template(chat)


@pytest.mark.parametrize(
    ("source", "variables", "message"),
    [
        (5, {}, "a chat template is a text, got int"),
        ("{{ x }}", {"x": 10**5000}, "cannot be given to the chat template: .*digits"),
        ("{{ x }}", {"x": {1}}, "x is a set; it must be text"),
    ],
)
def test_what_cannot_be_given_to_a_template(source: Any, variables: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        render(source, CHAT, special_tokens={}, variables=variables)


def test_messages_that_hold_themselves(tmp_path: Path) -> None:
    parts: list[Any] = []
    parts.append(parts)
    with pytest.raises(DataError):
        read(make(tmp_path, CHATML)).apply_chat_template([{"role": "user", "content": parts}])


def test_what_cannot_be_gone_on_with(tmp_path: Path) -> None:
    tokenizer = read(make(tmp_path, "{% for m in messages[:-1] %}{{ m.content }}{% endfor %}"))
    with pytest.raises(DataError, match="does not write it unchanged; its role is 'user'"):
        tokenizer.apply_chat_template(CHAT, continue_final_message=True)
    with pytest.raises(DataError, match="choose one"):
        tokenizer.apply_chat_template(CHAT, continue_final_message=True, add_generation_prompt=True)
    with pytest.raises(DataError, match="it holds no text"):
        tokenizer.apply_chat_template([{"role": "assistant"}], continue_final_message=True)
    with pytest.raises(DataError, match="documents is a set"):
        tokenizer.apply_chat_template(CHAT, documents={1})


def test_what_a_chat_is() -> None:
    assert is_chat(CHAT) and is_chat(tuple(CHAT))
    assert not any(map(is_chat, ("text", [], ["text"], [CHAT], CHAT[0], None)))
