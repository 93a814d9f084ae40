"""One sentence from ids to a label, in twelve small steps, each of which names the tensors it makes.

    tokens ─ embeddings ─ attention, bare ─ q, k, v ─ scores ─ weights ─ output ─ multi-head
           ─ feed-forward ─ norm ─ positions ─ encoder ─ classifier

Everything is computed by the library's own parts; where a step writes something out by hand, it is beside the part
that does the same. The network is as large as BERT-base, with random weights, unless you bring one.

    $ python -m glassformer.lessons.walkthrough
    $ python -m glassformer.lessons.walkthrough --model all-MiniLM-L6-v2 --text "time flies like an arrow"
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import fill

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.attention import Attention, CrossAttention, scaled_dot_product_attention, softmax
from glassformer.core.blocks import Block, Residual
from glassformer.core.embeddings import Embedding
from glassformer.core.feed_forward import FeedForward
from glassformer.core.flow import Batch, Flow, Node, Tape
from glassformer.core.heads import Classifier
from glassformer.core.masks import Pattern
from glassformer.core.norms import LayerNorm
from glassformer.core.positions import LearnedPositions, Sinusoidal
from glassformer.core.specs import SinusoidalSpec
from glassformer.errors import DataError, GlassformerError, UnsupportedError
from glassformer.model import Model, load
from glassformer.models.bert import Bert

PIECES = ("time", "flies", "like", "an", "arrow")
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


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the way: what is computed, the tensors it makes, and what to notice in them."""

    name: str
    formula: str
    tensors: Mapping[str, Tensor]
    notice: str

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __str__(self) -> str:
        rows = [f"{self.name}:   {self.formula}"]
        for name, tensor in self.tensors.items():
            rows.append(f"    {name:<22} {list(tensor.shape)}")
            if (
                tensor.dim() > 1 and max(tensor.shape[-2:]) <= 8 and tensor.numel() <= 64
            ):  # small enough to read
                number = "{:7.3f}" if tensor.is_floating_point() else "{:7d}"
                rows += [
                    "        " + " ".join(map(number.format, row)) for row in tensor.flatten(0, -2).tolist()
                ]
        return "\n".join([*rows, fill(self.notice, 100, initial_indent="    → ", subsequent_indent="      ")])


def lesson_model(seed: int = 0, **changes: int) -> Model:
    """A classifier as large as BERT-base, with random weights: shapes and rules are real, meanings are not."""
    torch.manual_seed(seed)
    return Model.from_config({**BERT_BASE, **changes}, task="text-classification").eval()


def walk(
    model: Model | None = None, text: str | None = None, *, ids: Sequence[int] | None = None
) -> list[Step]:
    """All steps in order.

    Args:
        model: a BERT-like classifier; None = `lesson_model()`.
        text: needs a model with a tokenizer.
        ids: instead of a text; None = the ids of "time flies like an arrow" in BERT's uncased vocabulary.
    Raises: UnsupportedError: the model is no BERT. DataError: a text without a tokenizer, or an empty one.
    """
    model = lesson_model() if model is None else model
    network, cls_id, sep_id = model.network, CLS, SEP
    if not isinstance(network, Bert) or not isinstance(network.head, Classifier):
        raise UnsupportedError(
            f"the walk-through is of a BERT-like classifier; this is a {model.family.model_type!r} model for "
            f"{model.task!r}: load a BERT with task='text-classification'"
        )
    if text is None:
        start = tokens(IDS if ids is None else ids, PIECES if ids is None else None)
    else:
        tokenizer = model.tokenizer
        if tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
            raise UnsupportedError(
                "the classifier reads [CLS]; this model's tokenizer has no [CLS] or no [SEP]"
            )
        cls_id, sep_id = tokenizer.cls_token_id, tokenizer.sep_token_id
        found = tokenizer.encode(text, add_special_tokens=False)
        start = tokens(found, tokenizer.convert_ids_to_tokens(found))
    row = start["ids"]
    with torch.no_grad():
        embedded = embeddings(network.embed, row)
        x = embedded["x"]
        first = network.blocks[0]
        assert isinstance(first, Block) and isinstance(first.ffn, FeedForward)  # a BERT's are
        heads = multi_head(first.attn, x)
        after = norm(first.attn_residual, x, heads["out"])
        return [
            start,
            embedded,
            bare_attention(x),
            *one_head(network, row),
            heads,
            feed_forward(first.ffn, after["normed"]),
            after,
            positions(network, row),
            encoder(network, row),
            classifier(network, row, cls_id, sep_id),
        ]


