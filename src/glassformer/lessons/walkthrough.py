"""Walk-through of a BERT classifier: one sentence from token ids to a label, in twelve steps with named tensors.

    tokens ─ embeddings ─ attention, bare ─ q, k, v ─ scores ─ weights ─ output ─ multi-head
           ─ feed-forward ─ norm ─ positions ─ encoder ─ classifier

Everything is computed by the library's own modules; what a step computes by hand is compared with the module that does
the same. The network is as large as BERT-base, with random weights, unless you bring one.

    $ python -m glassformer.lessons.walkthrough
    $ python -m glassformer.lessons.walkthrough --model all-MiniLM-L6-v2 --text "time flies like an arrow"
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.blocks import Block, Residual
from glassformer.core.classification_heads import SequenceClassifier
from glassformer.core.embeddings import Embedding, LearnedPositions, Sinusoidal, SinusoidalSpec
from glassformer.core.feed_forward import FeedForward
from glassformer.core.flow import Batch, Flow, Tape
from glassformer.core.masks import AttentionPattern
from glassformer.core.norms import LayerNorm
from glassformer.errors import DataError, GlassformerError, UnsupportedError
from glassformer.lessons.attention_steps import LessonStep, bare_attention, multi_head, one_head
from glassformer.lessons.attention_steps import six_steps as six_steps  # documented here until it moved
from glassformer.model import Model, load
from glassformer.models._network import Encoder
from glassformer.reports.report import SeveralReports

WORDS = ("time", "flies", "like", "an", "arrow")
IDS = (2051, 10029, 2066, 2019, 8612)  # the same, in BERT's uncased vocabulary
CLS, SEP = 101, 102

BERT_BASE = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_labels": 3,
}


def lesson_model(seed: int = 0, **changes: int) -> Model:
    """A sequence classifier of the size of BERT-base, with random weights: its outputs mean nothing."""
    torch.manual_seed(seed)
    return Model.from_config({**BERT_BASE, **changes}, task="text-classification").eval()


class Walk(SeveralReports, list[LessonStep]):
    """The steps of the walk-through: a list that a notebook shows as their page."""

    def reports(self) -> list[LessonStep]:
        """Each step."""
        return list(self)


def walk(model: Model | None = None, text: str | None = None, *, ids: Sequence[int] | None = None) -> Walk:
    """All steps in order.

    Args:
        model: a BERT-like classifier; None = `lesson_model()`.
        text: needs a model with a tokenizer.
        ids: instead of a text; None = the ids of "time flies like an arrow" in BERT's uncased vocabulary.
    Raises: UnsupportedError: the model is no BERT. DataError: a text without a tokenizer, or an empty one.
    """
    model = lesson_model() if model is None else model
    network, cls_id, sep_id = model.network, CLS, SEP
    if not isinstance(network, Encoder) or not isinstance(network.head, SequenceClassifier):
        raise UnsupportedError(
            f"the walk-through needs a BERT-like classifier; this is a {model.family.model_type!r} model for "
            f"{model.task!r}: load a BERT with task='text-classification'"
        )
    if text is None:
        first_step = tokens(IDS if ids is None else ids, WORDS if ids is None else None)
    else:
        tokenizer = model.tokenizer
        if tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
            raise UnsupportedError("the classifier reads [CLS]; this tokenizer has no [CLS] or no [SEP] token")
        cls_id, sep_id = tokenizer.cls_token_id, tokenizer.sep_token_id
        text_ids = tokenizer.encode(text, add_special_tokens=False)
        first_step = tokens(text_ids, tokenizer.convert_ids_to_tokens(text_ids))
    row = first_step["ids"]
    with torch.no_grad():
        embedded = embeddings(network.embed, row)
        x = embedded["x"]
        first = network.blocks[0]
        assert isinstance(first, Block) and isinstance(first.ffn, FeedForward)  # a BERT's are
        heads = multi_head(first.attn, x)
        normed = norm(first.attn_residual, x, heads["out"])
        steps = [
            first_step,
            embedded,
            bare_attention(x),
            *one_head(network, row),
            heads,
            feed_forward(first.ffn, normed["normed"]),
            normed,
            positions(network, row),
            encoder(network, row),
            classifier(network, row, cls_id, sep_id),
        ]
    return Walk(steps)


# ------------------------------------------------------------------------------------- from words to vectors


def tokens(ids: Sequence[int], words: Sequence[str] | None = None) -> LessonStep:
    """Tokenization: a sentence as a row of token ids. ids [1, T]"""
    if not ids:
        raise DataError("there are no tokens; give a text with at least one word, or at least one id")
    return LessonStep(
        name="tokens",
        formula="text → tokens → ids",
        tensors={"ids": torch.tensor([list(ids)])},
        notice=f"{' '.join(words) if words else 'the tokens'} → {list(ids)}; no [CLS] and no [SEP] yet",
    )


def embeddings(embed: Embedding, ids: Tensor) -> LessonStep:
    """Token embeddings: a row of the embedding table for each id. rows, x [1, T, D]"""
    table = embed.tokens.weight
    if not 0 <= int(ids.min()) <= int(ids.max()) < table.shape[0]:
        raise DataError(f"ids are {ids[0].tolist()}; allowed: 0 to {table.shape[0] - 1}, the rows of the table")
    one_hot = F.one_hot(ids, table.shape[0]).to(table.dtype)  # [1, T, V]
    return LessonStep(
        name="embeddings",
        formula="row i of the table = one-hot(i) · table",
        tensors={
            "table": table,
            "rows": embed.tokens(ids),
            "one_hot @ table": one_hot @ table,
            "x": embed(ids, Flow()),
        },
        notice="looking a row up and multiplying by a one-hot row give the same bits; x also holds where each token "
        "is, and is normed",
    )


# --------------------------------------------------------------------------- the rest of a block, positions


def feed_forward(ffn: FeedForward, x: Tensor) -> LessonStep:
    """The feed-forward layer (MLP), on each position by itself. neurons [B, T, F]; out [B, T, D]"""
    neurons, out = ffn.activation(ffn.up(x)), ffn(x, Flow())
    one_by_one = torch.cat([ffn(x[:, t : t + 1], Flow()) for t in range(x.shape[1])], dim=1)
    inner = F.conv1d(x.mT, ffn.up.weight[..., None], ffn.up.bias)  # [B, F, T]
    as_convolution = F.conv1d(ffn.activation(inner), ffn.down.weight[..., None], ffn.down.bias).mT
    return LessonStep(
        name="feed-forward",
        formula="out = down(activation(up(x)))",
        tensors={
            "neurons": neurons,
            "out": out,
            "one position at a time": one_by_one,
            "as a convolution": as_convolution,
        },
        notice=f"{x.shape[-1]} → {ffn.up.out_features} → {x.shape[-1]}; positions do not meet here, so one at a time, "
        "or a convolution with a kernel of one, gives the same",
    )


def norm(residual: Residual, x: Tensor, out: Tensor) -> LessonStep:
    """Residual connection and LayerNorm: x + sub-layer(x), normalised. normed [B, T, D]"""
    added = x + out
    layer_norm = residual.on_residual
    assert isinstance(layer_norm, LayerNorm)  # a BERT's is
    mean = added.mean(-1, keepdim=True)
    variance = added.var(-1, correction=0, keepdim=True)  # divided by D, not by D - 1
    by_hand = (added - mean) / (variance + layer_norm.eps).sqrt() * layer_norm.weight
    if layer_norm.bias is not None:
        by_hand = by_hand + layer_norm.bias
    return LessonStep(
        name="norm",
        formula="normed = norm(x + sub-layer(x));   norm(x) = (x - mean) / √(var + eps) · weight + bias",
        tensors={"x + out": added, "normed": residual(x, lambda _: out), "normed, by hand": by_hand},
        notice="norm after the addition (post-norm) is the original of 2017 and BERT's; norm before the sub-layer "
        "(pre-norm) is what most models since GPT-2 do",
    )


def positions(network: Encoder, ids: Tensor) -> LessonStep:
    """Position embeddings. Without them attention is permutation-equivariant: reordered words, reordered outputs.

    change without, with [1, T]: how much each token's output changes when the sentence is reversed
    """
    table = network.embed.positions
    assert isinstance(table, LearnedPositions)  # a BERT's are
    T, D = ids.shape[1], network.embed.spec.width
    order = torch.arange(T).flip(0)
    same_position = Flow(positions=torch.zeros_like(ids))  # every token at position 0
    without = network.states(Batch(input_ids=ids), same_position)
    without_reversed = network.states(Batch(input_ids=ids[:, order]), same_position)
    with_positions = network.states(Batch(input_ids=ids), Flow())
    with_positions_reversed = network.states(Batch(input_ids=ids[:, order]), Flow())
    change_without, change_with = (
        (a[:, order] - b).abs().max().item()
        for a, b in ((without, without_reversed), (with_positions, with_positions_reversed))
    )
    position_ids = torch.arange(T)[None]
    return LessonStep(
        name="positions",
        formula="x = tokens[id] + positions[p];   sinusoidal: sin and cos of p / 10000^(2i/D)",
        tensors={
            "table": table.weight,
            "learned": table(position_ids),
            "sinusoidal": Sinusoidal(SinusoidalSpec(count=T), D)(position_ids, torch.float32),
            "change without": (without[:, order] - without_reversed).abs().amax(-1),
            "change with": (with_positions[:, order] - with_positions_reversed).abs().amax(-1),
        },
        notice="the sentence reversed, its outputs put back in order: without positions they differ by "
        f"{change_without:.0e}, with them by {change_with:.1f}",
    )


# ------------------------------------------------------------------------------------------------ the full model


def encoder(network: Encoder, ids: Tensor) -> LessonStep:
    """The encoder: a stack of blocks, each with its own weights. x after each block [1, T, D]"""
    tape = Tape("embed.out", *(f"blocks.{i}.out" for i in range(len(network.blocks)))).attach(network)
    states = network.states(Batch(input_ids=ids), Flow(tape=tape))
    similarity = torch.cosine_similarity(tape.taps["embed.out"], states, dim=-1).mean().item()
    return LessonStep(
        name="encoder",
        formula=f"x = block(x), {len(network.blocks)} times",
        tensors={**tape.taps, "final": states},
        notice="the shape never changes; after the last block a token's vector has a cosine similarity of "
        f"{similarity:.2f} to its embedding",
    )


def classifier(network: Encoder, ids: Tensor, cls_id: int = CLS, sep_id: int = SEP) -> LessonStep:
    """Sequence classification: a label from the state of the first token, [CLS]. logits [1, labels]"""
    with_special = torch.cat([torch.tensor([[cls_id]]), ids, torch.tensor([[sep_id]])], dim=1)  # [1, T + 2]
    with_cls, without_cls = (
        classify(network, with_special, cls_id),
        network(Batch(input_ids=ids), Flow()).logits,
    )
    return LessonStep(
        name="classifier",
        formula="logits = tanh(x[first] W_pool + b) W + b",
        tensors={"ids": with_special, "logits": with_cls, "logits without [CLS]": without_cls},
        notice="the head reads the first token, whatever it is: without [CLS] it labels the first word's vector, which "
        "no training has prepared for that",
    )


def classify(network: Encoder, ids: Tensor, cls_id: int = CLS) -> Tensor:
    """The logits of sentences that begin with [CLS]. [B, labels]

    Raises: DataError: a sentence begins with something else.
    """
    first = ids[:, 0].tolist()
    if any(i != cls_id for i in first):
        raise DataError(
            f"the classifier reads the first token, which must be [CLS] ({cls_id}); got {first}: encode the text with "
            "add_special_tokens=True"
        )
    logits: Tensor = network(Batch(input_ids=ids), Flow()).logits
    return logits


def masks(T: int = 5, S: int = 4) -> LessonStep:
    """Attention masks of the three kinds of transformers. True = may attend."""
    return LessonStep(
        name="masks",
        formula="encoder: all see all;   decoder: none sees what comes later;   encoder-decoder: both, and a rectangle",
        tensors={
            "encoder": AttentionPattern().keep(S, S),
            "decoder": AttentionPattern(causal=True).keep(T, T),
            "cross": AttentionPattern().keep(T, S),
        },
        notice="one kind of block, three ways to configure it; padding hides columns in each of them",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m glassformer.lessons.walkthrough", description="One sentence from ids to a label."
    )
    parser.add_argument("--model", help="a BERT-like model with its tokenizer: a folder, or a name on the Hub")
    parser.add_argument("--text", help="needs --model")
    options = parser.parse_args()
    if options.text is not None and options.model is None:
        parser.error("--text needs --model, whose tokenizer reads it")
    text = options.text or (" ".join(WORDS) if options.model else None)
    try:
        model = load(options.model, task="text-classification") if options.model else None
        print("\n\n".join(map(str, walk(model, text))))
    except GlassformerError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
