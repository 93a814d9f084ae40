"""Fused steps of generation: what the plain path computes, and taken only where nobody could tell."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer import Model
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, EncoderOutput, Flow, Tape
from glassformer.core.stack import Stack
from glassformer.engine import native
from glassformer.engine.decode_step import DecodeStep
from glassformer.engine.prepare import prepare, unprepare
from glassformer.errors import WeightsError
from glassformer.generation.audio_codes import continue_codes, convert_codes
from glassformer.models import FAMILIES, Network
from tests.core.small import perturbed
from tests.parity.families import DECODERS, ROWS, Row

needs_kernels = pytest.mark.skipif(not native.available(), reason="needs numba and an x86 processor")
WRITERS = [*(row for row in ROWS if row.translates), *DECODERS]
OFTEN = ("llama", "gemma2", "t5", "mixtral", "stablelm")
VARIED = [
    pytest.param(row, name, marks=() if row.family in OFTEN else pytest.mark.soak)
    for row in WRITERS
    for name in row.variations
]


def network_of(row: Row, **changes: Any) -> Network:
    torch.manual_seed(0)
    network = Model.from_config(row.config(row.main, **changes), task=row.record.architectures[row.main]).eval().network
    perturbed(network)
    return network


def tiny(family: str = "llama") -> Network:
    return network_of(next(row for row in WRITERS if row.family == family))


def stack_of(network: Network) -> Stack:
    return list(network.stacks().values())[-1]


@torch.inference_mode()
def logits(network: Network, B: int = 1, T: int = 1, padded: bool = False, tape: Tape | None = None) -> Tensor:
    """Logits of a prompt of five tokens in B rows, and of two steps of T tokens each."""
    draw = torch.Generator().manual_seed(1)
    cache, memory = KeyValueCache(), None
    if "input_features" in network.READS:
        stem = network.encoder.embed.spec  # type: ignore[union-attr]
        features = torch.randn(B, stem.bins, 2 * stem.positions, generator=draw)  # type: ignore[union-attr, arg-type]
        memory = network.memory(Batch(input_features=features), Flow())
    elif "decoder_input_ids" in network.READS:
        source = torch.randint(3, network.vocabulary - 1, (B, 6), generator=draw)
        keep = torch.arange(6) < torch.tensor([4] + [6] * (B - 1))[:, None]
        memory = network.memory(Batch(input_ids=source), Flow(keep=keep[:, None] if padded else None))
    ids = torch.randint(3, network.target_vocabulary - 1, (B, 5 + 2 * T), generator=draw)
    begins = torch.ones(B, 1, 5, dtype=torch.bool)
    begins[0, 0, :2] = not padded
    found, read = [], 0
    for part in ids.split([5, T, T], dim=1):
        read += part.shape[1]
        keep = F.pad(begins, (0, read - 5), value=True) if padded else None
        if memory is None:
            batch, flow = Batch(input_ids=part), Flow(keep=keep, cache=cache, tape=tape)
        else:
            batch = Batch(decoder_input_ids=part, decoder_keep=keep)
            flow = Flow(memory=memory, cache=cache, tape=tape)
        output = network(batch, flow).logits
        assert output is not None
        found.append(output)
    return torch.cat(found, 1)


def off(got: Tensor, wanted: Tensor) -> float:
    return ((got - wanted).abs().max() / wanted.abs().max()).item()


def programs(network: Network) -> int:
    """How many programs of steps a network has made."""
    fused = stack_of(network).few_tokens
    return sum(map(len, fused._programs.values())) if isinstance(fused, DecodeStep) else 0


@needs_kernels
@pytest.mark.parametrize("row", WRITERS, ids=lambda row: row.family)
def test_every_family_that_writes_computes_the_same(row: Row) -> None:
    network = network_of(row)
    for form in ((1, 1, False), (2, 1, True), (2, 3, True), (8, 1, False)):
        wanted = logits(network, *form)
        got = logits(prepare(network, "fp32"), *form)  # type: ignore[arg-type]
        assert programs(network)
        assert off(got, wanted) < 1e-5
        unprepare(network)
    assert stack_of(network).few_tokens is None


@needs_kernels
@pytest.mark.parametrize(("row", "name"), VARIED)
def test_whatever_a_config_says(row: Row, name: str) -> None:
    network = network_of(row, **row.variations[name])
    wanted = logits(network, 2, 1, padded=True)
    assert off(logits(prepare(network, "fp32"), 2, 1, padded=True), wanted) < 1e-5  # type: ignore[arg-type]


def code_model(family: str) -> Model:
    """A model over codes of three codebooks."""
    torch.manual_seed(0)
    changes = {"codebooks": 3, "vocab_size": 17} if family == "transformer" else {}
    task = None if changes else "text-to-audio"
    model = Model.from_config({**FAMILIES[family].tiny, **changes}, task=task).eval()
    perturbed(model.network)
    return model


@torch.inference_mode()
def code_logits(network: Network, memory: Tensor | None) -> Tensor:
    """Logits of two rows of codes: a prompt of five frames, and three steps."""
    draw, cache = torch.Generator().manual_seed(1), KeyValueCache()
    name = "decoder_input_ids" if "decoder_input_ids" in network.READS else "input_ids"
    states = None if memory is None else EncoderOutput(memory, torch.tensor([[[True] * 6], [[True] * 4 + [False] * 2]]))
    found = []
    for part in torch.randint(0, 16, (2, 8, 3), generator=draw).split([5, 1, 1, 1], dim=1):
        output = network(Batch(**{name: part}), Flow(cache=cache, memory=states)).logits
        assert output is not None
        found.append(output)
    return torch.cat(found, 1)


@needs_kernels
def test_codes_beside_a_memory_and_alone() -> None:
    made = torch.randn(2, 6, FAMILIES["transformer"].tiny["d_model"], generator=torch.Generator().manual_seed(2))
    for family, memories in {"musicgen_decoder": [None, made, None], "transformer": [made]}.items():
        network = code_model(family).network
        wanted = [code_logits(network, memory) for memory in memories]
        prepare(network, "fp32")
        assert all(off(code_logits(network, memory), w) < 1e-5 for memory, w in zip(memories, wanted, strict=True))
        assert programs(network) == len(set(memories))


@needs_kernels
def test_generated_codes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = torch.randint(0, 16, (3, 20), generator=torch.Generator().manual_seed(1))
    player, effect = code_model("musicgen_decoder"), code_model("transformer")
    wanted = continue_codes(player.network, codes[:, :4], 16, do_sample=False), convert_codes(effect.network, codes)
    taken = calls(player.network, monkeypatch)
    got = player.continue_codes(codes[:, :4], 16, do_sample=False), effect.convert_codes(codes)
    assert all(map(torch.equal, got, wanted))
    assert sum(taken) > 30


@needs_kernels
@pytest.mark.parametrize(("precision", "bound"), [("fp16", 2e-3), ("bf16", 2e-2), ("int8", 1e-1)])
@pytest.mark.parametrize("family", ["llama", "gpt2", "t5"])
def test_narrow_weights_are_near(family: str, precision: str, bound: float) -> None:
    network = tiny(family)
    wanted = logits(network, 3)
    got = logits(prepare(network, precision), 3)  # type: ignore[arg-type]
    assert programs(network) == 1
    assert 1e-5 < off(got, wanted) < bound


@pytest.fixture
def fused() -> Iterator[Network]:
    """A network that has made a step by the fused path."""
    if not native.available():
        pytest.skip("needs numba and an x86 processor")
    network = tiny()
    logits(prepare(network, "fp32"))  # type: ignore[arg-type]
    assert programs(network) == 2  # a prompt of five tokens, and one token
    yield network


def calls(network: Network, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Records of each call of the stack from now on: whether the fused path took it."""
    taken: list[bool] = []
    plain = DecodeStep.__call__

    def recorded(self: DecodeStep, stack: Stack, x: Tensor, flow: Flow) -> Tensor | None:
        y = plain(self, stack, x, flow)
        taken.append(y is not None)
        return y

    monkeypatch.setattr(DecodeStep, "__call__", recorded)
    return taken