# ------------------------------------------------------------------------------------- from words to vectors


def tokens(ids: Sequence[int], pieces: Sequence[str] | None = None) -> Step:
    """A sentence as a row of whole numbers. ids [1, T]"""
    if not ids:
        raise DataError("there are no tokens; give a text with at least one word, or at least one id")
    return Step(
        name="tokens",
        formula="text → pieces → ids",
        tensors={"ids": torch.tensor([list(ids)])},
        notice=f"{' '.join(pieces) if pieces else 'the pieces'} → {list(ids)}; no [CLS] and no [SEP] yet",
    )


def embeddings(embed: Embedding, ids: Tensor) -> Step:
    """A row of the table for each id. rows, x [1, T, D]"""
    table = embed.tokens.weight
    if not 0 <= int(ids.min()) <= int(ids.max()) < table.shape[0]:
        raise DataError(
            f"ids are {ids[0].tolist()}; allowed: 0 to {table.shape[0] - 1}, the rows of the table"
        )
    one_hot = F.one_hot(ids, table.shape[0]).to(table.dtype)  # [1, T, V]
    return Step(
        name="embeddings",
        formula="row i of the table = one-hot(i) · table",
        tensors={
            "table": table,
            "rows": embed.tokens(ids),
            "one_hot @ table": one_hot @ table,
            "x": embed(ids, Flow()),
        },
        notice="looking a row up and multiplying by a one-hot row give the same bits; x also holds where each token "
        "stands, and is normed",
    )


# ------------------------------------------------------------------------------------------------- attention


def bare_attention(x: Tensor) -> Step:
    """Attention without any weights: queries, keys and values are all x. scores, weights [1, T, T]; output [1, T, D]"""
    output, weights = scaled_dot_product_attention(x, x, x)
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    own = weights.diagonal(dim1=-2, dim2=-1).mean().item()
    return Step(
        name="attention, bare",
        formula=f"softmax(x xᵀ / √{x.shape[-1]}) x",
        tensors={"scores": scores, "weights": weights, "output": output},
        notice=f"each row of weights sums to 1; a vector is most like itself, so a token keeps {own:.2f} of its "
        "attention for itself: without projections of their own, queries and keys have nothing to say",
    )


