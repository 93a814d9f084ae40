"""A trace measures what a Tape would keep, letter by letter and number by number."""

from __future__ import annotations

import weakref
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.errors import ConfigError
from glassformer.inspect import fold_layers, trace
from glassformer.inspect.trace import LETTERS, SLOW
from glassformer.models import FAMILIES, ConfigReader, Network
from tests.core.small import STACKS, fused_calls, perturbed
from tests.inspect.passes import KINDS, Plain, S, T, heard, network_of, pairs, reading_of
from tests.senses import CODE_MODELS, CODECS, SAMPLES

TASKS = [  # `make test` takes the first task of each family
    pytest.param(family, task, marks=() if task == record.tasks[0] else pytest.mark.soak)
    for family, record in FAMILIES.items()
    for task in record.tasks
]


def network_for(family: str, task: str) -> Network:
    record = FAMILIES[family]
    spec = record.spec(
        ConfigReader({**record.tiny, "vocab_size": 99} | ({} if family == "transformer" else {"num_labels": 5}))
    )
    return perturbed(record.build(spec, task))


@pytest.mark.parametrize("kind", KINDS)
def test_every_tap_but_scores_and_probs(kind: str) -> None:
    network = network_of(kind)
    rows = trace(network, reading_of(kind).batch)
    unheard = ".cross." if kind in CODE_MODELS else "nothing"  # of a pass without a memory
    left_out = [name for name in network.taps() if name.split(".")[-1] in SLOW or unheard in name]
    assert sorted(row.name for row in rows) == sorted(set(network.taps()) - set(left_out))
    assert left_out