def test_a_prompt_takes_the_plain_path_and_steps_the_fused_one(fused: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = calls(fused, monkeypatch)
    logits(fused, B=2, T=4)
    assert taken == [False, True, True]
    taken.clear()
    logits(fused, B=3, T=3)  # nine tokens are many
    assert not any(taken)


def test_whoever_listens_gets_the_plain_path(fused: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, wanted = calls(fused, monkeypatch), logits(fused)
    taken.clear()
    tape = Tape("blocks.*.attn.probs").attach(fused)
    assert off(logits(fused, tape=tape), wanted) < 1e-5
    assert tape.taps and not any(taken)
    seen: list[int] = []
    handle = stack_of(fused)[0].register_forward_hook(lambda *given: seen.append(1))
    logits(fused)
    assert len(seen) == 3 and not any(taken)
    handle.remove()
    fused.train()
    logits(fused)
    assert not any(taken)
    fused.eval()
    logits(fused)
    assert any(taken)


def test_gradients_take_the_plain_path(fused: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, cache = calls(fused, monkeypatch), KeyValueCache()
    with torch.no_grad():
        fused(Batch(input_ids=torch.tensor([[5, 6]])), Flow(cache=cache))
    output = fused(Batch(input_ids=torch.tensor([[7]])), Flow(cache=cache)).logits
    assert output is not None
    output.sum().backward()
    assert taken == [True, False]


def test_changed_weights_are_seen(fused: Network) -> None:
    with torch.no_grad():
        for parameter in stack_of(fused).parameters():
            parameter.mul_(1.1)
    got = logits(fused)
    assert off(got, logits(unprepare(fused))) < 1e-5  # type: ignore[arg-type]


def test_copies_and_pickles_make_programs_of_their_own(fused: Network) -> None:
    wanted = logits(fused)
    for other in (copy.deepcopy(fused), pickle.loads(pickle.dumps(fused))):
        assert programs(other) == 0
        assert torch.equal(logits(other), wanted)
        assert programs(other) == 2


def test_weights_that_are_nan_stay_nan(fused: Network) -> None:
    with torch.no_grad():
        stack_of(fused)[0].ffn.down.weight[0, 0] = torch.nan  # type: ignore[union-attr, index]
    assert logits(fused)[:, -1].isnan().all()
    model = Model.from_config(FAMILIES["llama"].tiny, task="text-generation").eval()
    with torch.no_grad():
        stack_of(model.network)[0].ffn.down.weight[0, 0] = torch.nan  # type: ignore[union-attr, index]
    with pytest.raises(WeightsError, match="NaN"):
        model.prepare("fp32").generate(torch.tensor([[5]]), max_new_tokens=20)


@needs_kernels
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_beams": 3},
        {"prompt_lookup_num_tokens": 3},
        {"do_sample": True, "seed": 3},
        {"num_return_sequences": 3, "do_sample": True, "seed": 1},
    ],
)
@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "mixtral", "t5", "bart", "marian"])
def test_every_method_writes_the_same_tokens(
    family: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = next(row for row in WRITERS if row.family == family)
    torch.manual_seed(0)
    model = Model.from_config(row.config(row.main), task=row.record.architectures[row.main]).eval()
    perturbed(model.network)
    ids = torch.tensor([[0, 0, 7, 8], [5, 9, 12, 4]])
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    if model.is_encoder_decoder:
        mask = mask.flip(1)
    rows = 1 if "prompt_lookup_num_tokens" in options else 2
    given = {"attention_mask": mask[-rows:], "max_new_tokens": 12, "min_new_tokens": 12, **options}
    wanted = model.generate(ids[-rows:], **given)
    taken = calls(model.network, monkeypatch)
    got = model.prepare("fp32").generate(ids[-rows:], **given)
    assert torch.equal(got, wanted)
    assert any(taken)


@needs_kernels
@pytest.mark.parametrize("family", ["llama", "t5"])
def test_a_program_made_by_generate_runs_in_plain_calls_too(family: str) -> None:
    """generate() runs in inference mode; what it leaves behind is written by calls outside of it."""
    task = "translation" if family == "t5" else "text-generation"
    model = Model.from_config(FAMILIES[family].tiny, task=task).eval()
    model.prepare("fp32")
    ids = torch.tensor([[5, 6, 7]])
    model.generate(ids, max_new_tokens=4, min_new_tokens=4)
    given = {"decoder_input_ids": ids[:, :1]} if family == "t5" else {}
    expected = []
    for mode in (torch.no_grad, torch.inference_mode, torch.no_grad):
        with mode():
            output = model(ids, **given)
            for _ in range(2):
                step = {"decoder_input_ids": ids[:, 1:2]} if family == "t5" else {}
                output = model(ids if family == "t5" else ids[:, 1:2], past_key_values=output.past_key_values, **step)
        expected.append(output.logits)
    assert torch.equal(expected[0], expected[1]) and torch.equal(expected[0], expected[2])
