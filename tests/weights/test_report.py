"""The load report as text and as HTML: a hundred layers in a line, and no name that could do harm."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from glassformer.weights.report import MAX_LINES, LoadReport, group_by_prefix

BERT_HEADS = [
    "cls.predictions.bias",
    "cls.predictions.transform.dense.weight",
    "cls.predictions.transform.dense.bias",
    "cls.predictions.decoder.weight",
    "cls.predictions.transform.LayerNorm.weight",
    "cls.seq_relationship.weight",
    "cls.seq_relationship.bias",
]


def folded(names: list[str]) -> dict[str, int]:
    return {group.name: group.tensors for group in group_by_prefix(names, {})}


def test_heads_fold_by_how_they_begin() -> None:
    assert folded(BERT_HEADS) == {"cls.predictions.*": 5, "cls.seq_relationship.*": 2}


def test_layers_fold_into_a_line() -> None:
    layers = [f"model.layers.{i}.cross.{part}.weight" for i in range(12) for part in "qkv"]
    waves = [f"layers.{i}.self_attn.rotary_emb.inv_freq" for i in range(32)]
    assert folded([*layers, *waves]) == {
        "model.layers.0-11.cross.*": 36,
        "layers.0-31.self_attn.rotary_emb.inv_freq": 32,
    }


def test_a_single_tensor_keeps_its_name() -> None:
    assert folded(["lm_head.weight", "h.3.attn.bias", "scale"]) == {
        "lm_head.weight": 1,
        "h.3.attn.bias": 1,
        "scale": 1,
    }


def test_shapes_are_those_of_the_group() -> None:
    shapes = {"head.a.weight": (2, 768), "head.a.bias": (2,), "head.b.scale": ()}
    assert {g.name: g.shape for g in group_by_prefix(shapes, shapes)} == {
        "head.a.*": "2×768, 2",
        "head.b.scale": "1",
    }
    many = {f"head.a.{i}x": (i,) for i in range(9)}
    assert group_by_prefix(many, many)[0].shape == "0, 1, 2, …"


def test_the_table_as_text() -> None:
    report = LoadReport(
        loaded=["a"] * 199,
        new=["head.classifier.weight", "head.classifier.bias"],
        unused=BERT_HEADS,
        warnings=["config.json: odd = 1 is not read"],
        shapes={"head.classifier.weight": (2, 768), "head.classifier.bias": (2,)},
    )
    assert str(report).splitlines() == [
        "loaded: 199 tensors",
        "",
        "new: 2 tensors not in the checkpoint, so initialised: train them before use",
        "new                shapes    tensors",
        "head.classifier.*  2×768, 2        2",
        "",
        "unused: 7 tensors in the checkpoint, not in this model, such as the head of another task",
        "unused                  shapes  tensors",
        "cls.predictions.*                     5",
        "cls.seq_relationship.*                2",
        "",
        "warning: config.json: odd = 1 is not read",
    ]
    html = report._repr_html_()
    assert '<th scope="row">cls.predictions.*</th><td></td><td>5</td>' in html
    assert "so initialised" in html and "odd = 1" in html
    values = json.loads(json.dumps(report.to_dict()))
    assert (values["kind"], len(values["loaded"]), values["shapes"]["head.classifier.bias"]) == ("load", 199, [2])


def test_a_report_of_nothing_is_a_line() -> None:
    assert str(LoadReport()) == "loaded: 0 tensors"


def test_a_million_names_are_a_page() -> None:
    report = LoadReport(unused=[f"a{i}.b.weight" for i in range(50_000)])
    assert len(str(report).splitlines()) == 5 + MAX_LINES
    assert re.search(f"… and {50_000 - MAX_LINES:,} groups more +{50_000 - MAX_LINES:,}", str(report))
    assert report._repr_html_().count("<tr>") == 2 + MAX_LINES


def test_a_name_cannot_steer_a_terminal_or_a_page() -> None:
    report = LoadReport(unused=["\x1b[31mred.weight", "<script>alert(1)</script>"], warnings=["<b>\x1b"])
    assert "\x1b" not in str(report)
    assert "\x1b" not in report._repr_html_()
    assert "<script" not in report._repr_html_() and "<b>" not in report._repr_html_()


@given(st.lists(st.text(alphabet="ab.09#*²", max_size=12), unique=True))
def test_no_tensor_is_lost_whatever_its_name(names: list[str]) -> None:
    assert sum(group.tensors for group in group_by_prefix(names, {})) == len(names)


def test_a_number_of_ten_thousand_digits_is_a_number() -> None:
    name = "9" * 10_000
    assert folded([f"layers.{name}.a", "layers.1.a"]) == {f"layers.1-{name}.a": 2}
