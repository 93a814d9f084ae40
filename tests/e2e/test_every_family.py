"""Whatever the family: damaged folders are refused with the name of what is wrong, and a head of one's own goes on."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from glassformer import load
from glassformer.core import Flow, Head, Output, cross_entropy, first_token
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError, WeightsError
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import looked_at, make_folder, small_config, word_tokenizer
from tests.senses import CODECS, batch_of, network_of

WEIGHTS = "model.safetensors"
families = pytest.mark.parametrize("family", FAMILIES)
BODIES = [family for family, record in FAMILIES.items() if "feature-extraction" in record.tasks]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A whole folder of a family, made once; never changed."""
    home = tmp_path_factory.mktemp("whole")
    return lambda family: home / family if (home / family).exists() else make_folder(home / family, family)


@pytest.fixture
def folder(whole: Callable[[str], Path], family: str, tmp_path: Path) -> Path:
    """A folder of one's own to damage."""
    return Path(shutil.copytree(whole(family), tmp_path / "model"))


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / WEIGHTS).items()}
    (folder / WEIGHTS).unlink()
    save_file(change(tensors), folder / WEIGHTS, metadata={"format": "pt"})


def refused(error: type[GlassformerError], folder: Path, *parts: str, **options: object) -> None:
    with pytest.raises(GlassformerError) as caught:
        load(folder, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert type(caught.value) is error, message
    assert all(part in message for part in parts), message
    assert message.isprintable() and len(message) < 2_000


@families
def test_a_feature_that_is_not_supported_is_named(family: str, folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "q_lora_rank": 8}))
    refused(UnsupportedError, folder, "q_lora_rank = 8 changes what", repr(family))


@families
def test_a_key_that_nobody_knows_is_reported(family: str, folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "colour": "blue"}))
    assert any("colour" in warning for warning in load(folder).report.warnings)


@families
def test_a_head_that_it_has_not(family: str, folder: Path) -> None:
    refused(
        UnsupportedError,
        folder,
        "no head for 'depth-estimation'",
        *FAMILIES[family].tasks,
        task="depth-estimation",
    )


@families
def test_a_missing_tensor(family: str, folder: Path) -> None:
    name = largest(folder)
    rewrite(folder, lambda tensors: {key: x for key, x in tensors.items() if key != name})
    refused(WeightsError, folder, f"missing: {name} (for ")


@families
def test_a_surplus_tensor(family: str, folder: Path) -> None:
    rewrite(folder, lambda tensors: {**tensors, "surplus.weight": torch.zeros(2)})
    assert load(folder).report.unused == ["surplus.weight"]
    refused(WeightsError, folder, "surplus: surplus.weight", strict=True)


@families
def test_a_tensor_of_another_shape(family: str, folder: Path) -> None:
    name = largest(folder)
    rewrite(folder, lambda tensors: {**tensors, name: torch.cat([tensors[name]] * 2)})
    refused(WeightsError, folder, "misshapen: ", name)


