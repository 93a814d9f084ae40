"""Options of a call by the names of the reference library: the same tensors, in the same tuples."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from glassformer import Model, Tape, load
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Output
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import make_folder

IDS = torch.tensor([[1, 4, 5, 2, 6], [1, 6, 7, 2, 0]])
MASK = torch.tensor([[1] * 5, [1] * 4 + [0]])
LAYERS = (
    "hidden_states attentions encoder_hidden_states encoder_attentions decoder_hidden_states decoder_attentions "
    "cross_attentions"
).split()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    made: dict[tuple[str, str | None], Path] = {}

    def folder(family: str, task: str | None = None) -> Path:
        if (family, task) not in made:
            made[family, task] = make_folder(tmp_path_factory.mktemp(family), family, task=task)
        return made[family, task]

    return folder


CASES = [
    ("bert", "feature-extraction"),
    ("bert", "text-classification"),
    ("gpt2", "text-generation"),
    ("llama", "feature-extraction"),
    ("distilbert", "token-classification"),
    ("t5", "translation"),
    ("bart", "translation"),
    ("vit", "image-classification"),
    ("wav2vec2", "automatic-speech-recognition"),
]


@pytest.mark.parametrize(("family", "task"), CASES)
@torch.no_grad()
def test_layers_are_those_of_the_reference(folders: Callable[..., Path], family: str, task: str) -> None:
    folder = folders(family, task)
    ours = load(folder)
    kind = getattr(transformers, ours.family.architecture(task))
    theirs = kind.from_pretrained(folder, attn_implementation="eager").eval()
    given: dict[str, Tensor] = {"input_ids": IDS}
    if ours.family.modality == "picture":
        given = {"pixel_values": torch.randn(2, 3, 8, 8)}
    elif ours.family.modality == "sound":
        given = {"input_values": torch.randn(2, 1600)}
    if ours.is_encoder_decoder and ours.family.modality is None:
        given["decoder_input_ids"] = IDS[:, :3]
    flags = {"output_hidden_states": True, "output_attentions": True}
    output, expected = ours(**given, **flags), theirs(**given, **flags)
    named = [name for name in LAYERS if expected.get(name)]
    assert named and named == [name for name in LAYERS if name in output]
    for name in named:
        for mine, other in zip(output[name], expected[name], strict=True):
            torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)
    tensors = [name for name in expected if isinstance(expected[name], Tensor)]
    assert [name for name in output if isinstance(output[name], Tensor)] == tensors
    torch.testing.assert_close(output[0], expected[0], atol=1e-5, rtol=1e-4)
    assert isinstance(ours(**given, return_dict=False), tuple)


@torch.no_grad()
def test_a_cache_in_and_out(folders: Callable[..., Path]) -> None:
    model = load(folders("gpt2", "text-generation"))
    whole = model(IDS, use_cache=False)
    assert whole.past_key_values is None and "past_key_values" not in whole
    first = model(IDS[:, :3], use_cache=True)
    assert isinstance(first.past_key_values, KeyValueCache) and first["past_key_values"] is first.cache
    rest = model(IDS[:, 3:], past_key_values=first.past_key_values)
    torch.testing.assert_close(rest.logits, whole.logits[:, 3:])
    encoder = load(folders("bert", "text-classification"))
    assert "past_key_values" not in encoder(IDS, use_cache=True), "there is nothing to cache"


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize(("family", "task"), [("gpt2", "text-generation"), ("bart", "translation")])
def test_a_loop_over_the_cache_of_each_output_reads_the_whole_text(
    folders: Callable[..., Path], family: str, task: str, gradients: bool
) -> None:
    model, ids = load(folders(family, task)), IDS
    with torch.set_grad_enabled(gradients):
        given = {} if family == "gpt2" else {"encoder_outputs": model.get_encoder()(IDS)}
        name = "decoder_input_ids" if given else "input_ids"
        output = model(**given, **{name: ids})
        for _ in range(3):
            new = output.logits[:, -1:].argmax(-1)
            ids = torch.cat([ids, new], dim=1)
            output = model(**given, **{name: new}, past_key_values=output.past_key_values)
            whole = model(**given, **{name: ids}, use_cache=False).logits[:, -1:]
            torch.testing.assert_close(output.logits, whole, atol=1e-5, rtol=1e-5)
    assert output.past_key_values is not None and output.past_key_values.length == ids.shape[1]


@torch.no_grad()
def test_the_config_decides_whether_a_call_begins_a_cache(folders: Callable[..., Path]) -> None:
    model = load(folders("gpt2", "text-generation"))
    assert list(model(IDS)) == ["logits", "past_key_values"] and model(IDS, return_dict=False)[1].length == 5
    assert "past_key_values" not in model(IDS, tape=Tape("final"))
    model.config["use_cache"] = False
    assert "past_key_values" not in model(IDS) and "past_key_values" in model(IDS, use_cache=True)
    model.config["use_cache"] = True
    model.train().gradient_checkpointing_enable()
    assert "past_key_values" not in model(IDS)
    bart = load(folders("bart", "translation"))
    assert "past_key_values" in bart(IDS) and "past_key_values" not in bart(IDS, labels=IDS)
    for family in ("bert", "clip_text_model"):
        assert "past_key_values" not in load(folders(family, None))(IDS)


def test_gradients_flow_through_the_caches_of_several_calls(folders: Callable[..., Path]) -> None:
    model, whole = (load(folders("gpt2", "text-generation")) for _ in range(2))
    past, parts = None, []
    for part in IDS.split([2, 1, 2], dim=1):
        output = model(part, past_key_values=past)
        past = output.past_key_values
        parts.append(output.logits)
    torch.cat(parts, dim=1).square().sum().backward()
    whole(IDS).logits.square().sum().backward()
    for ours, expected in zip(model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, expected.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("family", "given", "error", "words"),
    [
        ("gpt2", {"past_key_values": ((1,),)}, ConfigError, "KeyValueCache"),
        ("gpt2", {"past_key_values": KeyValueCache(), "cache": KeyValueCache()}, ConfigError, "two names of one thing"),
        ("gpt2", {"inputs_embeds": torch.ones(1, 2, 8)}, ConfigError, "two forms of one input"),
        ("gpt2", {"head_mask": torch.ones(1)}, ConfigError, "no 'head_mask'; replace.*Tape"),
        ("gpt2", {"output_attentions": True, "tape": Tape("final")}, ConfigError, "leave them out, and name"),
        ("bart", {"encoder_outputs": (1,)}, DataError, r"it must hold states \[B, S, "),
        ("gpt2", {"encoder_outputs": (1,)}, ConfigError, "those of an encoder-decoder"),
        ("bart", {"labels": torch.ones(3)}, DataError, "int64 of shape"),
        ("lxmert", {"output_hidden_states": True}, UnsupportedError, "record what you want with a tape"),
    ],
)
def test_what_is_refused_says_what_to_write(
    folders: Callable[..., Path], family: str, given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        load(folders(family))(IDS, **given)


def test_what_means_nothing_is_taken(folders: Callable[..., Path]) -> None:
    model = load(folders("gpt2"))
    nothing = dict.fromkeys(("inputs_embeds", "head_mask", "past_key_values", "use_cache", "return_dict"))
    assert torch.equal(model(IDS, **nothing, output_attentions=False).logits, model(IDS).logits)


@pytest.mark.parametrize("family", ["t5", "bart", "mbart", "whisper"])
@torch.no_grad()
def test_labels_make_the_inputs_of_a_decoder(folders: Callable[..., Path], family: str) -> None:
    """As the reference library shifts them; mBART begins with the last token of a text."""
    folder = folders(family)
    ours = load(folder, overrides={"pad_token_id": 0, "decoder_start_token_id": 2})
    kind = getattr(transformers, ours.family.architecture(ours.task))
    theirs = kind.from_pretrained(folder, pad_token_id=0, decoder_start_token_id=2).eval()
    source = {"input_features": torch.randn(2, 4, 12)} if family == "whisper" else {"input_ids": IDS}
    labels = torch.tensor([[4, 5, 6], [7, 2, -100]])
    output, expected = ours(**source, labels=labels), theirs(**source, labels=labels)
    torch.testing.assert_close(output.logits, expected.logits, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(output.loss, expected.loss, atol=1e-5, rtol=1e-4)
    assert output[0] is output.loss


def test_labels_alone_need_a_start_token(folders: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="no decoder_start_token_id"):
        load(folders("t5"), overrides={"decoder_start_token_id": None})(IDS, labels=IDS)


def test_pictures_and_sounds_without_a_name(folders: Callable[..., Path]) -> None:
    for family, x in (("vit", torch.randn(1, 3, 8, 8)), ("wav2vec2", torch.randn(1, 1600))):
        model = load(folders(family))
        assert torch.equal(model(x)[0], model(**{model.network.READS[0]: x})[0])


def test_padding_has_the_positions_of_the_reference(folders: Callable[..., Path]) -> None:
    """Nobody looks at it; whoever compares whole tensors, or forgets the mask when pooling, sees the same numbers."""
    folder = folders("bert", "feature-extraction")
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    ours = load(folder)(IDS, MASK).last_hidden_state
    torch.testing.assert_close(ours, theirs(IDS, MASK).last_hidden_state, atol=1e-5, rtol=1e-4)


def test_an_output_is_a_mapping() -> None:
    output = Output(logits=torch.ones(2), last_hidden_state=torch.zeros(3), cache=KeyValueCache())
    assert list(output.keys()) == ["logits", "past_key_values"] and len(output) == 2
    assert output[0] is output["logits"] is output.logits and output[:1] == (output.logits,)
    assert output.to_tuple() == tuple(output.values()) and dict(output)["logits"] is output.logits
    assert output["last_hidden_state"] is output.last_hidden_state and "last_hidden_state" in output.present()
    assert "loss" not in output or output.get("loss") is None
    for wrong in ("loss", "nothing", "present"):
        with pytest.raises(KeyError, match="is not in this output, which has logits, past_key_values"):
            output[wrong]
    with pytest.raises(IndexError):
        output[2]
    again = Output(dict(output))
    assert again.logits is output.logits and again.cache is output.cache
    assert pickle.loads(pickle.dumps(again)).logits.shape == (2,)


def test_flags_of_the_config_count(folders: Callable[..., Path]) -> None:
    model: Model = load(folders("bert", "text-classification"), output_hidden_states=True)
    assert len(model(IDS).hidden_states or ()) == 2 and "attentions" not in model(IDS)
    assert "hidden_states" not in model(IDS, output_hidden_states=False)
    assert list(model(IDS, tape=Tape("final")).taps) == ["final"], "a tape comes before the config"


def test_encoder_outputs_of_other_rows_are_refused() -> None:
    model = Model.from_config(FAMILIES["bart"].tiny).eval()
    ids = torch.tensor([[4, 5, 6], [7, 8, 9]])
    states = model(input_ids=ids, decoder_input_ids=ids).encoder_last_hidden_state
    assert model(encoder_outputs=(states[:1],), decoder_input_ids=ids).last_hidden_state.shape[:2] == ids.shape
    with pytest.raises(DataError, match="encoder_outputs has 4 rows, decoder_input_ids 2; give as many, or 1"):
        model(encoder_outputs=(states.repeat(2, 1, 1),), decoder_input_ids=ids)
