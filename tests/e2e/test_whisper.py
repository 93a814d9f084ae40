"""Real Whisper on real speech: the reference's numbers, and the transcript."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile
import torch
from safetensors.torch import load_file
from torch import Tensor

import glassformer
from glassformer import Model
from glassformer.audio import AudioProcessor, read_audio
from glassformer.core.flow import Batch
from glassformer.generation.generate import greedy_search
from tests.speech.checkpoints import PACKAGES

PROMPTS = {
    "tiny": "<|startoftranscript|><|notimestamps|>",
    "base": "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>",
}
"""How a transcript without times begins; the small one knows English alone."""
KENNEDY = "And so my fellow Americans ask not what your country can do for you, ask what you can do for your country."


def load(folder: Path) -> tuple[Model, AudioProcessor]:
    processor = AudioProcessor.find(folder)
    assert processor is not None
    return glassformer.load(folder, dtype="float32", strict=True, offline=True), processor


def prompt(model: Model, size: str) -> Tensor:
    ids = model.tokenizer(PROMPTS[size], add_special_tokens=False)["input_ids"]
    assert len(ids) == PROMPTS[size].count("|>")
    return torch.tensor([ids])


def transcript(model: Model, size: str, features: Tensor) -> str:
    ids = greedy_search(
        model.network,
        prompt(model, size),
        encoder_batch=Batch(input_features=features),
        max_new_tokens=60,
        stop_ids=(model.config["eos_token_id"],),
    )
    return str(model.tokenizer.decode(ids[0].tolist(), skip_special_tokens=True)).strip()


def plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum() or character == " ")


@pytest.mark.parametrize("size", PACKAGES)
@torch.no_grad()
def test_numbers_equal_the_references(whisper: Callable[[str], Path], kennedy: Path, size: str) -> None:
    from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

    folder = whisper(size)
    model, processor = load(folder)
    assert not model.report.warnings and not model.report.new
    features = processor(kennedy)["input_features"]
    extractor = WhisperFeatureExtractor.from_pretrained(folder, local_files_only=True)
    sound = read_audio(kennedy, 16_000)
    expected = extractor(sound, sampling_rate=16_000, return_tensors="pt").input_features
    torch.testing.assert_close(features, expected, atol=1e-4, rtol=0)

    words = model.tokenizer(" And so my fellow Americans", add_special_tokens=False)["input_ids"]
    ids = torch.cat([prompt(model, size), torch.tensor([words])], dim=1)
    output = model(input_features=features, decoder_input_ids=ids)
    for attention in ("eager", "sdpa"):
        theirs = WhisperForConditionalGeneration.from_pretrained(
            folder, local_files_only=True, dtype=torch.float32, attn_implementation=attention
        ).eval()
        answer = theirs(input_features=features, decoder_input_ids=ids)
        torch.testing.assert_close(output.logits, answer.logits, atol=1e-4, rtol=1e-4)
        gap = output.encoder_last_hidden_state - answer.encoder_last_hidden_state
        assert gap.norm() <= 1e-4 * answer.encoder_last_hidden_state.norm()


@pytest.mark.parametrize("size", PACKAGES)
def test_transcript_of_kennedy(whisper: Callable[[str], Path], kennedy: Path, size: str) -> None:
    model, processor = load(whisper(size))
    assert plain(transcript(model, size, processor(kennedy)["input_features"])) == plain(KENNEDY)


def test_it_hears_the_same_in_a_telephones_quality(
    whisper: Callable[[str], Path], kennedy: Path, tmp_path: Path
) -> None:
    """8 kHz, 8 bits: another file, another rate, the same words."""
    soundfile.write(tmp_path / "call.wav", read_audio(kennedy, 8_000), 8_000, subtype="ULAW")
    model, processor = load(whisper("tiny"))
    heard = plain(transcript(model, "tiny", processor(tmp_path / "call.wav")["input_features"]))
    assert "ask not what your country can do for you" in heard.replace(",", "")


def test_each_window_of_a_long_sound_says_its_part(whisper: Callable[[str], Path], kennedy: Path) -> None:
    """The speech, 25 s of silence, and the speech once more: two windows, and nothing is lost."""
    sound = torch.from_numpy(read_audio(kennedy, 16_000))
    long = torch.cat([sound, torch.zeros(25 * 16_000), sound])
    model, processor = load(whisper("tiny"))
    windows = processor.windows(long, 16_000)["input_features"]
    assert len(windows) == 2
    for window in windows:
        assert "ask not what your country can do for you" in plain(transcript(model, "tiny", window[None]))


def test_saved_tensors_are_the_files_own(whisper: Callable[[str], Path], tmp_path: Path) -> None:
    folder = whisper("tiny")
    glassformer.load(folder, strict=True, offline=True).save_pretrained(tmp_path)
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path))
    assert before.keys() == after.keys()
    for name in before:
        assert before[name].dtype == after[name].dtype == torch.float16
        assert torch.equal(before[name], after[name]), name