@pytest.mark.parametrize("kind", KINDS)
def test_figures_are_those_of_the_tensors(kind: str) -> None:
    network, reading = network_of(kind), reading_of(kind)
    rows = trace(network, reading.batch, "*", "*.*")
    tensors = heard(network, reading, "*", "*.*")
    assert [row.name for row in rows] == list(tensors)  # in the order in which they are made
    for row in rows:
        tensor = tensors[row.name]
        assert row.shape == (1, *tensor.shape) and row.dtype == str(tensor.dtype).removeprefix("torch.")
        assert row.bytes == tensor.nbytes
        if not tensor.numel():  # an expert that no token chose
            assert row.mean is row.deviation is row.smallest is row.largest is None
            continue
        tensor = tensor.double()
        finite = tensor[tensor.isfinite()]
        assert row.mean == pytest.approx(float(finite.mean()), abs=1e-5)
        assert row.deviation == pytest.approx(float(finite.std(correction=0)), rel=1e-4, abs=1e-6)
        assert (row.smallest, row.largest) == (float(finite.min()), float(finite.max()))
        assert row.zeros == float((tensor == 0).double().mean())
        assert row.infinities == float(tensor.isinf().double().mean())
        assert row.nans == 0


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_the_letters_are_the_sizes(family: str, task: str) -> None:
    """All sizes differ, so that a letter at the wrong place shows."""
    network = network_for(family, task)
    tiny = FAMILIES[family].tiny
    key_heads, head_width = tiny.get("num_key_value_heads", 4), tiny.get("d_kv", tiny.get("head_dim", 8))
    masked = 128 if family in ("openai-gpt", "xlm") else 48  # always 4 D there
    sizes = {"B": 1, "D": 32, "H": 4, "E": head_width, "F": masked, "V": 99, "K": key_heads}
    reading = reading_of(family)
    batch, source = reading.batch, len(reading.streams.get("source", range(S)))
    tokens = len(next(iter(reading.streams.values()))) if len(reading.streams) == 1 else T
    if pairs(family) and task == "text-classification":  # reads one text twice, up to its end token
        end = torch.tensor([[FAMILIES[family].tiny["eos_token_id"]]])
        batch, source = Batch(input_ids=torch.cat([batch.decoder_input_ids[:, 1:], end], dim=1)), T
    alone = pairs(family) and len(network.stacks()) == 1  # an encoder without its decoder
    for row in trace(network, batch, "*", "*.*"):
        encoder = alone or row.name.startswith("encoder.")
        own = {
            **sizes,
            "T": source if encoder else tokens,
            "S": source if encoder or "cross" in row.name else tokens,
        }
        if row.name == "memory":
            own["S"] = source
        if family == "lxmert":  # a side of regions next to the text, and each reads the other
            regions = row.name.startswith("vision")
            own["T"] = len(reading.streams["image" if regions else "text"])
            own["S"] = len(reading.streams["image" if regions != (".cross." in row.name) else "text"])
            own["A"] = tiny["num_qa_labels"]
        if family == "clip":  # a tower of each kind, each of its own width
            tower = row.name.split(".")[0] if task == "zero-shot-image-classification" else "vision"
            config = tiny[f"{tower}_config"] if tower in ("text", "vision") else {}
            own["T"] = own["S"] = len(reading.streams["image" if tower == "vision" else "text"])
            own["D"] = config.get("hidden_size", 0)
            own["E"], own["F"] = own["D"] // 4, config.get("intermediate_size", 0)
        if family == "imagegpt":
            own["V"] -= 1  # its start token is never written
        own |= {"W": tiny["conv_dim"][-1]} if "conv_dim" in tiny else {}
        own |= {"X": 4, "N": 2, "R": row.shape[-2:][0]}  # how many tokens an expert gets is what the router says
        own["J"] = tiny.get("projection_dim", 0)
        if family in CODECS:
            own |= {"T": SAMPLES // 40, "P": SAMPLES, "Q": 3, "L": own["D"]}
            if family == "dac":  # an odd stride leaves out the last samples, and latents are projected
                own |= {"P": SAMPLES - 8, "L": tiny["n_codebooks"] * tiny["codebook_dim"]}
        if task == "text-to-audio":
            own["Q"] = tiny["num_codebooks"]
        own["O"] = tiny.get("num_aggregation_labels", 0)
        own["C"] = 2 if task in ("next-sentence-prediction", "pre-training") else 5
        assert tuple(own[letter] for letter in row.axes) == row.shape, row
        assert set(row.axes) <= set(LETTERS)


def test_only_layers_that_are_asked_for_leave_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    network, batch = network_of("bert"), reading_of("bert").batch
    for patterns, fused in (((), 3), (("blocks.1.attn.probs",), 2), (("attn.scores",), 0), (("final",), 3)):
        with fused_calls(monkeypatch) as calls:
            trace(network, batch, *patterns)
        assert len(calls) == fused


def test_no_tensor_is_kept() -> None:
    network = network_of("bert")
    alive: list[int] = []
    seen: list[weakref.ref[Tensor]] = []
    for block in network.blocks:
        block.ffn.register_forward_hook(lambda module, x, y: seen.append(weakref.ref(y)))
        block.register_forward_hook(lambda *_: alive.append(sum(ref() is not None for ref in seen)))
    rows = trace(network, reading_of("bert").batch)
    assert len(seen) == 3
    assert alive[-1] <= 1  # while the pass goes on, at most the layer at hand
    assert not any(ref() is not None for ref in seen)
    assert not any(isinstance(getattr(row, name), Tensor) for row in rows for name in row.__slots__)


def test_numbers_that_are_none() -> None:
    network = network_of("bert")
    with torch.no_grad():
        network.blocks[0].ffn.up.bias[:12] = torch.nan
        network.blocks[0].ffn.down.weight[:, :12] = 0
    rows = {row.name: row for row in trace(network, reading_of("bert").batch)}
    assert rows["blocks.0.ffn.neurons"].nans == 12 / 48
    assert rows["blocks.0.ffn.neurons"].largest is not None  # of the others
    last = rows["final"]
    assert (last.nans, last.mean, last.deviation, last.smallest, last.largest) == (1, None, None, None, None)


def test_hidden_keys_are_infinite_scores_and_zero_probs() -> None:
    rows = {row.name: row for row in trace(network_of("gpt2"), reading_of("gpt2").batch, "scores", "probs")}
    masked = (T - 1) / (2 * T)
    for layer in range(3):
        assert rows[f"blocks.{layer}.attn.scores"].infinities == pytest.approx(masked)
        assert rows[f"blocks.{layer}.attn.probs"].zeros == pytest.approx(masked)
        assert rows[f"blocks.{layer}.attn.probs"].mean == pytest.approx(1 / T)


def test_half_precision_is_measured_in_single() -> None:
    network = network_of("bert", torch.float16)
    with torch.no_grad():
        network.blocks[0].attn.qkv.bias.fill_(300.0)  # whose squares are beyond 65,504
    row = trace(network, reading_of("bert").batch, "blocks.0.attn.q")[0]
    assert row.dtype == "float16" and row.bytes == 2 * T * 32
    assert row.mean == pytest.approx(300, abs=10) and row.deviation is not None and 0 < row.deviation < 20


def test_a_pattern_that_matches_nothing() -> None:
    with pytest.raises(ConfigError, match=r"no tap matches 'attn.prob'; nearest"):
        trace(network_of("bert"), reading_of("bert").batch, "attn.prob")


# ------------------------------------------------------------------------------------------------------- folding


def test_equal_neighbours_are_one_and_show_the_first() -> None:
    network = network_of("bert")
    rows = trace(network, reading_of("bert").batch)
    layers = fold_layers(rows)
    assert [(layer.path, layer.repeats) for layer in layers] == [("", 1), ("blocks.0-2", 3), ("", 1)]
    by_name = {row.name: row for row in rows}
    assert list(layers[1].rows) == [
        "before", "attn.q", "attn.k", "attn.v", "attn.z", "attn.out", "mid", "ffn.neurons", "ffn.out", "out"
    ]  # fmt: skip
    assert all(by_name[f"blocks.0.{name}"] is row for name, row in layers[1].rows.items())
    each = fold_layers(rows, separate=True)
    assert [layer.path for layer in each] == ["", "blocks.0", "blocks.1", "blocks.2", ""]
    assert [row for layer in each for row in layer.rows.values()] == rows


def test_an_encoder_and_its_decoder_are_apart() -> None:
    rows = trace(network_of("transformer"), reading_of("transformer").batch)
    assert [(layer.path, list(layer.rows)) for layer in fold_layers(rows) if not layer.stack] == [
        ("", ["encoder.embed.out"]), ("", ["memory", "decoder.embed.out"]), ("", ["final", "logits"])
    ]  # fmt: skip
    assert [layer.path for layer in fold_layers(rows) if layer.stack] == [
        "encoder.blocks.0-2",
        "decoder.blocks.0-1",
    ]


def test_layers_that_differ_are_not_folded() -> None:
    rows = trace(network_of("bert"), reading_of("bert").batch, "blocks.1.attn.probs", "blocks.*.out")
    assert [layer.path for layer in fold_layers(rows)] == ["blocks.0", "blocks.1", "blocks.2"]
    rows = trace(network_of("bert"), reading_of("bert").batch, "blocks.0.out", "blocks.2.out")
    assert [layer.path for layer in fold_layers(rows)] == ["blocks.0", "blocks.2"]  # these are no neighbours


def test_two_stacks_of_one_form_are_not_one() -> None:
    rows = trace(Plain(STACKS["post-norm"]), Batch(input_ids=torch.zeros(1, 3, dtype=torch.long)), "blocks.*.out")
    other = [replace(row, name=row.name.replace("blocks", "more")) for row in rows]
    assert [layer.path for layer in fold_layers([*rows, *other])] == ["blocks.0-1", "more.0-1"]
