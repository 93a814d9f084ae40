"""Can one tell the chord? A classifier that has learnt chords names them in sounds of a codec, and in the originals.

    python benchmarks/chords.py                        the codec that the package carries
    python benchmarks/chords.py runs/guitar-codec      another one
    python benchmarks/chords.py --clips 300 --json

It learns roots and kinds (Em, G7, A5) of strummed chords of the synthetic guitar, from the spectrum in semitones, and
names them in chords and places on the neck that the codec has not heard. One has learnt from originals alone; another
from decoded sounds too, as somebody who has listened to the codec before: what the first loses and the second does not
is timbre, and what both lose is the chord.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from glassformer_guitar import GuitarOptions, GuitarRows
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import glassformer
from glassformer import Model

CODEC = "package:glassformer/checkpoints/guitar_codec"
PEDALS = dict.fromkeys(("overdrive", "chorus", "tremolo", "delay", "reverb"), 0.12)
"""Those that the codec has learnt from."""
LOWEST_HZ, SEMITONES = 65.4, 62
WINDOW_S, BINS = 0.25, 1 << 14


@dataclass
class Chords:
    """Chords of a guitar: features of the original and the decoded sounds [N, semitones], and their names."""

    original: np.ndarray
    decoded: np.ndarray
    names: np.ndarray


def spectrum(wave: torch.Tensor, rate_hz: int) -> np.ndarray:
    """The log-magnitude of each semitone, relative to the loudest. [samples] → [semitones]"""
    window = round(WINDOW_S * rate_hz)
    frames = wave.unfold(0, window, window // 4) * torch.hann_window(window)
    magnitudes = torch.fft.rfft(frames, BINS).abs().mean(0)
    hz = torch.fft.rfftfreq(BINS, 1 / rate_hz)
    number = (12 * (hz.clamp_min(1.0) / LOWEST_HZ).log2()).round().long()
    heard = (number >= 0) & (number < SEMITONES)
    peaks = torch.zeros(SEMITONES).scatter_reduce(0, number[heard], magnitudes[heard], "amax")
    return (peaks / peaks.max() + 1e-2).log().numpy()


def listen(codec: Model, options: GuitarOptions) -> Chords:
    """Clips of chords, before the codec and behind it."""
    rows, original, decoded, names = GuitarRows(options), [], [], []
    for index in range(len(rows)):
        (samples, rate), _, _, recipe = rows.clip(index)
        wave = torch.as_tensor(samples)
        original.append(spectrum(wave, rate))
        decoded.append(spectrum(codec.decode_audio(codec.encode_audio(wave, sample_rate_hz=rate)), rate))
        names.append(recipe["title"].partition(" @")[0])
    return Chords(np.stack(original), np.stack(decoded), np.array(names))


def root(name: str) -> str:
    return name.rstrip("m75")


def shares(named: np.ndarray, names: np.ndarray) -> dict[str, list[float]]:
    """Shares of exact chords and of roots, each with a 95% bootstrap interval."""
    draws = np.random.default_rng(0).integers(len(names), size=(2_000, len(names)))
    right = {"chord": named == names, "root": np.array([root(a) == root(b) for a, b in zip(named, names, strict=True)])}
    return {
        what: [float(one.mean()), *np.quantile(one[draws].mean(1), [0.025, 0.975]).tolist()]
        for what, one in right.items()
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("codec", nargs="?", default=CODEC)
    options.add_argument("--clips", type=int, default=300, help="to name, of each kind")
    options.add_argument("--learn", type=int, default=2_500, help="to learn from")
    options.add_argument("--json", action="store_true")
    args = options.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)  # 60 passes are meant
    codec = glassformer.load(args.codec)
    base = {"contents": ("chord",), "seconds": 2.0}
    learnt = listen(codec, GuitarOptions(clips=args.learn, seed=100, pedals=PEDALS, **base))
    features = {
        "originals": (learnt.original, learnt.names),
        "both": (np.concatenate([learnt.original, learnt.decoded]), np.concatenate([learnt.names] * 2)),
    }
    results: dict[str, dict[str, list[float]]] = {}
    tests = {
        "dry": listen(codec, GuitarOptions(clips=args.clips, seed=7, part="test", pedals=None, **base)),
        "pedals": listen(codec, GuitarOptions(clips=args.clips, seed=7, part="test", pedals=PEDALS, **base)),
    }
    for kind, (x, y) in features.items():
        model = make_pipeline(StandardScaler(), MLPClassifier((256,), alpha=1e-2, max_iter=60, random_state=0)).fit(
            x, y
        )
        for test, chords in tests.items():
            for sound in ("original", "decoded"):
                scores = shares(model.predict(getattr(chords, sound)), chords.names)
                results[f"learnt from {kind}; {test}, {sound}"] = scores
    if args.json:
        print(json.dumps(results))
        return
    print(f"{len(set(learnt.names))} chords")
    for what, scores in results.items():
        print(
            f"{what:45}",
            "  ".join(f"{name} {x:.3f} [{low:.3f}, {high:.3f}]" for name, (x, low, high) in scores.items()),
        )


if __name__ == "__main__":
    main()
