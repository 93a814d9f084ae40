"""Templates of strangers: they reach nothing, and they end."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from glassformer.errors import DataError
from glassformer.text import chat, sandbox
from glassformer.text.chat import render

CHAT = [{"role": "user", "content": "time flies"}, {"role": "assistant", "content": "so do fruit flies"}]


def rendered(source: str) -> str:
    return render(source, CHAT, special_tokens={"bos_token": "<s>"})


DOUBLED = "{%% set ns = namespace(x='time') %%}{%% for i in range(60) %%}%s{%% endfor %%}{{ ns.x }}"

NESTED = "{% set ns.x = [ns.x, ns.x] %}"

ENDLESS = {
    "loops in loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a translation": "{{ ('a' * 100000).translate({97: 'b' * 100000}) }}",
    "nested lists, written": DOUBLED % NESTED,
    "nested lists, compared": DOUBLED % NESTED + "{{ ns.x == [ns.x] }}",
    "nested lists, searched": "{% set ns = namespace(x=['time']) %}{% for i in range(60) %}" + NESTED + "{% endfor %}"
    "{{ 5 in ns.x }}{{ ns.x | string | length }}",
    "division": "{% set n = 10 ** 900000 %}{% for i in range(99999) %}{% set m = (n * n + 1) // n %}{% endfor %}",
    "counts": "{% set a = 'a' * 9999999 %}{% for i in range(99999) %}{% set n = a.count('ab') %}{% endfor %}",
    "slices of slices": "{% set a = 'a' * 9999999 %}{% for i in range(99999) %}{% set b = a[1:] %}{% endfor %}",
    "calls that call": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(99) }}",
    "a recursive loop": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "a range": "{{ range(10 ** 7) }}",
    "a long text": "{{ 'a' * 10 ** 10 }}",
    "a long list": "{{ [0] * 10 ** 10 }}",
    "a large number": "{{ 10 ** (10 ** 10) }}",
    "doubled by +": DOUBLED % "{% set ns.x = ns.x + ns.x %}",
    "doubled by ~": DOUBLED % "{% set ns.x = ns.x ~ ns.x %}",
    "doubled by a block": DOUBLED % "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}",
    "doubled by a macro": "{% macro d(s) %}{{ s }}{{ s }}{% endmacro %}" + DOUBLED % "{% set ns.x = d(ns.x) %}",
    "squared by replace": DOUBLED % "{% set ns.x = ns.x.replace('t', ns.x) %}",
    "squared by a filter": DOUBLED % "{% set ns.x = ns.x | replace('t', ns.x) %}",
    "squared by join": DOUBLED % "{% set ns.x = ns.x | join(ns.x) %}",
    "a list of long texts": "{{ (['time' * 1000] * 100000) | join }}",
    "a list to come": "{{ range(99999) | map('string') | join('time' * 100000) }}",
    "wide": "{{ 'a'.ljust(10 ** 9) }}",
    "centred": "{{ 'a' | center(10 ** 9) }}",
    "slices": "{{ [1, 2] | slice(10 ** 9) | list }}",
    "batches": "{{ [1, 2] | batch(10 ** 9, 0) | list }}",
    "indented": "{{ {'a': [1]} | tojson(indent=10 ** 9) }}",
    "a wide number": "{{ '%0999999999d' % 1 }}",
    "a wide text of a mapping": "{{ '%(a)-99999999s' % {'a': 1} }}",
    "a precise number": "{{ '%.99999999f' | format(1.5) }}",
    "a width that is given": "{{ '%*d' % (10 ** 9, 1) }}",
    "a wide field": "{{ '{:999999999}'.format(1) }}",
    "a field in a field": "{{ '{:{}}'.format(1, 10 ** 9) }}",
    "a field of a mapping": "{{ '{a:{b}}'.format_map({'a': 1, 'b': 10 ** 9}) }}",
}  # fmt: skip


@pytest.fixture(scope="module")
def small_worker() -> Iterator[None]:
    """A child with a tenth of the time and memory."""
    worker = sandbox.worker(sandbox.MAX_SECONDS / 10, sandbox.MAX_MEMORY_BYTES // 10, 2_000_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat, "_worker", lambda: worker)
        yield
    worker.close()


@pytest.mark.usefixtures("small_worker")
@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_it_ends(source: str) -> None:
    start = time.perf_counter()
    bounds = "runs too long|writes too much|too much memory|Range too big|maximum recursion|Exceeds the limit"
    with pytest.raises(DataError, match=bounds):
        rendered(source)
    assert time.perf_counter() - start < 120  # the child has 0.4 s


FORBIDDEN = {
    "a class": "{{ ''.__class__.__mro__ }}",
    "globals": "{{ cycler.__init__.__globals__.os.system('true') }}",
    "self": "{{ self.__init__.__globals__ }}",
    "the file of another": "{% include 'other' %}",
    "a module": "{% import 'os' as os %}{{ os.system('true') }}",
    "changing a message": "{{ messages.append(messages[0]) }}",
    "changing a mapping": "{{ messages[0].update({'role': 'system'}) }}",
    "a hidden name": "{% set ns = namespace(__class__=1) %}",
    "a hidden name, later": "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "a format's field": "{{ '{0.__class__.__mro__}'.format('') }}",
    "filler": "{{ lipsum(10 ** 8) }}",
}


@pytest.mark.parametrize("source", FORBIDDEN.values(), ids=FORBIDDEN)
def test_it_reaches_nothing(source: str) -> None:
    before = [dict(message) for message in CHAT]
    with pytest.raises(DataError, match="the chat template"):
        rendered(source)
    assert before == CHAT


@pytest.mark.parametrize("source", ["{{ messages.__class__ }}", "{{ ''['__class__'] }}", "{{ x | attr('__class__') }}"])
def test_what_is_hidden_is_empty(source: str) -> None:
    assert rendered(source) == ""


def test_what_templates_need_works() -> None:
    source = (
        "{{ bos_token }}{% set ns = namespace(n=0) %}"
        "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}"
        "{% set ns.n = ns.n + loop.length %}{{ loop.previtem.role ~ '>' ~ m.role | upper }} "
        "{% if loop.last %}{{ m.content.split(' ')[-1] | trim }}{% endif %}{% endfor %}"
        "{{ ns.n }} {{ '%s-%d' % ('a', 3) }} {{ '{:>4}'.format('b') }} "
        "{{ messages | map(attribute='role') | join('/') }}"
        " {{ {'b': '<é>', 'a': [1]} | tojson(indent=1, sort_keys=true) }}"
    )
    assert rendered(source) == ('<s>user>ASSISTANT flies2 a-3    b user/assistant {\n "a": [\n  1\n ],\n "b": "<é>"\n}')


def test_long_numbers_are_no_widths() -> None:
    source = (
        "{{ '%s: %s' % ('12345', '{:67890}') }} {{ 'at 12:30, 12345 {}'.format('98765') }} {{ '%5d' | format(123456) }}"
    )
    assert rendered(source) == "12345: {:67890} at 12:30, 12345 98765 123456"


def test_a_long_conversation_is_no_crime() -> None:
    """A thousand messages, and one of a megabyte, cost a small part of the budget."""
    source = "{% for m in messages %}{{ '<' ~ m.role + '>' ~ m.content | trim ~ '</s>' }}{% endfor %}"
    for messages in (CHAT * 500, [{"role": "user", "content": "time flies " * 90_000}]):
        text = render(source, messages, special_tokens={})
        assert text.count("</s>") == len(messages) and len(text) > sum(len(m["content"]) for m in messages)


def test_a_recursive_loop_is_fine() -> None:
    source = "{% for x in [1, [2, [3]]] recursive %}{{ x if x is number else loop(x) }},{% endfor %}"
    assert rendered(source) == "1,2,3,,,"


def test_the_child_reads_no_file_even_if_the_template_gets_out() -> None:
    with pytest.raises(DataError, match="it tried to read a file"):
        rendered("{{ 'a'.encode('utf_7') }}")  # Python's codec is a file