def six_steps(
    network: Node, batch: Batch, flow: Flow | None = None, *, path: str = "blocks.0.attn", head: int = 0
) -> dict[str, Tensor]:
    """Everything that one head of any attention layer computes, in any network, on the way it really takes.

        q, k, v → raw_scores = q kᵀ → scaled_scores → seen_scores (bias and mask) → weights → weighted_values → sum

    Args:
        path: the layer: `blocks.3.attn`, `decoder.blocks.0.cross`, …
        head: which of its heads.
    Returns: q [B, T, E], k v [B, S, E], scores and weights [B, T, S], weighted_values [B, T, S, E], sum [B, T, E].
    Source: Vaswani et al. 2017, section 3.2.1.
    """
    tape = Tape(*(f"{path}.{name}" for name in ("q", "k", "v", "scores"))).attach(network)
    network(batch, replace(flow or Flow(), tape=tape))
    attention = network.get_submodule(path)
    assert isinstance(attention, (Attention, CrossAttention))  # no other part has these taps
    q, k, v, seen = (tape.taps[f"{path}.{name}"] for name in ("q", "k", "v", "scores"))
    if not 0 <= head < q.shape[1]:
        raise DataError(f"{path} has no head {head}; it has heads 0 to {q.shape[1] - 1}")
    shared = q.shape[1] // k.shape[1]  # query heads that share one key/value head
    q, k, v, seen = q[:, head], k[:, head // shared], v[:, head // shared], seen[:, head]
    raw = q @ k.mT
    weights = softmax(seen)
    weighted = weights[..., None] * v[:, None]  # [B, T, S, E]
    return {
        "q": q,
        "k": k,
        "v": v,
        "raw_scores": raw,
        "scaled_scores": raw * attention.scale,
        "seen_scores": seen,
        "weights": weights,
        "weighted_values": weighted,
        "sum": weighted.sum(dim=2),
    }


def one_head(network: Bert, ids: Tensor, layer: int = 0, head: int = 0) -> list[Step]:
    """The four steps of one head: q, k, v; scores; weights; output."""
    made = six_steps(network, Batch(input_ids=ids), path=f"blocks.{layer}.attn", head=head)
    width = made["q"].shape[-1]
    strongest = made["weights"][0].max().item()
    return [
        Step(
            name="q, k, v",
            formula="q = x W_q,  k = x W_k,  v = x W_v",
            tensors={name: made[name] for name in "qkv"},
            notice=f"head {head} of layer {layer} asks (q), offers (k) and gives (v) in {width} numbers a token: "
            "the width of a head, not the number of heads",
        ),
        Step(
            name="scores",
            formula=f"q kᵀ / √{width}",
            tensors={"raw_scores": made["raw_scores"], "scaled_scores": made["scaled_scores"]},
            notice=f"row: who asks; column: who is asked. Divided by {math.sqrt(width):.3g}, or the softmax would be "
            "almost all or nothing",
        ),
        Step(
            name="weights",
            formula="softmax(scores), along each row",
            tensors={"weights": made["weights"]},
            notice=f"rows sum to 1, columns need not; the largest weight is {strongest:.2f}. What may not be seen was "
            "set to -inf before the softmax, and so gets exactly 0",
        ),
        Step(
            name="output",
            formula="Σ over tokens of weight · v",
            tensors={"weighted_values": made["weighted_values"], "sum": made["sum"]},
            notice="each token leaves with a mixture of all tokens' values",
        ),
    ]


def single_head(attention: Attention, x: Tensor, head: int) -> Tensor:
    """One head by itself, with its own rows of the fused weight. [B, T, E]"""
    E, H = attention.spec.E, attention.spec.heads
    weight = attention.qkv.weight.unflatten(0, (3, H, E))[:, head]  # [3, E, D]
    bias = attention.qkv.bias.unflatten(0, (3, H, E))[:, head]  # [3, E]
    q, k, v = (F.linear(x, weight[part], bias[part]) for part in range(3))
    return scaled_dot_product_attention(q, k, v)[0]


def multi_head(attention: Attention, x: Tensor) -> Step:
    """All heads side by side, projected back to the width of the stream. out [B, T, D]"""
    H, E = attention.spec.heads, attention.spec.E
    joined = torch.cat([single_head(attention, x, head) for head in range(H)], dim=-1)  # [B, T, H · E]
    by_hand = attention.out(joined)
    out = attention(x, Flow())
    return Step(
        name="multi-head",
        formula="out = [z₁ … z_H] W_out",
        tensors={"joined": joined, "out, head by head": by_hand, "out": out},
        notice=f"{H} heads of {E}, made one by one, give what the layer computes in one product "
        f"(largest difference {(out - by_hand).abs().max():.0e})",
    )


# --------------------------------------------------------------------------- the rest of a block, positions


def feed_forward(ffn: FeedForward, x: Tensor) -> Step:
    """Wider, bent, narrower: each position by itself. neurons [B, T, F]; out [B, T, D]"""
    neurons, out = ffn.activation(ffn.up(x)), ffn(x, Flow())
    one_by_one = torch.cat([ffn(x[:, t : t + 1], Flow()) for t in range(x.shape[1])], dim=1)
    inner = F.conv1d(x.mT, ffn.up.weight[..., None], ffn.up.bias)  # [B, F, T]
    as_convolution = F.conv1d(ffn.activation(inner), ffn.down.weight[..., None], ffn.down.bias).mT
    return Step(
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


def norm(residual: Residual, x: Tensor, out: Tensor) -> Step:
    """What a sub-layer answers is added to the stream, and the sum is normed. normed [B, T, D]"""
    added = x + out
    layer_norm = residual.on_residual
    assert isinstance(layer_norm, LayerNorm)  # a BERT's is
    mean = added.mean(-1, keepdim=True)
    variance = added.var(-1, correction=0, keepdim=True)  # divided by D, not by D - 1
    by_hand = (added - mean) / (variance + layer_norm.eps).sqrt() * layer_norm.weight
    if layer_norm.bias is not None:
        by_hand = by_hand + layer_norm.bias
    return Step(
        name="norm",
        formula="normed = norm(x + sub-layer(x));   norm(x) = (x - mean) / √(var + eps) · weight + bias",
        tensors={
            "x + out": added,
            "normed": residual(x, lambda _: out),
            "normed, by hand": by_hand,
        },
        notice="norm after the addition (post-norm) is the original of 2017 and BERT's; norm before the sub-layer "
        "(pre-norm) is what most models since GPT-2 do",
    )


def positions(network: Bert, ids: Tensor) -> Step:
    """Where a token stands. Without that, attention sees a set: words in another order get the same answers, reordered.

    change without, with [1, T]: how far each token's answer moves when the sentence is read backwards
    """
    table = network.embed.positions
    assert isinstance(table, LearnedPositions)  # a BERT's are
    T, D = ids.shape[1], network.embed.spec.width
    order = torch.arange(T).flip(0)
    nowhere = Flow(positions=torch.zeros_like(ids))  # every token in the same place
    without = network.states(Batch(input_ids=ids), nowhere)
    without_mixed = network.states(Batch(input_ids=ids[:, order]), nowhere)
    with_them = network.states(Batch(input_ids=ids), Flow())
    with_them_mixed = network.states(Batch(input_ids=ids[:, order]), Flow())
    same, other = (
        (a[:, order] - b).abs().max().item()
        for a, b in ((without, without_mixed), (with_them, with_them_mixed))
    )
    places = torch.arange(T)[None]
    return Step(
        name="positions",
        formula="x = tokens[id] + positions[p];   sinusoidal: sin and cos of p / 10000^(2i/D)",
        tensors={
            "table": table.weight,
            "learned": table(places),
            "sinusoidal": Sinusoidal(SinusoidalSpec(count=T), D)(places, torch.float32),
            "change without": (without[:, order] - without_mixed).abs().amax(-1),
            "change with": (with_them[:, order] - with_them_mixed).abs().amax(-1),
        },
        notice=f"the sentence backwards, its answers put back in order: without positions they differ by {same:.0e}, "
        f"with them by {other:.1f}",
    )


# ---------------------------------------------------------------------------------------------- the whole thing


def encoder(network: Bert, ids: Tensor) -> Step:
    """Block after block, each with weights of its own. x after each block [1, T, D]"""
    tape = Tape("embed.out", *(f"blocks.{i}.out" for i in range(len(network.blocks)))).attach(network)
    states = network.states(Batch(input_ids=ids), Flow(tape=tape))
    alike = torch.cosine_similarity(tape.taps["embed.out"], states, dim=-1).mean().item()
    return Step(
        name="encoder",
        formula=f"x = block(x), {len(network.blocks)} times",
        tensors={**tape.taps, "final": states},
        notice=f"the shape never changes; after the last block a token's vector has a cosine of {alike:.2f} to what "
        "went in",
    )


def classifier(network: Bert, ids: Tensor, cls_id: int = CLS, sep_id: int = SEP) -> Step:
    """A label for the whole sentence, read off its first token: which has to be [CLS]. logits [1, labels]"""
    marked = torch.cat([torch.tensor([[cls_id]]), ids, torch.tensor([[sep_id]])], dim=1)  # [1, T + 2]
    right, wrong = classify(network, marked, cls_id), network(Batch(input_ids=ids), Flow()).logits
    return Step(
        name="classifier",
        formula="logits = tanh(x[first] W_pool + b) W + b",
        tensors={"ids": marked, "logits": right, "logits without [CLS]": wrong},
        notice="the head reads the first token, whatever it is: without [CLS] it labels the first word's vector, which "
        "no training has prepared for that",
    )


def classify(network: Bert, ids: Tensor, cls_id: int = CLS) -> Tensor:
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


def masks(T: int = 5, S: int = 4) -> Step:
    """Who may see whom, in the three kinds of transformers. True = may attend."""
    return Step(
        name="masks",
        formula="encoder: all see all;   decoder: none sees what comes later;   encoder-decoder: both, and a rectangle",
        tensors={
            "encoder": Pattern().keep(S, S),
            "decoder": Pattern(causal=True).keep(T, T),
            "cross": Pattern().keep(T, S),
        },
        notice="one kind of block, three ways to configure it; padding hides columns in each of them",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m glassformer.lessons.walkthrough", description="One sentence from ids to a label."
    )
    parser.add_argument(
        "--model", help="a BERT-like model with its tokenizer: a folder, or a name on the Hub"
    )
    parser.add_argument("--text", help="needs --model")
    options = parser.parse_args()
    if options.text is not None and options.model is None:
        parser.error("--text needs --model, whose tokenizer reads it")
    text = options.text or (" ".join(PIECES) if options.model else None)
    try:
        model = load(options.model, task="text-classification") if options.model else None
        print("\n\n".join(map(str, walk(model, text))))
    except GlassformerError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
