"""An encoder-decoder learns to copy: the smallest task that needs all of it.

    source   7 3 9 <end>                        what the encoder reads
    target   <start> 7 3 9          in          what the decoder has written so far
             7 3 9 <end>            out         what it should write next

To copy, cross-attention has to find the place that is due, positions have to tell places apart, and the decoder has
to know when to stop: a copy counts as right only if it is right to the last symbol and ends there.
Source: the task is that of Rush 2018, "The Annotated Transformer"; there all sequences have ten symbols.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.errors import ConfigError, GlassformerError
from glassformer.generation.greedy import greedy
from glassformer.model import Model
from glassformer.models.transformer import shifted_right

VOCABULARY = 11
PAD, START, END = 0, 1, 2
SYMBOLS = range(3, VOCABULARY)
LONGEST = 10

CONFIG = {
    "model_type": "transformer",
    "vocab_size": VOCABULARY,
    "d_model": 64,
    "num_heads": 4,
    "d_ff": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "max_positions": LONGEST + 2,
    "dropout": 0.0,  # the stream of examples never repeats, so there is nothing to learn by heart
    "pad_token_id": PAD,
    "bos_token_id": START,
    "eos_token_id": END,
    "decoder_start_token_id": START,
}


def draw(count: int, generator: torch.Generator) -> Tensor:
    """Random sequences of 1 to 10 symbols, each ended, padded to one length. [count, 11]"""
    symbols = torch.randint(SYMBOLS.start, SYMBOLS.stop, (count, LONGEST + 1), generator=generator)
    length = torch.randint(1, LONGEST + 1, (count, 1), generator=generator)
    place = torch.arange(LONGEST + 1)
    return symbols.where(place < length, torch.where(place == length, END, PAD))


def number(rows: Tensor) -> Tensor:
    """Each row as one whole number, in base 11: equal numbers, equal rows. [count]"""
    return (rows * VOCABULARY ** torch.arange(LONGEST + 1)).sum(-1)


def unseen(count: int, generator: torch.Generator) -> Tensor:
    """Different sequences to be kept out of training, of every length. [count, 11]

    There are only 8 sequences of one symbol and 64 of two: of each length at most a quarter is taken away.
    """
    rows = draw(20 * count, generator)
    _, first = torch.unique(number(rows), return_inverse=True)
    chosen: list[int] = []
    taken, room = set[int](), [len(SYMBOLS) ** length // 4 for length in range(LONGEST + 1)]
    for place, kind in enumerate(first.tolist()):
        length = int((rows[place] >= SYMBOLS.start).sum())
        if kind not in taken and room[length] and len(chosen) < count:
            taken.add(kind)
            room[length] -= 1
            chosen.append(place)
    return rows[chosen]


def stream(size: int, held_out: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches without end, in which no held-out row ever appears. [≤ size, 11]"""
    forbidden = number(held_out)
    while True:
        rows = draw(size, generator)
        yield rows[~torch.isin(number(rows), forbidden)]


def loss_of(model: Model, rows: Tensor) -> Tensor:
    """How surprised the model is by each next symbol of the copies."""
    labels = rows.masked_fill(rows == PAD, -100)
    output = model(
        input_ids=rows,
        attention_mask=rows != PAD,
        decoder_input_ids=shifted_right(labels, START, PAD),
        labels=labels,
    )
    assert output.loss is not None  # labels were given
    return output.loss


def copies(model: Model, rows: Tensor) -> Tensor:
    """What the model writes when it is shown these rows, by greedy search. [count, ≤ 11]"""
    start = torch.full((len(rows), 1), START)
    written = greedy(
        model.network,
        start,
        memory_of=Batch(input_ids=rows),
        memory_keep=(rows != PAD)[:, None],
        max_new_tokens=LONGEST + 1,
        stop_ids=(END,),
        pad_id=PAD,
    )
    return written[:, 1:]


def accuracy(model: Model, rows: Tensor) -> float:
    """The share of rows that are copied without a mistake, the end included."""
    model.eval()
    written = copies(model, rows)
    right = (written == rows[:, : written.shape[1]]).all(-1) & (rows[:, written.shape[1] :] == PAD).all(-1)
    return float(right.double().mean())


def warm_up(step: int, steps: int, share: float = 0.125) -> float:
    """The factor on the learning rate: up in a straight line for a share of the steps, then down in another, to 0.

    Differs: Vaswani et al. 2017, section 5.3, go down with 1/√step, which after so few steps has hardly begun.
    """
    up = max(1, round(share * steps))
    return min((step + 1) / up, (steps - step) / (steps - up + 1))


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of it; `losses` has the loss of each step."""

    model: Model
    accuracy: float
    losses: list[float]
    seconds: float


def learn(
    seed: int = 0,
    *,
    steps: int = 800,
    batch: int = 64,
    learning_rate: float = 2e-3,
    warm_up_share: float = 0.125,
    norm_first: bool = False,
    layers: int = 2,
    tests: int = 1000,
    report: bool = False,
) -> Result:
    """Train from nothing, then copy sequences that were never shown.

    Args:
        seed: of the weights, the held-out sequences and the stream.
        batch: sequences a step.
        warm_up_share: the part of the steps in which the learning rate rises; 0 = it is at its height at once.
        norm_first: False is post-norm, the paper's; True pre-norm.
        layers: of the encoder, and of the decoder.
        tests: how many held-out sequences.
        report: print a line now and then.
    Raises: ConfigError: no steps, or a share outside [0, 1].
    """
    if steps < 1:
        raise ConfigError(
            f"steps is {steps}; it must be 1 or more (800 are enough to copy without a mistake)"
        )
    if not 0 <= warm_up_share <= 1:
        raise ConfigError(f"warm_up_share is {warm_up_share}; it is a part of the steps, from 0 to 1")
    began = time.perf_counter()
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    held_out = unseen(tests, generator)
    sizes = {"norm_first": norm_first, "encoder_layers": layers, "decoder_layers": layers}
    model = Model.from_config({**CONFIG, **sizes}).train()
    optimiser = torch.optim.Adam(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: warm_up(step, steps, warm_up_share))
    losses: list[float] = []
    for rows in islice(stream(batch, held_out, generator), steps):
        loss = loss_of(model, rows)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
        step = len(losses)
        if report and step % max(1, steps // 10) == 0:
            print(
                f"step {step:>5}/{steps}   loss {losses[-1]:.4f}   {time.perf_counter() - began:5.1f} s",
                flush=True,
            )
    right = accuracy(model, held_out)
    return Result(model=model, accuracy=right, losses=losses, seconds=time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m glassformer.lessons.copying", description="Learn to copy."
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=800)
    options = parser.parse_args()
    torch.set_num_threads(1)  # for products as small as these, threads only wait for each other
    try:
        result = learn(options.seed, steps=options.steps, report=True)
    except GlassformerError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    print(
        f"seed {options.seed}: {result.accuracy:.1%} of 1,000 unseen sequences copied exactly, {result.seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
