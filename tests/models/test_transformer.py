"""The transformer of 2017 next to torch.nn.Transformer with copied weights; what the paper adds is written out here."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core import Batch, Flow, Tape
from glassformer.core.cache import KeyValueCache
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.generation.generate import greedy_search
from glassformer.models import FAMILIES, ConfigReader, Network
from glassformer.models.transformer import PAPER_BASE, Transformer, shift_right
from glassformer.weights.load import export_weights, load_weights
from glassformer.weights.read import open_checkpoint
from glassformer.weights.write import write_checkpoint

FAMILY = FAMILIES["transformer"]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-9}
PAD, START, END = 0, 1, 2


def build(**changes: Any) -> Transformer:
    """A tiny network in which every parameter is away from its first value: a lost bias or gain shows."""
    torch.manual_seed(0)
    spec = FAMILY.spec(ConfigReader({**FAMILY.tiny, **changes}))
    network = FAMILY.build(spec, "translation")
    FAMILY.initialise(network, spec)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    assert isinstance(network, Transformer)
    return network.eval()


def rows(seed: int, lengths: list[int], vocabulary: int = 99) -> Tensor:
    """Random ids, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = torch.randint(3, vocabulary, (length,), generator=generator)
    return ids


@pytest.fixture
def source() -> Tensor:
    return rows(1, [7, 4, 6])


@pytest.fixture
def target() -> Tensor:
    return rows(2, [5, 6, 2])


def call(network: Network, source: Tensor, target: Tensor, tape: Tape | None = None) -> Tensor:
    """Logits of a padded batch. [B, T, V]"""
    batch = Batch(input_ids=source, decoder_input_ids=target, decoder_keep=(target != PAD)[:, None])
    logits = network(batch, Flow(keep=(source != PAD)[:, None], tape=tape)).logits
    assert logits is not None
    return logits


# ------------------------------------------------------------------------------------------- the reference


