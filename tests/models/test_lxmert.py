"""LXMERT beyond the parity table: both encoders layer by layer, masked regions, dropout, inspection, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Tape
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.evaluation.reference import fp64_arithmetic
from glassformer.inspect import Session
from glassformer.model import Model, load
from glassformer.models import FAMILIES
from tests.inspect.passes import network_of, reading_of
from tests.parity.inputs import draw_inputs, draw_labels
from tests.parity.sides import close, perturb

TINY = dict(FAMILIES["lxmert"].tiny)
ANSWERS = "visual-question-answering"


def both(
    folder: Path, kind: str = "LxmertModel", dtype: torch.dtype = torch.float32, **changes: Any
) -> tuple[Any, Any]:
    """The reference's perturbed model, and ours of its folder."""
    torch.manual_seed(3)
    reference = getattr(transformers, kind)(transformers.LxmertConfig.from_dict({**TINY, **changes}))
    perturb(reference)
    reference.save_pretrained(folder)
    theirs = getattr(transformers, kind).from_pretrained(folder, local_files_only=True, dtype=dtype)
    return theirs.eval(), load(folder, dtype=dtype, strict=True)


def random_inputs(padding: str = "none", kind: str = "LxmertModel") -> Any:
    return draw_inputs({**TINY, "architectures": [kind]}, padding)


def model_inputs(dtype: torch.dtype = torch.float32, hidden: bool = True) -> dict[str, Tensor]:
    """Texts padded on the right; the last two regions of the second picture hidden."""
    fields = random_inputs("right").ours
    mask = torch.ones(3, 5, dtype=torch.int64)
    mask[1, 3:] = 0
    fields = {name: x.to(dtype) if x.is_floating_point() else x for name, x in fields.items()}
    return {**fields, "visual_attention_mask": mask} if hidden else fields


def rows(probs: Tensor, visible: Tensor) -> Tensor:
    """What the visible tokens see. [B, H, T, S], [B, T] → [visible, H, S]"""
    return probs.transpose(1, 2)[visible]


# ---------------------------------------------------------------------------------------------- state by state


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("hidden", [False, True], ids=["all regions", "some hidden"])
@torch.no_grad()
def test_both_sides(tmp_path: Path, hidden: bool, dtype: torch.dtype) -> None:
    theirs, ours = both(tmp_path, dtype=dtype)
    fields, within = model_inputs(dtype, hidden), 1e-9 if dtype == torch.float64 else 1e-5
    with fp64_arithmetic(dtype):
        expected = theirs(**fields, output_hidden_states=True, output_attentions=True)
    output = ours(**fields, tape=Tape("*.*.out", "*.probs"))
    words = fields["attention_mask"].bool()
    regions = fields.get("visual_attention_mask", torch.ones(3, 5)).bool()
    for path, modality, visible in (("text", "language", words), ("vision", "vision", regions)):
        alone, states = expected[f"{modality}_attentions"], expected[f"{modality}_hidden_states"]
        names = [f"{path}.blocks.{i}.out" for i in range(len(alone))] + [f"{path}.crossed.{i}.out" for i in (0, 1)]
        for name, state in zip(names, states, strict=True):
            close(output.taps[name][visible], state[visible], within, name)
        for i, probs in enumerate(alone):
            mine = output.taps[f"{path}.blocks.{i}.attn.probs"]
            close(rows(mine, visible), rows(probs, visible), within, f"{path} {i}")
    for i, probs in enumerate(expected.cross_encoder_attentions):
        mine = output.taps[f"text.crossed.{i}.cross.probs"]
        close(rows(mine, words), rows(probs, words), within, f"text to image {i}")
    fused = ours(**fields)
    for name, visible in (("language_output", words), ("vision_output", regions)):
        close(output[name][visible], expected[name][visible], within, f"explicit {name}")
        close(fused[name][visible], expected[name][visible], within, f"fused {name}")
    close(fused.pooled_output, expected.pooled_output, within, "pooled")
    assert torch.equal(fused.last_hidden_state, fused.language_output)
    assert list(fused) == ["language_output", "vision_output", "pooled_output"]


