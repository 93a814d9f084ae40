"""Generation of codes: as the reference library generates them, in windows, converted; and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from glassformer import Model
from glassformer.core import Batch, Flow
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.generation.audio_codes import code_pattern, longest_window
from glassformer.models import FAMILIES
from glassformer.models.transformer import shift_right
from tests.core.small import perturbed

TINY = dict(FAMILIES["musicgen_decoder"].tiny)
CONVERTER = {**FAMILIES["transformer"].tiny, "codebooks": 3, "vocab_size": 17, "max_positions": 40}
PAIRED = {**TINY, "num_codebooks": 6, "max_position_embeddings": 43}


def drawn(frames: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 16, (3, frames), generator=torch.Generator().manual_seed(seed))


def model_of(config: dict[str, Any]) -> Model:
    torch.manual_seed(2)
    model = Model.from_config(config, task=None if config is CONVERTER else "text-to-audio").eval()
    perturbed(model.network)
    return model


@torch.no_grad()
def test_greedy_codes_are_the_references(tmp_path: Path) -> None:
    model = model_of(TINY)
    model.save_pretrained(tmp_path)
    theirs = transformers.MusicgenForCausalLM.from_pretrained(tmp_path).eval()
    codes, frames = drawn(4), 8
    length = 1 + codes.shape[1] + frames + 2  # its `generate` takes no prompt; these are the parts that it is made of
    started = torch.cat([codes.new_full((3, 1), 16), codes], 1)
    ids, mask = theirs.build_delay_pattern_mask(started, pad_token_id=16, max_length=length)
    while ids.shape[1] < length:
        ids = torch.cat([ids, theirs(ids).logits[:, -1].argmax(-1)[:, None]], 1)
        ids = theirs.apply_delay_pattern_mask(ids, mask)
    assert torch.equal(model.continue_codes(codes, frames, do_sample=False), ids[ids != 16].reshape(3, -1))


@torch.no_grad()
def test_every_code_is_the_likeliest_of_the_whole_pass() -> None:
    model = model_of(TINY)
    made = model.continue_codes(drawn(4), 9, do_sample=False)
    ids = code_pattern(model.network).tokens(made)[None]
    logits = model(input_ids=shift_right(ids, 16, 16)).logits[0]
    for step, row in enumerate(ids[0].tolist()):
        for book, code in enumerate(row):
            if 4 <= step - book < 13:
                assert int(logits[step, book].argmax()) == code, (step, book)


def test_sampling_depends_on_the_seed_alone() -> None:
    model, codes = model_of(TINY), drawn(3)
    first, again, other = (model.continue_codes(codes, 6, seed=seed, top_k=8) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(first[:, :3], codes) and int(first.max()) < 16


@pytest.mark.parametrize("frames", [30, 37, 38, 90])
def test_more_frames_than_the_network_reads_at_once(frames: int) -> None:
    model, codes, done = model_of(TINY), drawn(5), []
    assert longest_window(model.network) == 37
    made = model.continue_codes(codes, frames, do_sample=False, progress=done.append)
    assert made.shape == (3, 5 + frames) and torch.equal(made[:, :5], codes) and sum(done) == frames
    assert torch.equal(made[:, :37], model.continue_codes(codes, min(frames, 32), do_sample=False)[:, :37])
    long = model.continue_codes(drawn(80), 3, do_sample=False)
    assert torch.equal(long[:, -3:], model.continue_codes(drawn(80)[:, -34:], 3, do_sample=False)[:, -3:])


@torch.no_grad()
def test_conversion_is_greedy_search_beside_the_source() -> None:
    model, source = model_of(CONVERTER), drawn(9)
    made = model.convert_codes(source, do_sample=False)
    assert made.shape == source.shape and int(made.max()) < 16
    ids = code_pattern(model.network).tokens(made)[None]
    logits = model(input_ids=source.T[None], decoder_input_ids=shift_right(ids, 16, 16)).logits[0, ..., :16]
    for step, row in enumerate(ids[0].tolist()):
        for book, code in enumerate(row):
            if 0 <= step - book < 9:
                assert int(logits[step, book].argmax()) == code, (step, book)


@torch.no_grad()
def test_conversion_by_a_decoder_is_greedy_search_behind_the_source() -> None:
    model, source = model_of(PAIRED), drawn(9)
    made = model.convert_codes(source, do_sample=False)
    assert made.shape == source.shape and int(made.max()) < 16
    ids = code_pattern(model.network).tokens(torch.cat([source, made]))[None]
    logits = model(input_ids=shift_right(ids, 16, 16)).logits[0]
    for step, row in enumerate(ids[0].tolist()):
        for book, code in enumerate(row):
            if book >= 3 and 0 <= step - book < 9:
                assert int(logits[step, book].argmax()) == code, (step, book)
    other = source.clone()
    other[0, 5:] = (other[0, 5:] + 1) % 16  # the first codebook of the source is known three frames ahead
    assert torch.equal(model.convert_codes(other, do_sample=False)[0, :3], made[0, :3])


@pytest.mark.parametrize("config", [CONVERTER, PAIRED], ids=["encoder-decoder", "decoder"])
@pytest.mark.parametrize("frames", [1, 37, 60, 120])
def test_long_recordings_are_converted_in_windows(frames: int, config: dict[str, Any]) -> None:
    model, source = model_of(config), drawn(frames)
    made = model.convert_codes(source, do_sample=False)
    assert made.shape == source.shape
    assert torch.equal(made[:, :37], model.convert_codes(source[:, :37], do_sample=False))


def test_conversions_are_drawn_at_a_low_temperature() -> None:
    model, source = model_of(PAIRED), drawn(20)
    made = model.convert_codes(source, seed=1)
    assert torch.equal(made, model.convert_codes(source, seed=1, temperature=0.6))
    assert not torch.equal(made, model.convert_codes(source, seed=1, temperature=1.0))


def test_what_is_refused(tmp_path: Path) -> None:
    model, codes = model_of(TINY), drawn(4)
    text = Model.from_config(dict(FAMILIES["gpt2"].tiny))
    for call in (lambda: text.continue_codes(codes, 3), lambda: text.convert_codes(codes)):
        with pytest.raises(UnsupportedError, match="reads no codes of several codebooks"):
            call()
    with pytest.raises(UnsupportedError, match="a decoder of 3 codebooks continues a recording: continue_codes"):
        model.convert_codes(codes)
    with pytest.raises(DataError, match=r"codes are"):
        model_of(PAIRED).convert_codes(torch.cat([codes, codes]))
    with pytest.raises(UnsupportedError, match="convert_codes"):
        model_of(CONVERTER).continue_codes(codes, 3)
    for wrong in (codes[:2], codes.float(), codes + 16, codes[:, :0], codes - 1):
        with pytest.raises(DataError, match=r"codes (are|lie)"):
            model.continue_codes(wrong, 3)
    for frames in (0, 2.5, True):
        with pytest.raises(ConfigError, match="frames is"):
            model.continue_codes(codes, frames)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'num_beams'"):
        model.continue_codes(codes, 3, num_beams=2)
    with pytest.raises(ConfigError, match="temperature"):
        model.continue_codes(codes, 3, temperature=-1.0)
    with torch.no_grad():
        model.network.final_norm.weight[0] = torch.nan
    with pytest.raises(WeightsError, match=r"final_norm\.weight"):
        model.continue_codes(codes, 3)


def test_a_pass_with_a_memory_needs_no_source_again() -> None:
    network = model_of(CONVERTER).network
    source = drawn(6).T[None]
    memory = network.memory(Batch(input_ids=source), Flow())
    ids = torch.full((1, 2, 3), 16)
    with_source = network(Batch(input_ids=source, decoder_input_ids=ids), Flow()).logits
    assert torch.equal(network(Batch(decoder_input_ids=ids), Flow(memory=memory)).logits, with_source)
