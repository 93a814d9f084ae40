"""Folders with a step of generation as an ONNX file generate the tokens of the model that they were made from."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError, Model, UnsupportedError, WeightsError, load
from glassformer.cli.app import main
from glassformer.compression.structure import Parts, keep_layers
from glassformer.core import KeyValueCache
from glassformer.engine.onnx_network import OnnxNetwork
from glassformer.export import export_onnx
from glassformer.models import FAMILIES
from tests.core.small import perturbed

PROMPTS = ["Once upon a time there was", "Lily", "The little dog ran to the park and"]
Pair = tuple[Model, Model]


@pytest.fixture(scope="module")
def original(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first two layers of a small Llama that tells stories: a file of all five takes long to make."""
    folder = tmp_path_factory.mktemp("original")
    model = load(shared / "models" / "stories260k")
    keep_layers(Parts.of(model), [0, 1]).put_into(model)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its ONNX files."""
    folder = tmp_path_factory.mktemp("stories")
    export_onnx(load(original), folder)
    return folder


@pytest.fixture(scope="module")
def stories(original: Path, folder: Path) -> Pair:
    """The Llama, and what ONNX Runtime makes of its files."""
    return load(original), load(folder)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """An encoder-decoder without a tokenizer, and what ONNX Runtime makes of its files."""
    torch.manual_seed(0)
    config = {**FAMILIES["bart"].tiny, "decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
    source = Model.from_config(config, task="translation").eval()
    perturbed(source.network)
    folder = tmp_path_factory.mktemp("translator")
    export_onnx(source, folder)
    return source, load(folder)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_cache": False},
        {"num_beams": 3},
        {"do_sample": True, "temperature": 0.8, "seed": 1},
        {"num_return_sequences": 2, "do_sample": True, "seed": 3},
        {"prompt_lookup_num_tokens": 3},
        {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3},
        {"regex": "[a-z ]+"},
    ],
    ids=str,
)
def test_a_decoder_writes_the_same(stories: Pair, options: dict[str, object]) -> None:
    source, exported = stories
    assert isinstance(exported.network, OnnxNetwork)
    expected = [source.generate(prompt, max_new_tokens=24, **options) for prompt in PROMPTS]
    assert [exported.generate(prompt, max_new_tokens=24, **options) for prompt in PROMPTS] == expected
    assert len({str(text) for text in expected}) == len(PROMPTS)


def as_optimum_writes(step: Path, path: Path) -> None:
    """A step as one file by optimum's names: a mask of all tokens, positions, past_key_values.0.key, …"""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load(step)
    graph, renamed = model.graph, {"attention_mask": "own_mask"}
    for i in range(sum(x.name.startswith("keys_") for x in graph.input)):
        for ours, theirs in (("keys", "key"), ("values", "value")):
            renamed |= {f"{ours}_{i}": f"past_key_values.{i}.{theirs}", f"new_{ours}_{i}": f"present.{i}.{theirs}"}
    for node in graph.node:
        node.input[:] = [renamed.get(x, x) for x in node.input]
        node.output[:] = [renamed.get(x, x) for x in node.output]
    for entry in (*graph.input, *graph.output, *graph.value_info):
        entry.name = renamed.get(entry.name, entry.name)
    kept = [x for x in graph.input if x.name not in ("own_mask", "past_mask")]
    sizes = {"attention_mask": ["rows", "total"], "position_ids": ["rows", "tokens"]}
    masks = [helper.make_tensor_value_info(name, TensorProto.INT64, size) for name, size in sizes.items()]
    del graph.input[:]
    graph.input.extend([*kept, *masks])
    ends = {"zero": 0, "one": 1, "largest": 2**31 - 1}
    graph.initializer.extend([helper.make_tensor(f"at_{x}", TensorProto.INT64, [1], [n]) for x, n in ends.items()])
    split = [
        helper.make_node("Shape", ["past_key_values.0.key"], ["past"], start=2, end=3),
        helper.make_node("Cast", ["attention_mask"], ["whole_mask"], to=TensorProto.BOOL),
        helper.make_node("Slice", ["whole_mask", "at_zero", "past", "at_one"], ["past_mask"]),
        helper.make_node("Slice", ["whole_mask", "past", "at_largest", "at_one"], ["own_mask"]),
    ]
    nodes = [*split, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.save(model, path)


@pytest.fixture(scope="module")
def of_optimum(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Llama as optimum lays it out: one file, whose steps take whole texts too."""
    copy = tmp_path_factory.mktemp("optimum") / "stories"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.onnx"))
    as_optimum_writes(folder / "step.onnx", copy / "model.onnx")
    return copy


def test_a_file_of_optimum_with_past_keys_and_values_writes_the_same(
    original: Path, of_optimum: Path, folder: Path, tmp_path: Path
) -> None:
    source, exported = load(original), load(of_optimum)
    ids = [source.tokenizer(text).input_ids for text in PROMPTS]
    width = max(map(len, ids))
    padded = torch.tensor([[0] * (width - len(row)) + row for row in ids])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids])
    given = {"attention_mask": mask, "max_new_tokens": 16}
    for options in ({}, {"use_cache": False}, {"num_beams": 3}, {"prompt_lookup_num_tokens": 3}):
        assert torch.equal(exported.generate(padded, **given, **options), source.generate(padded, **given, **options))
    with torch.no_grad():
        whole, expected = (model(input_ids=padded, attention_mask=mask).logits for model in (exported, source))
        torch.testing.assert_close(whole[mask.bool()], expected[mask.bool()], atol=1e-4, rtol=1e-4)
        positions = torch.arange(width)[None]
        cache = KeyValueCache()
        kept = exported(input_ids=padded[:1], position_ids=positions, cache=cache).logits
        torch.testing.assert_close(kept, source(input_ids=padded[:1]).logits, atol=1e-4, rtol=1e-4)
    # a file whose layers lack values is none
    import onnx

    shutil.copytree(of_optimum, tmp_path / "copy")
    model = onnx.load(of_optimum / "model.onnx")
    model.graph.output.pop()
    onnx.save(model, tmp_path / "copy" / "model.onnx")
    with pytest.raises(UnsupportedError, match=r"nor as optimum writes it \(past_key_values\.0\.key, …"):
        load(tmp_path / "copy")


def test_two_programs_have_their_weights_once(folder: Path, stories: Pair, tmp_path: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    weights = 4 * stories[0].num_parameters()
    assert weights * 0.95 < sizes["weights.data"] < weights * 1.05
    for name in ("model.onnx", "step.onnx"):  # the operations alone, as many for large layers
        assert sizes[name] < 0.5 * weights, name
    # nor do they tell where the library is on the machine that made them
    source = str(Path(glassformer.__file__).parent).encode()
    assert not any(source in path.read_bytes() for path in folder.iterdir())
    # other weights are another model, though the programs are the same
    shutil.copytree(folder, tmp_path / "copy")
    data = tmp_path / "copy" / "weights.data"
    data.write_bytes(b"\0" * 64 + data.read_bytes()[64:])
    assert load(tmp_path / "copy").network.fingerprint() != stories[1].network.fingerprint()
    data.write_bytes(data.read_bytes()[:5_000])
    with pytest.raises(WeightsError, match=r"'weights\.data', which has 5,000; one of the two files is damaged"):
        load(tmp_path / "copy")
    data.unlink()
    with pytest.raises(WeightsError, match=r"in 'weights\.data', which is not there; copy that file next to it"):
        load(tmp_path / "copy")


def test_prompts_of_several_lengths(stories: Pair) -> None:
    """Padded on the left, and rows that end before others."""
    source, exported = stories
    ids = [source.tokenizer(text).input_ids for text in PROMPTS]
    width = max(map(len, ids))
    padded = torch.tensor([[0] * (width - len(row)) + row for row in ids])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids])
    rows = [model.generate(padded, attention_mask=mask, max_new_tokens=24) for model in stories]
    assert torch.equal(*rows)
    alone = exported.generate(torch.tensor([ids[1]]), max_new_tokens=24)
    assert rows[1][1, width:].tolist() == alone[0, len(ids[1]) :].tolist()


def test_streams_and_scores(stories: Pair) -> None:
    source, exported = stories
    pieces = list(exported.stream(PROMPTS[0], max_new_tokens=16))
    assert "".join(pieces) == source.generate(PROMPTS[0], max_new_tokens=16)
    ours, theirs = (model.generate(PROMPTS[0], max_new_tokens=8, return_scores=True) for model in stories)
    torch.testing.assert_close(theirs.logprobs, ours.logprobs, atol=1e-4, rtol=1e-4)


def test_the_command(original: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for place in (original, folder):
        with pytest.raises(SystemExit) as ended:
            main(["generate", str(place), PROMPTS[0], "--max-new-tokens", "16"])
        assert not ended.value.code
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and len(said[0].split()) > 3


def test_a_pipeline(original: Path, folder: Path) -> None:
    places = (original, folder)
    texts = [glassformer.pipeline("generate", str(place))(PROMPTS[1], max_new_tokens=12) for place in places]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("options", [{}, {"num_beams": 3, "num_return_sequences": 2}, {"use_cache": False}], ids=str)
def test_an_encoder_decoder_writes_the_same(translator: Pair, options: dict[str, object]) -> None:
    source, exported = translator
    assert exported.is_encoder_decoder and exported.num_parameters() > 0.9 * source.num_parameters()
    ids, mask = torch.randint(3, 20, (3, 7)), torch.ones(3, 7, dtype=torch.long)
    mask[1, 4:] = 0
    expected = source.generate(ids, attention_mask=mask, max_new_tokens=12, **options)
    assert torch.equal(exported.generate(ids, attention_mask=mask, max_new_tokens=12, **options), expected)
    target = torch.randint(3, 20, (3, 5))
    given = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": target}
    with torch.no_grad():
        torch.testing.assert_close(exported(**given).logits, source(**given).logits, atol=1e-4, rtol=1e-4)


def test_a_cache_is_continued(stories: Pair) -> None:
    ids = torch.tensor([stories[0].tokenizer(PROMPTS[0]).input_ids])
    cache = KeyValueCache()
    with torch.no_grad():
        exported = [stories[1](input_ids=part, cache=cache).logits for part in (ids[:, :3], ids[:, 3:])]
        torch.testing.assert_close(torch.cat(exported, 1), stories[0](input_ids=ids).logits, atol=1e-4, rtol=1e-4)
        with pytest.raises(ConfigError, match="holds 1 texts, the batch 2"):
            stories[1](input_ids=ids.repeat(2, 1), cache=cache)


REFUSED: dict[str, tuple[type[Exception], Callable[[Model], object]]] = {
    "contrastive search compares": (
        UnsupportedError,
        lambda model: model.generate(PROMPTS[0], penalty_alpha=0.6, top_k=4, max_new_tokens=4),
    ),
    "asked for its table of embeddings": (
        UnsupportedError,
        lambda model: model.generate(inputs_embeds=torch.zeros(1, 3, 64), max_new_tokens=4),
    ),
    "takes no position_ids": (
        ConfigError,
        lambda model: model(
            input_ids=torch.ones(1, 2).long(), position_ids=torch.tensor([[0, 1]]), cache=KeyValueCache()
        ),
    ),
    "the prompt is empty": (DataError, lambda model: model.generate(torch.ones(1, 0).long(), max_new_tokens=4)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_step_cannot_do(stories: Pair, what: str) -> None:
    error, call = REFUSED[what]
    with pytest.raises(error, match=what):
        call(stories[1])


def test_steps_that_are_missing_or_none(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    step = tmp_path / "copy" / "step.onnx"
    step.write_bytes(step.read_bytes()[:5_000])
    with pytest.raises((WeightsError, UnsupportedError), match=r"step\.onnx: .*; (copy it|export the model) again"):
        load(tmp_path / "copy")
    shutil.copy(folder / "model.onnx", step)
    with pytest.raises(UnsupportedError, match="is no step of text generation as it is written here"):
        load(tmp_path / "copy")
    step.unlink()
    with pytest.raises(UnsupportedError, match=r"without step\.onnx next to it; load the model"):
        load(tmp_path / "copy").generate(PROMPTS[0], max_new_tokens=4)
    assert load(tmp_path / "copy").generate(PROMPTS[0], max_new_tokens=2, use_cache=False)


def test_labels_alone(translator: Pair) -> None:
    with pytest.raises(UnsupportedError, match="give decoder_input_ids with them"):
        translator[1](input_ids=torch.tensor([[3, 4]]), labels=torch.tensor([[5, 2]]))