@torch.no_grad()
def test_hidden_regions_are_as_good_as_none() -> None:
    torch.manual_seed(0)
    model = Model.from_config(TINY, task=ANSWERS).eval()
    fields = random_inputs().ours
    mask = torch.tensor([[1, 1, 1, 0, 0]] * 3)
    hidden = model(**fields, visual_attention_mask=mask).question_answering_score
    cut = {name: x[:, :3] if name.startswith("visual") else x for name, x in fields.items()}
    torch.testing.assert_close(hidden, model(**cut).question_answering_score, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(hidden, model(**fields).question_answering_score, atol=1e-4)


@torch.no_grad()
def test_dropout_is_as_strong_and_where_the_reference_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides drop in another order, so nothing is drawn: what would be dropped at random is made smaller."""
    theirs, ours = both(tmp_path, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3)

    def smaller(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return x * (1 - p) if training else x

    fields = model_inputs()
    quiet = ours(**fields).pooled_output
    monkeypatch.setattr(torch.nn.functional, "dropout", smaller)
    expected = theirs.train()(**fields)
    output = ours.train()(**fields, tape=Tape("*.probs"))  # the explicit path, which the reference takes too
    words, regions = fields["attention_mask"].bool(), fields["visual_attention_mask"].bool()
    close(output.language_output[words], expected.language_output[words], 1e-5, "words")
    close(output.vision_output[regions], expected.vision_output[regions], 1e-5, "regions")
    close(output.pooled_output, expected.pooled_output, 1e-5, "pooled")
    assert not torch.allclose(output.pooled_output, quiet, atol=1e-2)


# ------------------------------------------------------------------------------------------- both ways, one weight


def test_both_directions_have_the_same_weights(tmp_path: Path) -> None:
    _, ours = both(tmp_path)
    new = Model.from_config(TINY)
    for model in (ours, new, new.to(torch.float64)):
        network: Any = model.network
        for forth, back in zip(network.text.crossed, network.vision.crossed, strict=True):
            for part in ("cross", "cross_residual"):
                one, other = (dict(x.get_submodule(part).named_parameters()) for x in (forth, back))
                assert one and one.keys() == other.keys()
                assert all(one[name] is other[name] for name in one)
            assert forth.attn.qkv.weight is not back.attn.qkv.weight


@torch.no_grad()
def test_each_direction_can_be_edited_by_itself() -> None:
    torch.manual_seed(0)
    model = Model.from_config(TINY).eval()
    fields = random_inputs().ours

    def states(direction: str) -> tuple[Tensor, Tensor]:
        tape = Tape(edit={f"{direction}.crossed.1.cross.z": lambda z: z * 0})
        output = model(**fields, tape=tape)
        return output.language_output, output.vision_output

    plain = model(**fields)
    text, image = states("text")
    assert torch.equal(image, plain.vision_output) and not torch.allclose(text, plain.language_output)
    text, image = states("vision")
    assert torch.equal(text, plain.language_output) and not torch.allclose(image, plain.vision_output)


# ------------------------------------------------------------------------------------------------- looking inside


def test_a_session_sees_each_side_and_how_they_read_each_other() -> None:
    session = Session(network_of("lxmert"), reading_of("lxmert"))
    assert {name: (x.layers, x.queries, x.keys) for name, x in session.maps.items()} == {
        "text": (5, "text", "text"),
        "image": (4, "image", "image"),
        "text to image": (2, "text", "image"),
        "image to text": (2, "image", "text"),
    }
    words, regions = len(session.streams["text"]), len(session.streams["image"])
    assert session.head(1, 2, "text to image").probs().shape == (words, regions)
    assert session.head(1, 2, "image to text").probs().shape == (regions, words)
    assert [token.text for token in session.streams["image"]] == [f"region {i}" for i in range(regions)]
    assert len(network_of("lxmert").stream_taps()["text"]) == 6


def test_progress_reaches_its_end() -> None:
    steps: list[tuple[int, int]] = []
    Session(network_of("lxmert"), reading_of("lxmert"), progress=lambda done, of: steps.append((done, of)))
    assert steps == [(i, 9) for i in range(1, 10)]


# ------------------------------------------------------------------------------------------------------- the heads


@pytest.mark.parametrize("label", ["labels", "matched_label", "ans", "obj_labels"])
@torch.no_grad()
def test_each_question_of_pre_training(label: str, tmp_path: Path) -> None:
    theirs, ours = both(tmp_path, "LxmertForPreTraining")
    inputs = random_inputs("right", "LxmertForPreTraining")
    labels, _ = draw_labels("pre-training", inputs, TINY)
    one = {label: labels[label]}
    close(ours(**inputs.ours, labels=one).loss, theirs(**inputs.ours, **one).loss, 1e-5, label)


@pytest.mark.parametrize(
    "changes",
    [
        {"task_mask_lm": False},
        {"task_matched": False},
        {"task_obj_predict": False},
        {"visual_obj_loss": False},
        {"visual_attr_loss": False, "visual_feat_loss": False},
        {"visual_loss_normalizer": 1.0},
    ],
    ids=str,
)
@torch.no_grad()
def test_keys_of_pre_training(changes: dict[str, Any], tmp_path: Path) -> None:
    theirs, ours = both(tmp_path, "LxmertForPreTraining", **changes)
    inputs = random_inputs("none", "LxmertForPreTraining")
    labels, _ = draw_labels("pre-training", inputs, TINY)
    questions = ours.network.head.questions
    if questions is not None:
        labels["obj_labels"] = {name: labels["obj_labels"][name] for name in questions.asked}
    close(ours(**inputs.ours, labels=labels).loss, theirs(**inputs.ours, **labels).loss, 1e-5, str(changes))


# -------------------------------------------------------------------------------------------------------- refusals


def test_what_it_needs() -> None:
    model, fields = Model.from_config(TINY), random_inputs().ours
    for name in ("input_ids", "visual_feats", "visual_pos"):
        rest = {key: x for key, x in fields.items() if key != name and key not in ("attention_mask", "token_type_ids")}
        with pytest.raises(ConfigError, match=f"this model reads {name}"):
            model(**rest)
    fewer = {name: x[:2] if name.startswith("visual") else x for name, x in fields.items()}
    with pytest.raises(DataError, match="visual_feats has 2 images, input_ids has 3 texts"):
        model(**fewer)
    with pytest.raises(ConfigError, match="takes no pixel_values"):
        model(**fields, pixel_values=torch.zeros(3, 3, 8, 8))
    with pytest.raises(DataError, match="40 positions"):
        model(
            torch.ones(3, 41, dtype=torch.int64),
            visual_feats=fields["visual_feats"],
            visual_pos=fields["visual_pos"],
        )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"task_qa": False}, "task_qa = False is not supported for pre-training"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings = False"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        Model.from_config({**TINY, **changes}, task="pre-training")


def test_a_body_whose_pre_training_asked_no_questions() -> None:
    model = Model.from_config({**TINY, "task_qa": False})
    batch = Batch(**{name: x for name, x in random_inputs().ours.items() if name != "attention_mask"})
    assert model.network.states(batch, Flow()).shape == (3, 11, 32)


def test_published_configs_repeat_the_numbers_of_layers() -> None:
    counts = {"num_hidden_layers": {"vision": 2, "cross_encoder": 2, "language": 3}, "layer_norm_eps": 1e-12}
    assert Model.from_config({**TINY, **counts}).report.warnings == []
