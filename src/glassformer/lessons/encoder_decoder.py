"""An encoder-decoder transformer in one call, with every size as an argument: a course's exercise, completed.

network = TinyEncoderDecoder(N=2, model_dim=24, num_heads=4, key_dim=3, encoder_vocab=50, decoder_vocab=20)
logits = network(Batch(input_ids=source, decoder_input_ids=target), Flow()).logits          # [B, T, 20]
"""

from __future__ import annotations

import math

from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.embeddings import EmbeddingSpec, SinusoidalSpec
from glassformer.core.feed_forward import FeedForwardSpec
from glassformer.core.init import xavier
from glassformer.core.norms import LayerNormSpec
from glassformer.core.stack import StackSpec
from glassformer.models.transformer import StreamSpec, Transformer, TransformerSpec, decoder_block


class TinyEncoderDecoder(Transformer):
    """The encoder-decoder of 2017, with two vocabularies and a free head width.

    What the exercise lacked: the language-model head (`head`, over `decoder_vocab`); the decoder's input is the target,
    not the source; it is causal; the source's padding mask goes to encoder and cross-attention, the target's to the
    decoder. No length is built in: sequences may be of any length up to `longest`.
    Differs: the causal mask is no registered buffer; it is computed on the device of the queries, for any length
    (`core.masks.AttentionPattern`).

    Args:
        N: number of layers, of the encoder and of the decoder each.
        model_dim: D, the width of the residual stream.
        num_heads: H, the number of attention heads.
        key_dim: E, the width of one head's queries, keys and values; it need not be model_dim / num_heads.
        encoder_vocab: vocabulary size of the source.
        decoder_vocab: vocabulary size of the target.
        hidden_dim: F of the feed-forward layers; None = 4 · model_dim.
        pre_norm: norms before each sub-layer and at the end (common now); else after each addition (the 2017 paper).
        dropout: dropout probability.
        longest: maximum sequence length.
    """

    def __init__(
        self,
        N: int,
        model_dim: int,
        num_heads: int,
        key_dim: int,
        encoder_vocab: int,
        decoder_vocab: int,
        *,
        hidden_dim: int | None = None,
        pre_norm: bool = True,
        dropout: float = 0.0,
        longest: int = 512,
    ) -> None:
        norm = LayerNormSpec(width=model_dim)
        block = BlockSpec(
            attention=AttentionSpec(width=model_dim, heads=num_heads, head_width=key_dim),
            feed_forward=FeedForwardSpec(width=model_dim, hidden=hidden_dim or 4 * model_dim, activation="relu"),
            residual=ResidualSpec.pre_or_post(norm, pre=pre_norm, dropout=dropout),
        )

        def stream(block: BlockSpec, vocabulary: int) -> StreamSpec:
            return StreamSpec(
                embed=EmbeddingSpec(
                    vocabulary=vocabulary,
                    width=model_dim,
                    positions=SinusoidalSpec(count=longest),
                    dropout=dropout,
                    scale=math.sqrt(model_dim),
                ),
                blocks=StackSpec(blocks=(block,) * N),
                final_norm=norm if pre_norm else None,
            )

        spec = TransformerSpec(
            encoder=stream(block, encoder_vocab),
            decoder=stream(decoder_block(block), decoder_vocab),
            tied=False,
        )
        super().__init__(spec)
        xavier(self)
