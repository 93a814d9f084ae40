"""The config reader accounts for every key; a family knows its tasks and heads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.flow import Batch, Flow, Tape
from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.models import FAMILIES, ConfigReader, Family, Network
from glassformer.models._config import IGNORED_KEYS, KNOWN_FEATURES, MAX_LAYERS
from glassformer.models._network import Sizes
from glassformer.task_names import TASK_ALIASES
from glassformer.weights.names import Slice

families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


# ------------------------------------------------------------------------------------------------------ reading


def test_the_first_spelling_that_is_there() -> None:
    reader = ConfigReader({"n_embd": 8, "hidden_size": 16, "empty": None, "other": 3})
    assert reader.integer("hidden_size", "n_embd") == 16
    assert reader.integer("width", "n_embd") == 8
    assert reader.integer("empty", "other") == 3, "null says no more than nothing"
    assert reader.integer("empty", default=5) == 5
    assert reader.get("nowhere", default=None) is None


def test_a_key_that_is_needed_is_named_with_all_its_spellings() -> None:
    with pytest.raises(
        ConfigError, match=r"config\.json: has no 'hidden_size' or 'n_embd', which a 'gpt2' model needs"
    ):
        ConfigReader({"model_type": "gpt2", "hidden_size": None}).integer("hidden_size", "n_embd")


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("integer", [1, 7], [True, 7.0, "7", [7], 0, -3]),
        ("number", [0, 7, 0.5], [False, "0.5", {}, -0.5, 10**400]),
        ("flag", [True, False], [0, 1, "true"]),
        ("text", ["gelu", ""], [0, False, ["gelu"]]),
    ],
)
def test_values_of_the_wrong_kind_are_named(kind: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(ConfigReader({"key": value}), kind)("key") == value
    for value in bad:
        with pytest.raises(ConfigError) as error:
            getattr(ConfigReader({"key": value}), kind)("key")
        assert str(error.value).startswith("config.json: key is ")


def test_fixed_takes_what_is_allowed_and_what_is_absent() -> None:
    ConfigReader({}).fixed("is_decoder", False)
    ConfigReader({"is_decoder": None}).fixed("is_decoder", False)
    ConfigReader({"kind": "b"}).fixed("kind", "a", "b")
    with pytest.raises(UnsupportedError, match=r"kind = 'c' is not supported for a 'bert' model; supported: 'a', 'b'"):
        ConfigReader({"kind": "c", "model_type": "bert"}).fixed("kind", "a", "b")


def test_an_object_within_is_read_to_its_last_key_too() -> None:
    reader = ConfigReader({"rope_parameters": None, "rope_scaling": {"factor": 2, "odd": 1}})
    assert reader.section("rope_parameters", "rope_scaling").number("factor") == 2
    assert reader.unused_key_warnings() == ["config.json: rope_scaling: odd = 1 is not read"]
    with pytest.raises(ConfigError, match="rope_scaling: has no 'factor'"):
        ConfigReader({}).section("rope_scaling").number("factor")
    with pytest.raises(ConfigError, match=r"rope_scaling is \[1\]; it must be an object"):
        ConfigReader({"rope_scaling": [1]}).section("rope_scaling")
    with pytest.raises(ConfigError, match=r"config\.json: rope_scaling: factor is 'two'"):
        ConfigReader({"rope_scaling": {"factor": "two"}}).section("rope_scaling").number("factor")


@pytest.mark.parametrize("count", [0, -1, MAX_LAYERS + 1, 10**12, 10**400])
def test_a_size_that_nobody_could_build(count: int) -> None:
    with pytest.raises(ConfigError, match=f"a whole number from 1 to {MAX_LAYERS}"):
        ConfigReader({"layers": count}).integer("layers", maximum=MAX_LAYERS)


def test_labels_and_problem() -> None:
    assert ConfigReader({}).labels() == 2
    assert ConfigReader({"num_labels": 4}).labels() == 4
    assert ConfigReader({"id2label": {"0": "a", "1": "b", "2": "c"}}).labels() == 3
    assert ConfigReader({}).problem() is None
    assert ConfigReader({"problem_type": "regression"}).problem() == "regression"
    with pytest.raises(UnsupportedError, match="ranking"):
        ConfigReader({"problem_type": "ranking"}).problem()


def test_leftovers_are_warned_about_or_refused() -> None:
    reader = ConfigReader({"read": 1, "model_type": "bert", "transformers_version": "5", "flux": 1.21, "alibi": False})
    reader.integer("read")
    assert reader.unused_key_warnings() == ["config.json: flux = 1.21 is not read"]
    for value in (True, "yes", 3, [1], {"bits": 4}):
        with pytest.raises(UnsupportedError) as error:
            ConfigReader({"model_type": "bert", "alibi": value}).unused_key_warnings()
        assert "alibi" in str(error.value) and repr(value) in str(error.value)
    off: list[Any] = [None, False, 0, [], {}]
    for value in off:
        assert ConfigReader({"alibi": value}).unused_key_warnings() == []


def test_a_feature_that_was_read_is_not_refused() -> None:
    reader = ConfigReader({"rope_scaling": {"type": "linear"}})
    reader.get("rope_scaling")
    assert reader.unused_key_warnings() == []


def test_no_key_is_both_ignored_and_a_feature() -> None:
    assert not IGNORED_KEYS & KNOWN_FEATURES


# --------------------------------------------------------------------------------------------------- the records


@families
def test_the_tiny_config_is_read_to_the_last_key(family: Family) -> None:
    reader = ConfigReader(family.tiny)
    family.spec(reader)
    assert reader.unused_key_warnings() == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@families
@settings(deadline=None)  # torch takes its time with the first
@given(data=st.data())
def test_a_wild_config_is_read_or_refused(family: Family, data: st.DataObject) -> None:
    """Any value under any key of a family: a spec, or an error of ours; never another exception."""
    tiny = dict(family.tiny)
    reader = ConfigReader(tiny)
    family.spec(reader)
    keys = sorted(reader.used | {"id2label", "num_labels", "problem_type", "initializer_range"})
    changes = data.draw(st.dictionaries(st.sampled_from(keys), JSON, min_size=1, max_size=3))
    try:
        reader = ConfigReader({**tiny, **changes})
        spec = family.spec(reader)
        reader.unused_key_warnings()
        if len(getattr(getattr(spec, "blocks", None), "blocks", range(99))) < 9:
            with torch.device("meta"):
                family.build(spec, family.tasks[-1])
    except GlassformerError as error:
        assert str(error)


@families
def test_tasks_and_architectures(family: Family) -> None:
    for architecture, task in family.architectures.items():
        assert family.task(task) == task
        assert family.architectures[family.architecture(task)] == task
        assert architecture in family.architectures
    for alias, task in TASK_ALIASES.items():
        if task in family.tasks:
            assert family.task(alias) == task
    with pytest.raises(UnsupportedError, match="no head for 'juggling'; it has: "):
        family.task("juggling")


@families
def test_every_task_can_be_built_and_has_names_for_all_its_parameters(family: Family) -> None:
    for task in family.tasks:
        spec = family.spec(ConfigReader(family.tiny))
        with torch.device("meta"):
            network = family.build(spec, task)
        names = family.names(spec, task)
        claimed: list[tuple[str, int]] = []
        for name, _ in network.named_parameters():
            for prefixed in (False, True):
                rule, theirs = names.find(name, prefixed=prefixed)
                assert len(theirs) == len(rule.stems)
            claimed += [(name, rule.number if isinstance(rule, Slice) else 0) for name in theirs]
        assert len(claimed) == len(set(claimed)), "two of ours claim one of theirs"
        assert {path for path, node in network.named_nodes() if node.path != path} == set()


def test_families_are_looked_up_by_model_type() -> None:
    assert {"bert", "gpt2", "llama"} <= set(FAMILIES)
    assert all(name == family.model_type == family.tiny["model_type"] for name, family in FAMILIES.items())


# --------------------------------------------------------------------------------------------------- the network


def test_a_network_without_states_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Network does not implement states\(batch, flow\)"):
        Network(Sizes(width=1))(Batch(input_ids=torch.ones(1, 1, dtype=torch.long)), Flow())


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_text_network_needs_ids(name: str) -> None:
    family = FAMILIES[name]
    network = family.build(family.spec(ConfigReader(family.tiny)), family.tasks[0])
    with pytest.raises(ConfigError, match="reads input_ids"):
        network(Batch(), Flow())


def test_an_edit_of_a_head_field_reaches_the_output() -> None:
    family = FAMILIES["gpt2"]
    network = family.build(family.spec(ConfigReader(family.tiny)), "text-generation")
    tape = Tape("logits", edit={"logits": lambda x: x * 0}).attach(network)
    output = network(Batch(input_ids=torch.ones(1, 3, dtype=torch.long)), Flow(tape=tape))
    assert output.logits is not None and output.logits.abs().max() == 0
    assert output.logits is tape.taps["logits"]
