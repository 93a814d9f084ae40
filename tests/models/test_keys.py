"""Config keys as data: spellings, defaults, kinds; what is fixed, unused, constant; siblings; tiny configs."""

from __future__ import annotations

import pytest

from glassformer import Model
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.models import ConfigReader
from glassformer.models._config import MAX_LAYERS, Keys, Values, constant, flag, nullable_size
from tests.e2e.tiny_models import small_config

KEYS = Keys(
    width="n_embd hidden_size",
    layers="num_hidden_layers",
    heads="heads",
    kv_heads=("kv_heads", "=heads"),
    head_width=("head_dim", None),
    hidden=("inner", lambda c: 4 * c.width),
    dropout=("dropout", 0.1),
    gated=flag("gated", False),
    window=nullable_size("window", 7),
    causal=constant(True),
    fixed={"is_decoder": False, "kind": ("a", "b")},
    unused="old_name",
)
CONFIG = {"model_type": "test", "hidden_size": 8, "num_hidden_layers": 2, "heads": 2}


def read(**config: object) -> Values:
    return KEYS.read(ConfigReader({**CONFIG, **config}))


def test_defaults_are_values_other_fields_or_computed() -> None:
    c = read()
    assert c("width layers heads kv_heads hidden") == {
        "width": 8,
        "layers": 2,
        "heads": 2,
        "kv_heads": 2,
        "hidden": 32,
    }
    assert (c.head_width, c.dropout, c.gated, c.causal) == (None, 0.1, False, True)
    assert read(kv_heads=1, inner=5, head_dim=3)("kv_heads hidden head_width") == {
        "kv_heads": 1,
        "hidden": 5,
        "head_width": 3,
    }


def test_the_first_spelling_counts() -> None:
    assert read(n_embd=16).width == 16


def test_null_may_be_a_value_of_its_own() -> None:
    assert (read().window, read(window=None).window, read(window=3).window) == (7, None, 3)


def test_a_field_has_the_kind_and_bound_of_its_name() -> None:
    for change in ({"hidden_size": 0}, {"num_hidden_layers": MAX_LAYERS + 1}, {"dropout": 1.0}, {"gated": 1}):
        with pytest.raises(ConfigError, match=next(iter(change))):
            read(**change)


def test_what_is_fixed_is_checked_and_what_is_unused_is_known() -> None:
    for change in ({"is_decoder": True}, {"kind": "c"}):
        with pytest.raises(UnsupportedError, match=next(iter(change))):
            read(**change)
    reader = ConfigReader({**CONFIG, "kind": "b", "old_name": 3, "typo": 1})
    KEYS.read(reader)
    assert reader.unused_key_warnings() == ["config.json: typo = 1 is not read"]


def test_a_misspelt_key_is_named_and_refused_where_a_caller_gives_it() -> None:
    keys = Keys(eps=("layer_norm_eps", 1e-12), dropout=("hidden_dropout_prob", 0.1))
    reader = ConfigReader({"layer_norm_epz": 1e-5, "hidden_dropout_prob": 0.0, "hiden_dropout_prob": 0.1})
    keys.read(reader)
    assert reader.unused_key_warnings({"hidden_dropout_prob"}) == [
        "config.json: layer_norm_epz = 1e-05 is not read; is 'layer_norm_eps' meant?",
        "config.json: hiden_dropout_prob = 0.1 is not read",  # the right one is there
    ]
    for given, meant in (("layer_norm_epz", "layer_norm_eps"), ("hiden_dropout_prob", "hidden_dropout_prob")):
        with pytest.raises(ConfigError, match=rf"'{given}' is no key of a .* model; is '{meant}' meant"):
            reader.unused_key_warnings({given})


def test_a_misspelt_key_is_refused_where_a_model_is_made_of_a_config() -> None:
    with pytest.raises(ConfigError, match="'hiden_dropout_prob' is no key of a 'bert' model; is 'hidden_dropout_prob'"):
        Model.from_config({**small_config("bert"), "hiden_dropout_prob": 0.3}, device="meta")
    kept = Model.from_config({**small_config("bert"), "note": "mine"}, device="meta").report.warnings
    assert kept == ["config.json: note = 'mine' is not read"]


def test_a_sibling_adds_and_replaces() -> None:
    sibling = KEYS.extend(width="d_model", depth=constant(3), fixed={"extra": None}, unused="more")
    c = sibling.read(ConfigReader({**CONFIG, "d_model": 4, "more": 1}))
    assert (c.width, c.depth, c.heads) == (4, 3, 2)
    with pytest.raises(UnsupportedError, match="extra"):
        sibling.read(ConfigReader({**CONFIG, "d_model": 4, "extra": 1}))
    assert read().width == 8, "the keys themselves stay as they were"


def test_a_recipe_that_asks_for_an_unknown_field() -> None:
    with pytest.raises(AttributeError, match="no field 'depth'"):
        _ = read().depth
    with pytest.raises(KeyError, match="colour"):
        Keys(colour="colour")


def test_a_tiny_config_has_the_spelling_of_the_keys() -> None:
    tiny = KEYS.tiny("test", heads=2, extra=1)
    assert tiny == {
        **{"model_type": "test", "n_embd": 32, "num_hidden_layers": 3, "inner": 48, "dropout": 0.0},
        **{"heads": 2, "extra": 1},
    }