@families
def test_nan_is_warned_of_by_name(family: str, folder: Path) -> None:
    """Where it shows: all weights are looked through only when an answer holds NaN."""
    name = largest(folder)
    rewrite(folder, lambda tensors: {**tensors, name: tensors[name] * torch.nan})
    model = load(folder)
    batch = batch_of(model.network, model.config, torch.tensor([[5, 6, 2]]))
    given = {field.name: getattr(batch, field.name) for field in fields(batch)}
    given = {name: x for name, x in given.items() if x is not None}
    with pytest.warns(UserWarning, match=r"the output holds NaN, because [1-9]\d* parameters of the model do: \w"):
        model(**given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(**given)  # said once


@families
def test_a_tokenizer_of_another_model(family: str, folder: Path) -> None:
    if not network_of(small_config(family)).vocabulary:
        pytest.skip("it has no vocabulary")
    word_tokenizer(words=[f"word{i}" for i in range(10_000)]).save(str(folder / "tokenizer.json"))
    refused(ConfigError, folder, "the tokenizer makes ids up to", "they belong to different models")


@families
def test_fields_that_it_does_not_read(family: str, whole: Callable[[str], Path]) -> None:
    model = load(whole(family))
    given = {
        "pixel_values": torch.zeros(1, 3, 8, 8),
        "input_values": torch.zeros(1, 900),
        "bbox": torch.zeros(1, 3, 4),
    }
    for name, x in given.items():
        if name not in model.network.READS:
            with pytest.raises(ConfigError, match=f"reads .*; it takes no {name}"):
                model(**{name: x})


@families
def test_nothing_given(family: str, whole: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigError, match=r"reads|needs"):
        load(whole(family))()


OPENERS = [family for family, record in FAMILIES.items() if record.modality]


@pytest.mark.parametrize("family", OPENERS)
def test_a_file_is_looked_at_and_written_about_or_refused(family: str, whole: Callable[[str], Path]) -> None:
    model = load(whole(family))
    file, *beside = looked_at(whole(family), family)
    if family in CODECS:
        with pytest.raises(UnsupportedError, match="has no stack of attention blocks"):
            model.inspect(file)
    else:
        session = model.inspect(file, *beside)
        assert session.texts[0] == file
    with pytest.raises(DataError, match="is inspected on the file of a"):
        model.inspect(file, "a text", "another")
    if "decoder_input_ids" in model.network.READS:
        assert isinstance(model.generate(file, max_new_tokens=3), str)
        assert len(model.generate([file, file], max_new_tokens=3)) == 2
    else:
        with pytest.raises(
            UnsupportedError, match=r"generates no text about a .* model\(\*\*model\.processor\(file\)\)"
        ):
            model.generate(file)


def test_a_model_of_texts_opens_nothing(whole: Callable[[str], Path]) -> None:
    with pytest.raises(DataError, match="a 'bert' model reads text only"):
        load(whole("bert")).processor  # noqa: B018


@pytest.mark.parametrize("family", OPENERS)
def test_a_folder_that_does_not_say_how_it_opens(family: str, folder: Path) -> None:
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(DataError, match=r"its folder holds no preprocessor_config\.json"):
        load(folder).processor  # noqa: B018


# --------------------------------------------------------------------------------------------- a head of one's own


class Tone(Head):
    """Three tones of voice, read off the first token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.ModuleList([nn.Linear(width, 5)])
        self.classifier = nn.Linear(5, 3)

    def forward(self, x: Tensor, flow: Flow) -> Output:
        return Output(logits=self.classifier(self.hidden[0](first_token(x, flow)).relu()))

    def loss(self, output: Output, labels: object) -> Tensor:
        assert output.logits is not None and isinstance(labels, Tensor)
        return cross_entropy(output.logits, labels)


@pytest.mark.parametrize("family", BODIES)
def test_a_head_of_ones_own(family: str, folder: Path, tmp_path: Path) -> None:
    model = load(folder, head=Tone)
    assert sorted(model.report.new) == [
        f"head.{name}" for name in ("classifier.bias", "classifier.weight", "hidden.0.bias", "hidden.0.weight")
    ]
    assert "head.hidden.0.*" in str(model.report) or "head.hidden" in str(model.report)
    network = model.network
    if len(network.stream_taps()) > 1 and "decoder_input_ids" not in network.READS:
        pytest.skip("two towers have no states in common that a head could read")
    ids = torch.tensor([[5, 6, 7]])
    batch = batch_of(network, model.config, ids)
    output = network(batch, Flow())
    assert output.logits is not None and output.logits.shape == (1, 3)
    assert "logits" in model.taps()
    network.head.loss(output, torch.tensor([2])).backward()  # type: ignore[union-attr]
    assert all(parameter.grad is not None for parameter in network.head.parameters())  # type: ignore[union-attr]

    model.save_pretrained(tmp_path / "saved")
    again = load(tmp_path / "saved", head=Tone)
    assert not again.report.new and not again.report.unused
    saved = again.state_dict()
    assert all(torch.equal(saved[name], x) for name, x in model.state_dict().items())
    assert set(load(tmp_path / "saved").report.unused) >= {"head.classifier.weight", "head.classifier.bias"}


def test_a_head_that_is_none(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert")
    with pytest.raises(ConfigError, match=r"head made a Linear; it must make a glassformer\.core\.Head"):
        load(folder, head=lambda width: nn.Linear(width, 2))  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match="were both given"):
        load(folder, head=Tone, task="fill-mask")


def largest(folder: Path) -> str:
    """The name of a matrix that every model of the family must have."""
    tensors = load_file(folder / WEIGHTS)
    return max((name for name in tensors if tensors[name].dim() > 1), key=lambda name: tensors[name].numel())
