"""Find the induction heads of a small decoder: from letters that repeat, to the two heads that copy, and the path.

    a k d x b q m s t u b        what comes next? After the first b came q
            ↑ ↑         │
            │ └─ induction head, layer 1: attends to the word after the same word, and copies it
            └─── previous-token head, layer 0: writes into q's place that b stood before it

Four steps: scores of the heads, ablation, patching of the residual stream, patching of queries, keys and values.
Source: Olsson et al. 2022, "In-context learning and induction heads"; the composition of the two heads: Elhage et al.
2021, "A mathematical framework for transformer circuits", section on K-composition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from string import ascii_lowercase

import torch
from torch import Tensor

from glassformer.core.flow import Edit, Tape
from glassformer.inspect import Session
from glassformer.lessons.small_decoder import IGNORED, TOKENS, TrainedDecoder, run_lesson, small_decoder, train_decoder
from glassformer.model import Model

WORDS = ("<unk>", *ascii_lowercase)
SHORTEST, LONGEST = 8, 24
"""Length of what repeats: each row has another, so that no fixed distance does."""
CHECKPOINT = "package:glassformer/checkpoints/induction"
CLEAN = "a k d x b q m s t u v e h b"
UNMATCHED = "a k d x w q m s t u v e h b"
"""The first b is a w: nothing says what comes after b."""
OTHER = "a k d x b w m s t u v e h b"
"""After the first b comes w, and not q."""
TARGET = "q"


def repeated_sequences(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows of random letters that repeat, and labels: those letters that have come before. [count, 48] each"""
    period = torch.randint(SHORTEST, LONGEST + 1, (count, 1), generator=generator)
    letters = 1 + torch.rand(count, len(WORDS) - 1, generator=generator).argsort(-1)
    position = torch.arange(TOKENS)
    ids = letters.gather(1, position % period)
    return ids, ids.masked_fill(position <= period, IGNORED)


def training_batches(generator: torch.Generator, size: int = 32) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches without end."""
    while True:
        yield repeated_sequences(size, generator)


def train_induction(seed: int = 0, *, steps: int = 600, report: bool = False) -> TrainedDecoder:
    """Train the small decoder on letters that repeat, from random weights."""
    model, generator = small_decoder(WORDS, seed), torch.Generator().manual_seed(seed)
    return train_decoder(model, training_batches(generator), steps=steps, report=report)


def head_scores(model: Model, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of all heads: previous-token and prefix-matching. [layers, heads] each, from 0 to 1

    previous-token: the attention to the word just before · prefix-matching: the attention to all words that are after
    an earlier occurrence of the present one, where there is one.
    """
    tape = Tape("attn.probs")
    with torch.inference_mode():
        model(input_ids=ids, tape=tape)
    probs = torch.stack([x for _, x in sorted(tape.taps.items())], dim=1)  # [B, L, H, T, S]
    after = torch.cat([ids.new_full((len(ids), 1), -1), ids[:, :-1]], dim=1)  # the word before each key
    matches = ids[:, :, None] == after[:, None]
    matches &= torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    asked = matches.any(-1)
    matched = torch.einsum("blhts,bts->blht", probs, matches.float())
    previous = probs.diagonal(-1, 3, 4).mean((0, 3))
    return previous, torch.einsum("blht,bt->lh", matched, asked.float()) / asked.sum()


def copying_accuracy(model: Model, ids: Tensor, labels: Tensor, off: Sequence[tuple[int, int]] = ()) -> float:
    """The share of letters that are predicted where they repeat, with some heads (layer, head) switched off."""

    def without(heads: Sequence[int]) -> Callable[[Tensor], Tensor]:
        def edit(z: Tensor) -> Tensor:
            z = z.clone()
            z[:, list(heads)] = 0.0
            return z

        return edit

    layers = {layer: [head for at, head in off if at == layer] for layer, _ in off}
    edits: Mapping[str, Edit] = {f"blocks.{layer}.attn.z": without(heads) for layer, heads in layers.items()}
    with torch.inference_mode():
        logits = model(input_ids=ids, tape=Tape(edit=edits))["logits"]
    asked = labels[:, 1:] != IGNORED
    return float((logits[:, :-1].argmax(-1) == labels[:, 1:])[asked].double().mean())


def composition(corrupt: Session, clean: Session) -> dict[str, float]:
    """How much of the copying comes back if layer 1 gets its queries, keys or values from the clean text. 0 … 1

    Of `UNMATCHED` its keys bring it back: they say which word stood before. Of `OTHER` its values: they say what is
    copied.
    """
    return {
        name: corrupt.patch(f"blocks.1.attn.{name}", source=clean, target=TARGET, metric="logit").normalised or 0.0
        for name in "qkv"
    }


def tell(model: Model, seed: int = 1) -> None:
    """Print the lesson: scores, ablations, and the path."""
    ids, labels = repeated_sequences(256, torch.Generator().manual_seed(seed))
    previous, matching = head_scores(model, ids)
    print("head         previous token   prefix matching   copied without it")
    for layer, head in torch.cartesian_prod(*map(torch.arange, previous.shape)).tolist():
        left = copying_accuracy(model, ids, labels, [(layer, head)])
        print(f"layer {layer}, {head}   {previous[layer, head]:14.2f}   {matching[layer, head]:15.2f}   {left:17.1%}")
    for layer in range(len(previous)):
        heads = [(layer, head) for head in range(previous.shape[1])]
        print(f"without the heads of layer {layer}: {copying_accuracy(model, ids, labels, heads):.1%} copied")
    print(f"with all: {copying_accuracy(model, ids, labels):.1%}\n")
    clean, corrupt = model.inspect(CLEAN), model.inspect(UNMATCHED)
    sweep = corrupt.sweep("residual", source=clean, target=TARGET, metric="logit")
    print(f"{CLEAN} → {TARGET}; in the corrupt text the first b is a w. Residual stream, 1 = as in the clean text:")
    print("             " + "  ".join(f"{word:>5}" for word in sweep.columns))
    for name, line in zip(sweep.rows, sweep.effects.tolist(), strict=True):
        print(f"before layer {name:<4}"[:17] + "  ".join(f"{value:5.2f}" for value in line))
    for text in (UNMATCHED, OTHER):
        shares = ", ".join(f"{name} {share:.2f}" for name, share in composition(model.inspect(text), clean).items())
        print(f"{text}: layer 1 gets from the clean text its {shares}")


def main() -> None:
    run_lesson("induction", "Train a small decoder, and find its induction heads.", train_induction, tell)


if __name__ == "__main__":
    main()
