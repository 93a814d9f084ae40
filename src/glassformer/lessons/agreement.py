"""Subject-verb agreement in a small decoder: which positions and heads carry the number of the subject to the verb.

    today the keys near the cabinet are old        plural: keys, not cabinet, decides
              └──────── attention ──┘

A grammar of forty words makes the sentences; the verb agrees with the first noun, and up to two other nouns are
between them (attractors), half of them of the other number.
Source: the task is that of Linzen et al. 2016, "Assessing the ability of LSTMs to learn syntax-sensitive dependencies".
Differs: one number of a made-up language; what is found here says how such a rule can be carried out, not how a large
model of English does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import torch
from torch import Tensor

from glassformer.inspect import PatchSweep
from glassformer.lessons.small_decoder import IGNORED, TrainedDecoder, run_lesson, small_decoder, train_decoder
from glassformer.model import Model

SINGULAR = ("key", "dog", "garden", "cabinet", "king", "letter", "road", "window")
PLURAL = tuple(f"{noun}s" for noun in SINGULAR)
VERBS = (("is", "are"), ("was", "were"), ("has", "have"))
ADVERBS, PREPOSITIONS, ENDS = ("today", "often", "here"), ("near", "behind", "under", "with"), ("old", "gone", "more")
WORDS = ("<pad>", *SINGULAR, *PLURAL, *(verb for pair in VERBS for verb in pair), *ADVERBS, *PREPOSITIONS, *ENDS, "the")
LENGTH = 11
"""Words of the longest sentence."""
CHECKPOINT = "package:glassformer/checkpoints/agreement"
CLEAN, CORRUPT = "today the keys near the cabinet", "today the key near the cabinet"
VERB = ("are", "is")


def sentence(random: Random) -> tuple[list[str], int]:
    """A sentence, and the position of its verb, which agrees with the first noun."""

    def noun() -> tuple[str, int]:
        plural = random.randrange(2)
        return random.choice((SINGULAR, PLURAL)[plural]), plural

    words = [random.choice(ADVERBS)] if random.random() < 0.5 else []
    subject, plural = noun()
    words += ["the", subject]
    for _ in range(random.choice((0, 1, 1, 2))):
        words += [random.choice(PREPOSITIONS), "the", noun()[0]]
    return [*words, random.choice(VERBS)[plural], random.choice(ENDS)], len(words)


def training_batches(seed: int, size: int = 64) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches without end: ids, and labels of all words but padding. [size, 11] each"""
    random, number = Random(seed), {word: at for at, word in enumerate(WORDS)}
    while True:
        rows = [[number[word] for word in sentence(random)[0]] for _ in range(size)]
        ids = torch.tensor([row + [0] * (LENGTH - len(row)) for row in rows])
        yield ids, ids.masked_fill(ids == 0, IGNORED)


def train_agreement(seed: int = 0, *, steps: int = 600, report: bool = False) -> TrainedDecoder:
    """Train the small decoder on sentences of the grammar, from random weights."""
    return train_decoder(small_decoder(WORDS, seed), training_batches(seed), steps=steps, report=report)


def agreement_accuracy(model: Model, beginnings: Sequence[str]) -> float:
    """The share of beginnings after which the verb of the right number is more likely than the other one."""
    number = {word: at for at, word in enumerate(WORDS)}
    right = 0
    for text in beginnings:
        words = text.split()
        plural = next(word in PLURAL for word in words if word in SINGULAR + PLURAL)
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[number[word] for word in words]]))["logits"][0, -1]
        forms = torch.stack([logits[[number[pair[form]] for pair in VERBS]].logsumexp(0) for form in (0, 1)])
        right += int(forms.argmax()) == plural
    return right / len(beginnings)


def beginnings(count: int, *, attracted: bool, seed: int = 7) -> list[str]:
    """Beginnings up to the verb, at least one noun between: all of the other number (attracted), or of the same."""
    random, chosen = Random(seed), list[str]()
    while len(chosen) < count:
        words, verb = sentence(random)
        plural = [word in PLURAL for word in words[:verb] if word in SINGULAR + PLURAL]
        if len(plural) > 1 and all((other != plural[0]) == attracted for other in plural[1:]):
            chosen.append(" ".join(words[:verb]))
    return chosen


def number_sweep(model: Model, kind: str) -> PatchSweep:
    """Put the plural subject's activations into the pass of the singular one: 0 = is, 1 = are."""
    clean, corrupt = model.inspect(CLEAN), model.inspect(CORRUPT)
    return corrupt.sweep(kind, source=clean, target=VERB[0], against=VERB[1])


def tell(model: Model) -> None:
    """Print the lesson: accuracy, the path of the number, and the heads that carry it."""
    for attracted, what in ((False, "nouns of the same number"), (True, "nouns of the other number")):
        print(f"{agreement_accuracy(model, beginnings(300, attracted=attracted)):6.1%} right, {what} between")
    print(f"\n{CLEAN} → {VERB[0]}; {CORRUPT} → {VERB[1]}. Residual stream, 1 = {VERB[0]}:")
    sweep = number_sweep(model, "residual")
    print("               " + "  ".join(f"{word:>7}" for word in sweep.columns))
    for name, line in zip(sweep.rows, sweep.effects.tolist(), strict=True):
        print(f"before {name:<8}" + "  ".join(f"{value:7.2f}" for value in line))
    print("\nheads:", ", ".join(f"{name} {effect:.2f}" for name, effect in number_sweep(model, "heads").strongest(4)))


def main() -> None:
    run_lesson("agreement", "Train a small decoder on subject-verb agreement.", train_agreement, tell)


if __name__ == "__main__":
    main()