class Reference(nn.Module):
    """torch.nn.Transformer between what it leaves to its users: tables, sinusoids, output projection."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        width, first = config["d_model"], config["norm_first"]
        options: dict[str, Any] = {
            "d_model": width,
            "nhead": config["num_heads"],
            "dim_feedforward": config["d_ff"],
            "dropout": 0.0,
            "activation": "relu",
            "batch_first": True,
            "norm_first": first,
        }
        self.core = nn.Transformer(
            **options,
            custom_encoder=nn.TransformerEncoder(
                nn.TransformerEncoderLayer(**options),
                config["encoder_layers"],
                norm=nn.LayerNorm(width) if first else None,
                enable_nested_tensor=False,
            ),
            custom_decoder=nn.TransformerDecoder(
                nn.TransformerDecoderLayer(**options),
                config["decoder_layers"],
                norm=nn.LayerNorm(width) if first else None,
            ),
        )
        self.source_table = nn.Parameter(torch.zeros(config["vocab_size"], width))
        self.target_table = nn.Parameter(torch.zeros(config["vocab_size"], width))
        self.projection = nn.Parameter(torch.zeros(config["vocab_size"], width))

    def embedded(self, table: Tensor, ids: Tensor) -> Tensor:
        width = self.config["d_model"]
        waves = torch.zeros(ids.shape[1], width, dtype=table.dtype)
        for p in range(ids.shape[1]):
            for i in range(0, width, 2):
                angle = p / 10_000 ** (i / width)
                waves[p, i], waves[p, i + 1] = math.sin(angle), math.cos(angle)
        return table[ids] * math.sqrt(width) + waves

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        T = target.shape[1]
        states = self.core(
            self.embedded(self.source_table, source),
            self.embedded(self.target_table, target),
            tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
            src_key_padding_mask=source == PAD,
            memory_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
        )
        return states @ self.projection.T

    def copy(self, network: Transformer) -> Reference:
        """Take over the weights, name by name; nothing of ours may be left over."""
        ours = {name: p.detach().clone() for name, p in network.named_parameters(remove_duplicate=False)}
        slot = "before" if self.config["norm_first"] else "on_residual"
        theirs = {
            "source_table": ours.pop("encoder.embed.tokens.weight"),
            "target_table": ours.pop("decoder.embed.tokens.weight"),
            "projection": ours.pop("head.decoder.weight"),
        }
        for stream in ("encoder", "decoder"):
            modules = {
                "self_attn.out_proj": "attn.out",
                "norm1": f"attn_residual.{slot}",
                "linear1": "ffn.up",
                "linear2": "ffn.down",
                "norm2" if stream == "encoder" else "norm3": f"ffn_residual.{slot}",
            }
            if stream == "decoder":
                modules |= {"multihead_attn.out_proj": "cross.out", "norm2": f"cross_residual.{slot}"}
            for i in range(self.config[f"{stream}_layers"]):
                for leaf in ("weight", "bias"):
                    there, here = f"core.{stream}.layers.{i}", f"{stream}.blocks.{i}"
                    theirs[f"{there}.self_attn.in_proj_{leaf}"] = ours.pop(f"{here}.attn.qkv.{leaf}")
                    for their, our in modules.items():
                        theirs[f"{there}.{their}.{leaf}"] = ours.pop(f"{here}.{our}.{leaf}")
                    if stream == "decoder":
                        parts = [ours.pop(f"{here}.cross.{part}.{leaf}") for part in ("q", "kv")]
                        theirs[f"{there}.multihead_attn.in_proj_{leaf}"] = torch.cat(parts)
            if self.config["norm_first"]:
                for leaf in ("weight", "bias"):
                    theirs[f"core.{stream}.norm.{leaf}"] = ours.pop(f"{stream}.final_norm.{leaf}")
        assert not ours
        self.load_state_dict(theirs, strict=True)
        return self


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
def test_same_numbers_and_gradients_as_torch(
    norm_first: bool, tied: bool, dtype: torch.dtype, source: Tensor, target: Tensor
) -> None:
    changes = {"norm_first": norm_first, "tie_embeddings": tied}
    network = build(**changes).to(dtype)
    reference = Reference({**FAMILY.tiny, **changes}).to(dtype).copy(network)
    network.train(), reference.train()  # in eval mode torch takes a path of its own that zeroes padded rows
    ours, theirs = call(network, source, target), reference(source, target)
    real = target != PAD
    close(ours[real], theirs[real], dtype)

    labels = torch.where(real, target.roll(1, 0), -100)
    F.cross_entropy(ours.flatten(0, 1), labels.flatten()).backward()
    F.cross_entropy(theirs.flatten(0, 1), labels.flatten()).backward()
    tables = [reference.source_table.grad, reference.target_table.grad, reference.projection.grad]
    assert all(grad is not None for grad in tables)
    if tied:  # one table collects what three would
        close(network.encoder.embed.tokens.weight.grad, sum(tables), dtype)
    else:
        tied = [network.encoder.embed.tokens, network.decoder.embed.tokens, network.head.decoder]
        for module, grad in zip(tied, tables, strict=True):
            close(module.weight.grad, grad, dtype)
    for i in range(2):
        here, there = network.decoder.blocks[i], reference.core.decoder.layers[i]
        close(here.attn.qkv.weight.grad, there.self_attn.in_proj_weight.grad, dtype)
        both = torch.cat([here.cross.q.weight.grad, here.cross.kv.weight.grad])
        close(both, there.multihead_attn.in_proj_weight.grad, dtype)
        close(here.ffn.up.bias.grad, there.linear1.bias.grad, dtype)


def close(ours: Tensor | None, theirs: Any, dtype: torch.dtype) -> None:
    assert ours is not None
    torch.testing.assert_close(ours, theirs, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


# ------------------------------------------------------------------------------------ masks, memory, cache


@pytest.fixture(params=[False, True], ids=["post-norm", "pre-norm"])
def network(request: pytest.FixtureRequest) -> Transformer:
    return build(norm_first=request.param)


def test_a_row_alone_equals_the_row_in_a_padded_batch(network: Transformer, source: Tensor, target: Tensor) -> None:
    batch = call(network, source, target)
    for row in range(len(source)):
        s, t = source[row], target[row]
        alone = network(Batch(input_ids=s[s != PAD][None], decoder_input_ids=t[t != PAD][None]), Flow()).logits
        close(batch[row : row + 1, : alone.shape[1]], alone, torch.float32)


def test_padding_on_the_left_gives_the_same(network: Transformer) -> None:
    source, target = rows(3, [5]), rows(4, [4])
    plain = call(network, source, target)
    padded = call(network, F.pad(source, (3, 0)), F.pad(target, (2, 0)))
    close(padded[:, 2:], plain, torch.float32)


def test_the_future_of_the_target_changes_nothing(network: Transformer, source: Tensor) -> None:
    target = rows(5, [6, 6, 6])
    before = call(network, source, target)
    changed = target.clone()
    changed[:, 4] = 7
    after = call(network, source, changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4], after[:, 4])


def test_every_place_of_the_source_matters(network: Transformer) -> None:
    source, target = rows(6, [5]), rows(7, [3])
    before = call(network, source, target)
    for i in range(source.shape[1]):
        changed = source.clone()
        changed[0, i] = 3 if source[0, i] != 3 else 4
        assert not torch.allclose(before[:, 0], call(network, changed, target)[:, 0])


def test_memory_is_computed_once_and_gives_the_same(
    network: Transformer, source: Tensor, target: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = (source != PAD)[:, None]
    memory = network.memory(Batch(input_ids=source), Flow(keep=keep))
    full = network(Batch(input_ids=source, decoder_input_ids=target), Flow(keep=keep))
    monkeypatch.setattr(network.encoder, "forward", None)  # the encoder must not run again
    reused = network(Batch(decoder_input_ids=target), Flow(memory=memory))
    assert torch.equal(reused.logits, full.logits)
    assert torch.equal(full.encoder_last_hidden_state, memory.states)


@pytest.mark.parametrize("chunks", [[2, 4], [1] * 6], ids=["two chunks", "token by token"])
def test_cached_in_pieces_equals_the_whole(network: Transformer, source: Tensor, chunks: list[int]) -> None:
    target, keep = rows(8, [6, 6, 6]), (source != PAD)[:, None]
    full = network(Batch(input_ids=source, decoder_input_ids=target), Flow(keep=keep)).logits
    memory, cache = network.memory(Batch(input_ids=source), Flow(keep=keep)), KeyValueCache()
    pieces = [
        network(Batch(decoder_input_ids=piece), Flow(memory=memory, cache=cache)).logits
        for piece in target.split(chunks, dim=1)
    ]
    close(torch.cat(pieces, dim=1), full, torch.float32)


def test_greedy_is_the_same_cached_or_not_and_row_by_row(network: Transformer, source: Tensor) -> None:
    keep = (source != PAD)[:, None]
    start = torch.full((3, 1), START)
    options: dict[str, Any] = {"max_new_tokens": 12, "stop_ids": (END,), "pad_id": PAD}
    memory = {"encoder_batch": Batch(input_ids=source), "encoder_keep": keep}
    cached = greedy_search(network, start, **memory, **options)
    assert torch.equal(cached, greedy_search(network, start, **memory, **options, cached=False))
    for row in range(3):
        alone = Batch(input_ids=source[row][source[row] != PAD][None])
        answer = greedy_search(network, start[:1], encoder_batch=alone, **options)[0]
        assert torch.equal(answer, cached[row, : len(answer)])
    assert len({tuple(row) for row in cached.tolist()}) > 1  # the rows differ, so the memory was read


def test_greedy_with_prompts_padded_on_the_left(network: Transformer, source: Tensor) -> None:
    keep = (source != PAD)[:, None]
    memory = {"encoder_batch": Batch(input_ids=source), "encoder_keep": keep}
    prompts = torch.tensor([[PAD, PAD, START], [PAD, START, 5], [START, 6, 7]])
    cached, plain = (
        greedy_search(network, prompts, keep=prompts != PAD, max_new_tokens=8, **memory, cached=cached)
        for cached in (True, False)
    )
    assert torch.equal(cached, plain)
    one = greedy_search(network, prompts[:1, 2:], encoder_batch=Batch(input_ids=source[:1]), max_new_tokens=8)
    assert torch.equal(cached[0, 2:], one[0])


# ---------------------------------------------------------------------------------------------------- taps


def test_taps_have_their_names_and_all_fire(source: Tensor, target: Tensor) -> None:
    deep = build(decoder_layers=5)
    names = deep.taps()
    for name in (
        "encoder.embed.out",
        "encoder.blocks.0.attn.probs",
        "encoder.blocks.2.out",
        "memory",
        "decoder.embed.out",
        "decoder.blocks.4.attn.probs",
        "decoder.blocks.4.cross.probs",
        "decoder.blocks.4.ffn.neurons",
        "final",
        "logits",
    ):
        assert name in names
    tape = Tape("*").attach(deep)
    logits = call(deep, source, target, tape)
    assert sorted(tape.taps) == sorted(names)
    assert torch.equal(tape.taps["logits"], logits)
    close(logits, call(deep, source, target), torch.float32)  # explicit attention = fused
    probs = tape.taps["decoder.blocks.4.cross.probs"]
    assert probs.shape == (3, 4, 6, 7)  # a rectangle: target by source
    assert bool((probs.permute(0, 3, 1, 2)[source == PAD] == 0).all())
    close(probs.sum(-1), torch.ones(3, 4, 6), torch.float32)


def test_each_decoder_block_has_its_own_view_of_one_memory(
    network: Transformer, source: Tensor, target: Tensor
) -> None:
    """The memory is one; keys and values are not: each block projects them anew."""
    tape = Tape("decoder.blocks.*.cross.k").attach(network)
    call(network, source, target, tape)
    first, second = tape.taps.values()
    assert not torch.allclose(first, second, atol=0.1)


def test_an_edited_memory_is_what_the_decoder_sees(network: Transformer, source: Tensor) -> None:
    target = rows(9, [3, 3, 3])
    tape = Tape(edit={"memory": lambda x: x[:1].expand_as(x)}).attach(network)
    edited = call(network, source[:1].expand(3, -1), target, tape)
    close(edited, call(network, source[:1].expand(3, -1), target), torch.float32)
    tape = Tape(edit={"memory": lambda x: x * 0}).attach(network)
    assert not torch.allclose(call(network, source, target, tape), call(network, source, target))


# -------------------------------------------------------------------------------- format, sizes, bad input


@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_weights_come_back_byte_equal(tmp_path: Path, tied: bool, norm_first: bool) -> None:
    network = build(tie_embeddings=tied, norm_first=norm_first)
    spec = FAMILY.spec(ConfigReader({**FAMILY.tiny, "tie_embeddings": tied, "norm_first": norm_first}))
    table = FAMILY.names(spec, "translation")
    tensors = export_weights(network, table, prefixed=True)
    assert set(tensors) == {name for name, _ in network.named_parameters()}  # names are our module paths
    write_checkpoint(tmp_path, tensors)
    with torch.device("meta"):
        again = FAMILY.build(spec, "translation")
    with open_checkpoint(tmp_path) as checkpoint:
        report = load_weights(again, checkpoint, table, strict=True)
    assert not report.new and not report.unused
    for name, parameter in network.named_parameters(remove_duplicate=False):
        assert torch.equal(again.get_parameter(name), parameter)
    tables = {again.get_parameter(n).data_ptr() for n in ("encoder.embed.tokens.weight", "head.decoder.weight")}
    assert len(tables) == (1 if tied else 2)
    assert (again.decoder.embed.tokens.weight is again.encoder.embed.tokens.weight) == tied  # type: ignore[union-attr]


def test_the_face_loads_what_it_saved(tmp_path: Path, source: Tensor, target: Tensor) -> None:
    from glassformer.model import Model, load

    torch.manual_seed(1)
    model = Model.from_config({**FAMILY.tiny, "norm_first": True}).eval()
    model.save_pretrained(tmp_path)
    again = load(tmp_path, strict=True)
    assert not again.report.warnings
    inputs = {
        "input_ids": source,
        "attention_mask": (source != PAD).long(),
        "decoder_input_ids": shift_right(target, START, PAD),
    }
    labels = target.masked_fill(target == PAD, -100)
    first, second = model(**inputs, labels=labels), again(**inputs, labels=labels)
    assert torch.equal(first.logits, second.logits)
    assert torch.equal(first.loss, second.loss)
    expected = F.cross_entropy(first.logits.flatten(0, 1), labels.flatten())
    close(first.loss, expected, torch.float32)
    again.save_pretrained(tmp_path / "twice")
    assert (tmp_path / "twice" / "model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


def test_the_papers_base_model_has_65_million_parameters() -> None:
    with torch.device("meta"):
        network = FAMILY.build(FAMILY.spec(ConfigReader(PAPER_BASE)), "translation")
    count = sum(p.numel() for p in network.parameters())
    assert count == 63_082_496  # table 3 of the paper says 65 · 10⁶
    assert round(count / 65e6, 1) == 1.0


def test_fresh_tables_are_as_large_as_the_positions() -> None:
    spec = FAMILY.spec(ConfigReader({**FAMILY.tiny, "vocab_size": 2000}))
    network = FAMILY.build(spec, "translation")
    FAMILY.initialise(network, spec)
    assert network.get_parameter("head.decoder.weight").std().item() == pytest.approx(32**-0.5, rel=0.05)
    tape = Tape("encoder.embed.out").attach(network)
    call(network, rows(1, [30], 2000), rows(2, [3], 2000), tape)
    assert 0.8 < tape.taps["encoder.embed.out"].std().item() < 1.6
    blocks = [network.get_parameter(f"encoder.blocks.{i}.attn.qkv.weight") for i in range(3)]
    assert not torch.equal(blocks[0], blocks[1]) and not torch.equal(blocks[1], blocks[2])


def test_dropout_is_the_configs() -> None:
    config = {**FAMILY.tiny, "dropout": 0.25, "attention_dropout": 0.5, "activation_dropout": 0.125}
    network = FAMILY.build(FAMILY.spec(ConfigReader(config)), "translation")
    for stream in (network.encoder, network.decoder):  # type: ignore[union-attr]
        assert stream.embed.dropout.p == 0.25
        for block in stream.blocks:
            assert block.attn.spec.dropout == 0.5
            assert block.ffn.dropout.p == 0.125
            assert block.attn_residual.dropout.p == block.ffn_residual.dropout.p == 0.25
            if block.cross is not None:
                assert block.cross.spec.dropout == 0.5 and block.cross_residual.dropout.p == 0.25


def test_every_key_is_read_and_an_unknown_one_is_reported() -> None:
    reader = ConfigReader({**PAPER_BASE, "norm_first": True, "is_encoder_decoder": True, "swirl": 3})
    FAMILY.spec(reader)
    assert reader.unused_key_warnings() == ["config.json: swirl = 3 is not read"]
    with pytest.raises(UnsupportedError, match="is_encoder_decoder"):
        FAMILY.spec(ConfigReader({**PAPER_BASE, "is_encoder_decoder": False}))
    with pytest.raises(ConfigError, match="d_model"):
        FAMILY.spec(ConfigReader({"model_type": "transformer"}))
    with pytest.raises(ConfigError, match="width 512 is not a multiple of heads 7"):
        FAMILY.spec(ConfigReader({**PAPER_BASE, "num_heads": 7}))


def test_head_width_is_free(source: Tensor, target: Tensor) -> None:
    network = build(d_model=24, num_heads=4, head_width=3)
    assert network.encoder.blocks[0].attn.qkv.weight.shape == (36, 24)
    assert call(network, source, target).shape == (3, 6, 99)


def test_tables_of_two_sizes_cannot_be_tied() -> None:
    spec = FAMILY.spec(ConfigReader(FAMILY.tiny))
    other = replace(spec.decoder, embed=replace(spec.decoder.embed, vocabulary=50))
    with pytest.raises(ConfigError, match=r"encoder's is \[99, 32\] and the decoder's \[50, 32\]"):
        replace(spec, decoder=other)
    assert replace(spec, decoder=other, tied=False).decoder.embed.vocabulary == 50


def test_missing_and_too_long_inputs_are_errors(source: Tensor, target: Tensor) -> None:
    network = build()
    with pytest.raises(ConfigError, match="decoder_input_ids"):
        network(Batch(input_ids=source), Flow())
    with pytest.raises(ConfigError, match="input_ids"):
        network(Batch(decoder_input_ids=target), Flow())
    with pytest.raises(DataError, match="41 tokens, the model has 40"):
        call(network, rows(1, [41]), target[:1])
    with pytest.raises(DataError, match="41 tokens, the model has 40"):
        call(network, source[:1], rows(1, [41]))
    with pytest.raises(DataError, match="one tensor"):
        network.head.loss(network(Batch(input_ids=source, decoder_input_ids=target), Flow()), {"labels": target})


def test_shifted_right_starts_and_drops_the_last() -> None:
    labels = torch.tensor([[5, 6, END], [7, END, -100]])
    assert shift_right(labels, START, PAD).tolist() == [[START, 5, 6], [START, 7, END]]


def test_a_source_of_padding_alone_gives_finite_numbers(target: Tensor) -> None:
    network = build()
    assert bool(call(network, torch.zeros(3, 4, dtype=torch.long), target).isfinite().all())
