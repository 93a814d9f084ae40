"""XLM: a cross-lingual encoder, pre-trained by masked or causal language modelling.

    ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Lample and Conneau 2019. Final hidden states of padding are zeros. Without a mask, or with one of ones, the ids
say what is padding.
Differs: a model with language embeddings is not supported; the reference library adds them to the tokens whose
language is given. In a `causal` model the reference attends to padding on the left, this does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.classification_heads import SequenceClassifier, TokenClassifier
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head
from glassformer.core.language_heads import MaskedLMHead
from glassformer.errors import UnsupportedError
from glassformer.models import bert
from glassformer.models._config import Keys, Values, constant, flag, number, size
from glassformer.models._family import Family, architectures
from glassformer.models._network import Encoder, TextSpec, require_tokens
from glassformer.weights.name_table import NameTable

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class XlmSpec(TextSpec):
    """BERT's spec, and more.

    embedding_std: initial standard deviation of embeddings
    sinusoidal_init: learned positions are initialised as sine and cosine
    """

    embedding_std: float
    sinusoidal_init: bool


KEYS = Keys(
    width="emb_dim hidden_size",
    layers="n_layers num_hidden_layers",
    heads="n_heads num_attention_heads",
    hidden=constant(lambda c: 4 * c.width),
    vocabulary="vocab_size n_words",
    max_tokens="max_position_embeddings",
    padding=("pad_index pad_token_id", 2),
    gelu=flag("gelu_activation", True),
    activation=constant(lambda c: "gelu" if c.gelu else "relu"),
    eps=("layer_norm_eps", 1e-12),
    dropout=("dropout", 0.1),
    attention_dropout=("attention_dropout", 0.1),
    classifier_dropout=("summary_first_dropout", 0.1),
    causal=flag("causal", False),
    tied=("tie_word_embeddings", True),
    init_std=("init_std", 0.02),
    embedding_std=number("embed_init_std", 2048**-0.5),
    sinusoidal_init=flag("sinusoidal_embeddings", False),
    languages=size("n_langs", 1),
    language_embeddings=flag("use_lang_emb", True),
    token_types=constant(0),
    fixed={
        **{"is_encoder": True, "is_decoder": False, "asm": False},
        **{"summary_type": "first", "summary_use_proj": True, "summary_proj_to_labels": True},
        "summary_activation": None,
    },
    # ids of tokens under old names; names of languages; how the vocabulary was built; of the training code; of a head
    # that is not supported
    unused="bos_index eos_index unk_index mask_index mask_token_id id2lang lang2id lang_id max_vocab"
    " min_count same_enc_dec share_inout_emb start_n_top end_n_top",
)


@KEYS.spec
def spec(c: Values) -> XlmSpec:
    """config.json → spec.

    Raises: UnsupportedError: the model has language embeddings.
    """
    if c.languages > 1 and c.language_embeddings:
        raise UnsupportedError(
            "config.json: use_lang_emb = true with n_langs above 1 adds an embedding of each token's language, which "
            "is not supported; set use_lang_emb to false if the model is used without, as the reference does by default"
        )
    return bert.text_spec(c, XlmSpec, **c("tied embedding_std sinusoidal_init"))


class VocabularyHead(MaskedLMHead):
    """Language-model head without a transform: logits = x Eᵀ + b."""

    def __init__(self, width: int, vocabulary: int) -> None:
        Head.__init__(self)
        self.decoder = nn.Linear(width, vocabulary)

    def transform_states(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        return x


class Xlm(Encoder):
    """XLM: embedding, stack, head."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        width = spec.blocks.width
        if task == "text-classification":
            return SequenceClassifier(
                width, spec.labels, pooling="first", dropout=spec.classifier_dropout, problem=spec.problem
            )
        if task == "token-classification":
            return TokenClassifier(width, spec.labels, spec.embed.dropout)
        return None if task == "feature-extraction" else super().make_head(spec, task)

    def make_masked_head(self, spec: TextSpec) -> MaskedLMHead:
        head = VocabularyHead(spec.blocks.width, spec.embed.vocabulary)
        if spec.tied:
            head.decoder.weight = self.embed.tokens.weight
        return head

    def forward(self, batch: Batch, flow: Flow) -> Output:
        ids, padding = require_tokens(batch), self.embed.spec.padding
        if flow.keep is None and flow.packing is None and padding is not None and not ids.is_floating_point():
            # Without a mask the ids give the lengths, as in the reference: a row ends with as many tokens as are text.
            lengths = (ids != padding).sum(1, keepdim=True)
            flow = replace(flow, keep=(torch.arange(ids.shape[1], device=ids.device) < lengths)[:, None])
        return super().forward(batch, flow)

    def finish(self, x: Tensor, flow: Flow) -> Tensor:
        x = super().finish(x, flow)
        return x if flow.keep is None else x.masked_fill(~flow.keep[:, -1, -x.shape[1] :, None], 0.0)


NAMES = NameTable(
    """
    embed.tokens                            embeddings
    embed.positions                         position_embeddings
    embed.norm                              layer_norm_emb
    blocks.{i}.attn.qkv                     attentions.{i}.(q|k|v)_lin
    blocks.{i}.attn.out                     attentions.{i}.out_lin
    blocks.{i}.attn_residual.on_residual    layer_norm1.{i}
    blocks.{i}.ffn.up                       ffns.{i}.lin1
    blocks.{i}.ffn.down                     ffns.{i}.lin2
    blocks.{i}.ffn_residual.on_residual     layer_norm2.{i}

    [head]
    head.decoder.weight                     pred_layer.proj.weight   =?
    head.decoder.bias                       pred_layer.proj.bias
    head.classifier                         classifier
    [text-classification]
    head.classifier                         sequence_summary.summary
    [question-answering]
    head.classifier                         qa_outputs
    """,
    prefix="transformer",
    ignored=("position_ids",),
)


def initialise(network: nn.Module, spec: XlmSpec) -> None:
    """Initialise: normal, embeddings with a deviation of their own, sinusoidal positions where configured."""
    init.normal(network, spec.init_std)
    for table in network.modules():
        if isinstance(table, nn.Embedding):
            nn.init.normal_(table.weight, std=spec.embedding_std)
    if spec.sinusoidal_init:
        init.sinusoidal_positions(network)


FAMILY = Family(
    model_type="xlm",
    distinction="an untransformed, tied language-model head; final states of padding are zeros",
    architectures=architectures(
        "XLM",
        "Model WithLMHeadModel ForSequenceClassification ForTokenClassification ForQuestionAnsweringSimple",
        WithLMHeadModel="fill-mask",
        ForQuestionAnsweringSimple="question-answering",
    ),
    spec=spec,
    build=Xlm,
    names=NAMES,
    initialise=initialise,
    tiny=KEYS.tiny("xlm", pad_token_id=0, pad_index=0),
)
