"""Encoding and decoding sound with an audio codec and with the reference library's model: times real time, ratios.

    python benchmarks/codec.py               the codec that the package carries, and the sizes of DAC and EnCodec
    python benchmarks/codec.py --seconds 10  of noise, in one piece
    python benchmarks/codec.py --json

Both have the same weights and run in one process, in turn. A ratio is theirs / ours: above 1 we are faster.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import torch
import transformers
from _measure import Timing, environment, in_turn

import glassformer
from glassformer import Model

CARRIED = Path(glassformer.__file__).parent / "checkpoints" / "guitar_codec"
MADE = {
    "DAC 44.1 kHz": {
        **{"model_type": "dac", "downsampling_ratios": [2, 4, 8, 8], "n_codebooks": 9},
        **{"sampling_rate": 44_100},
    },
    "EnCodec 24 kHz": {"model_type": "encodec"},
}
"""Sizes of published models."""


def measure(folder: Path, seconds: float, rounds: int) -> dict[str, Timing]:
    """Ours and theirs, encoding and decoding the same sound."""
    ours, theirs = glassformer.load(folder), transformers.AutoModel.from_pretrained(folder).eval()
    rate, hop = ours.network.spec.sample_rate_hz, ours.network.spec.hop
    wave = 0.1 * torch.randn(round(seconds * rate) // hop * hop)
    codes = ours.encode_audio(wave, sample_rate_hz=rate).codes

    def encode() -> object:
        if ours.family.model_type == "encodec":
            return theirs.encode(wave[None, None], bandwidth=theirs.config.target_bandwidths[-1])
        return theirs.encode(wave[None, None])

    def decode() -> object:
        if ours.family.model_type == "encodec":
            return theirs.decode(codes[None, None], [None])
        return theirs.decode(theirs.quantizer.from_codes(codes[None])[0])

    with torch.inference_mode():
        return in_turn(
            {
                "encode, ours": lambda: ours.encode_audio(wave, sample_rate_hz=rate),
                "encode, theirs": encode,
                "decode, ours": lambda: ours.decode_audio(codes),
                "decode, theirs": decode,
            },
            rounds,
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=5.0, help="of sound")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--json", action="store_true")
    args = options.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as made:
        folders = {"guitar_codec": CARRIED, **{name: Path(made) / name for name in MADE}}
        for name, config in MADE.items():
            Model.from_config(config).save_pretrained(folders[name])
        timings = {name: measure(folder, args.seconds, args.rounds) for name, folder in folders.items()}
    if args.json:
        seconds = {name: {one.name: one.seconds for one in own.values()} for name, own in timings.items()}
        found = {**environment("transformers"), "seconds_of_sound": args.seconds, "timings": seconds}
        print(json.dumps(found, indent=2))
        return
    for name, own in timings.items():
        for side in ("encode", "decode"):
            ours, theirs = own[f"{side}, ours"], own[f"{side}, theirs"]
            print(
                f"{name:14} {side}: {args.seconds / ours.median:6.1f} × real time, theirs "
                f"{args.seconds / theirs.median:6.1f} ×; theirs / ours {ours.ratio(theirs):.2f}"
            )


if __name__ == "__main__":
    main()
