"""Train an encoder-decoder on the copy task: the smallest task that needs all of its parts.

    source   7 3 9 <end>                        input of the encoder
    target   <start> 7 3 9          in          input of the decoder: the target so far (teacher forcing)
             7 3 9 <end>            out         its labels: the next token at each position

To copy, cross-attention has to attend to the right position, positional encodings have to tell positions apart, and the
decoder has to predict the end: a copy is correct only if every symbol is, and it ends there.
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
from glassformer.generation.generate import greedy_search
from glassformer.model import Model
from glassformer.models.transformer import shift_right

VOCABULARY = 11
"""Three special tokens, and eight symbols to copy."""
PAD, START, END = 0, 1, 2
SYMBOLS = range(3, VOCABULARY)
MAX_SYMBOLS = 10
"""Short sequences, which two layers learn to copy in a few hundred steps."""

CONFIG = {
    "model_type": "transformer",
    "vocab_size": VOCABULARY,
    "d_model": 64,
    "num_heads": 4,
    "d_ff": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "max_positions": MAX_SYMBOLS + 2,
    "dropout": 0.0,  # the examples never repeat, so the model cannot overfit
    "pad_token_id": PAD,
    "bos_token_id": START,
    "eos_token_id": END,
    "decoder_start_token_id": START,
}


def random_sequences(count: int, generator: torch.Generator) -> Tensor:
    """Random sequences of 1 to 10 symbols, each ended, padded to one length. [count, 11]"""
    symbols = torch.randint(SYMBOLS.start, SYMBOLS.stop, (count, MAX_SYMBOLS + 1), generator=generator)
    length = torch.randint(1, MAX_SYMBOLS + 1, (count, 1), generator=generator)
    position = torch.arange(MAX_SYMBOLS + 1)
    return symbols.where(position < length, torch.where(position == length, END, PAD))


def sequence_codes(rows: Tensor) -> Tensor:
    """Each row as one integer, in base 11, so that equal rows have equal codes. [count]"""
    return (rows * VOCABULARY ** torch.arange(MAX_SYMBOLS + 1)).sum(-1)


def held_out_sequences(count: int, generator: torch.Generator) -> Tensor:
    """Held-out test set: distinct sequences of every length. [count, 11]

    There are only 8 sequences of one symbol and 64 of two: of each length at most a quarter is held out.
    """
    rows = random_sequences(20 * count, generator)
    _, first = torch.unique(sequence_codes(rows), return_inverse=True)
    picked: list[int] = []
    used, remaining = set[int](), [len(SYMBOLS) ** length // 4 for length in range(MAX_SYMBOLS + 1)]
    for position, code in enumerate(first.tolist()):
        length = int((rows[position] >= SYMBOLS.start).sum())
        if code not in used and remaining[length] and len(picked) < count:
            used.add(code)
            remaining[length] -= 1
            picked.append(position)
    return rows[picked]


def training_batches(size: int, held_out: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    """Training batches without end, without held-out sequences. [≤ size, 11]"""
    forbidden = sequence_codes(held_out)
    while True:
        rows = random_sequences(size, generator)
        yield rows[~torch.isin(sequence_codes(rows), forbidden)]


def copy_loss(model: Model, rows: Tensor) -> Tensor:
    """The cross-entropy loss of the next tokens of the copies."""
    labels = rows.masked_fill(rows == PAD, -100)
    output = model(
        input_ids=rows,
        attention_mask=rows != PAD,
        decoder_input_ids=shift_right(labels, START, PAD),
        labels=labels,
    )
    assert output.loss is not None  # labels were given
    return output.loss


def greedy_copies(model: Model, rows: Tensor) -> Tensor:
    """The model's outputs for these rows, by greedy search. [count, ≤ 11]"""
    start = torch.full((len(rows), 1), START)
    generated = greedy_search(
        model.network,
        start,
        encoder_batch=Batch(input_ids=rows),
        encoder_keep=(rows != PAD)[:, None],
        max_new_tokens=MAX_SYMBOLS + 1,
        stop_ids=(END,),
        pad_id=PAD,
    )
    return generated[:, 1:]


def accuracy(model: Model, rows: Tensor) -> float:
    """Exact-match accuracy: the share of rows that are copied without a mistake, the end included."""
    model.eval()
    generated = greedy_copies(model, rows)
    correct = (generated == rows[:, : generated.shape[1]]).all(-1) & (rows[:, generated.shape[1] :] == PAD).all(-1)
    return float(correct.double().mean())


def learning_rate_factor(step: int, steps: int, share: float = 0.125) -> float:
    """Learning-rate schedule: linear warm-up for a share of the steps, then linear decay to 0.

    Differs: Vaswani et al. 2017, section 5.3, decay with 1/√step, which is hardly any decay in so few steps.
    """
    rising = max(1, round(share * steps))
    return min((step + 1) / rising, (steps - step) / (steps - rising + 1))


@dataclass(frozen=True, kw_only=True)
class CopyResult:
    """The trained model, its accuracy on held-out sequences, and the loss of each step."""

    model: Model
    accuracy: float
    losses: list[float]
    seconds: float


def train_copying(
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
) -> CopyResult:
    """Train an encoder-decoder from random weights to copy sequences, and measure it on held-out ones.

    Args:
        seed: random seed of the weights, the held-out sequences and the training batches
        batch: sequences of a step
        warm_up_share: the share of steps of linear warm-up; 0 = none
        norm_first: False is post-norm, the paper's; True pre-norm
        layers: of the encoder, and of the decoder
        tests: the number of held-out sequences
        report: print the loss ten times
    Raises: ConfigError: no steps, or a share outside [0, 1].
    """
    if steps < 1:
        raise ConfigError(f"steps is {steps}; it must be 1 or more (800 are enough for an exact copy)")
    if not 0 <= warm_up_share <= 1:
        raise ConfigError(f"warm_up_share is {warm_up_share}; it must be a share of the steps, from 0 to 1")
    start_time = time.perf_counter()
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    held_out = held_out_sequences(tests, generator)
    sizes = {"norm_first": norm_first, "encoder_layers": layers, "decoder_layers": layers}
    model = Model.from_config({**CONFIG, **sizes}).train()
    batches = islice(training_batches(batch, held_out, generator), steps)
    adam = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: learning_rate_factor(step, steps, warm_up_share))
    losses: list[float] = []
    for rows in batches:
        loss = copy_loss(model, rows)
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
        losses.append(loss.item())
        if report and len(losses) % max(1, steps // 10) == 0:
            seconds = time.perf_counter() - start_time
            print(f"step {len(losses):>5}/{steps}   loss {losses[-1]:.4f}   {seconds:5.1f} s", flush=True)
    correct = accuracy(model, held_out)
    return CopyResult(model=model, accuracy=correct, losses=losses, seconds=time.perf_counter() - start_time)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m glassformer.lessons.copying", description="Train an encoder-decoder on the copy task."
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=800)
    options = parser.parse_args()
    torch.set_num_threads(1)  # for matrices this small, threads cost more than they save
    try:
        result = train_copying(options.seed, steps=options.steps, report=True)
    except GlassformerError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    print(
        f"seed {options.seed}: {result.accuracy:.1%} of 1,000 unseen sequences copied exactly, {result.seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
