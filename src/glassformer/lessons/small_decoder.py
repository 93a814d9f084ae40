"""A decoder of two layers over whole words, trained in a minute: what the lessons on circuits look into.

words ──WordLevel──> ids ──2 × (attention of 2 heads, feed-forward), rotary positions──> logits of the next word
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import tokenizers
import torch
from tokenizers import models, pre_tokenizers
from torch import Tensor
from torch.nn.functional import cross_entropy

from glassformer.errors import ConfigError, GlassformerError
from glassformer.lessons.copying import learning_rate_factor
from glassformer.model import Model
from glassformer.text.tokenizer import Tokenizer

LAYERS, HEADS, WIDTH, TOKENS = 2, 2, 64, 48
"""Two layers are the least in which an induction head can form; small otherwise, so that training is quick."""
IGNORED = -100
"""The label of what no loss counts: the default of PyTorch's cross-entropy."""


@dataclass(frozen=True, kw_only=True)
class TrainedDecoder:
    """A model, and the loss of each step of its training."""

    model: Model
    losses: list[float]
    seconds: float


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """A tokenizer for which each of these words is a token; words are parted by spaces."""
    engine = tokenizers.Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token=words[0]))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return Tokenizer(engine)


def small_decoder(words: Sequence[str], seed: int = 0) -> Model:
    """The untrained decoder: width 64, 2 layers of 2 heads, 60,000 parameters.

    Rotary positions say how far apart two words are, and not where: a head that looks one word back is learnt at once.
    """
    torch.manual_seed(seed)
    config = {
        "model_type": "llama",
        "vocab_size": len(words),
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": WIDTH,
        "max_position_embeddings": TOKENS,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    return Model.from_config(config, task="text-generation", tokenizer=word_tokenizer(words))


def train_decoder(
    model: Model, batches: Iterator[tuple[Tensor, Tensor]], *, steps: int, learning_rate: float = 3e-3, report: bool
) -> TrainedDecoder:
    """Train on batches of ids and labels; the label at a position is the word there, predicted from those before it.

    Args:
        batches: ids and labels [B, T], -100 = not learnt
        report: print the loss ten times
    Raises: ConfigError: no steps.
    """
    if steps < 1:
        raise ConfigError(f"steps is {steps}; it must be 1 or more")
    start = time.perf_counter()
    adam = torch.optim.AdamW(model.train().parameters(), lr=learning_rate, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: learning_rate_factor(step, steps))
    losses: list[float] = []
    for ids, labels in islice(batches, steps):
        logits = model(input_ids=ids)["logits"]
        loss = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED)
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
        losses.append(loss.item())
        if report and len(losses) % max(1, steps // 10) == 0:
            seconds = time.perf_counter() - start
            print(f"step {len(losses):>5}/{steps}   loss {losses[-1]:.4f}   {seconds:5.1f} s", flush=True)
    return TrainedDecoder(model=model.eval(), losses=losses, seconds=time.perf_counter() - start)


def run_lesson(
    name: str, description: str, train: Callable[..., TrainedDecoder], tell: Callable[[Model], None]
) -> None:
    """`python -m glassformer.lessons.NAME`: train the lesson's decoder, save it if asked, and tell what it shows."""
    parser = argparse.ArgumentParser(prog=f"python -m glassformer.lessons.{name}", description=description)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--save", help="save the model in this folder")
    options = parser.parse_args()
    torch.set_num_threads(1)  # for matrices this small, threads cost more than they save
    try:
        result = train(options.seed, steps=options.steps, report=True)
        if options.save:
            result.model.save_pretrained(options.save)
        tell(result.model)
    except GlassformerError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
