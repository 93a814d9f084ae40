"""BigBird: BERT with block-sparse attention: tokens attend to a few blocks of a long text.

    ids + positions + token types ─ norm ─ [ block-sparse attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Zaheer et al. 2020. The rest is BERT's.
Differs: the reference library keeps full attention for good once it has met a short text; here each text is treated
by itself.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.stack import StackSpec
from glassformer.models import bert
from glassformer.models._config import Values, flag, size, size_or_zero, text, token_id
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models.big_bird.block_sparse import BlockSparseAttentionSpec
from glassformer.models.big_bird.network import BigBirdSpec, build

KEYS = bert.KEYS.extend(
    activation=("hidden_act", "gelu_new"),
    bias=("use_bias", True),
    block=size("block_size", 64),
    random=size_or_zero("num_random_blocks", 3),
    attention_type=text("attention_type", "block_sparse"),
    rescale=flag("rescale_embeddings", False),
    separator=token_id("sep_token_id", 66),
    fixed={"attention_type": ("block_sparse", "original_full")},
)


@KEYS.spec
def spec(c: Values) -> BigBirdSpec:
    like_bert = bert.text_spec(c, BigBirdSpec, separator=c.separator)
    block = bert.block_spec(c)
    full = replace(block.attention, bias=c.bias)
    sparse = [
        BlockSparseAttentionSpec(
            **c("width heads bias block random"), dropout=full.dropout, seed=layer, longest=c.max_tokens
        )
        for layer in range(c.layers)
    ]
    layers = sparse if c.attention_type == "block_sparse" else [full] * c.layers
    return replace(
        like_bert,
        embed=replace(like_bert.embed, scale=c.width**0.5 if c.rescale else 1.0),
        blocks=StackSpec(blocks=tuple(replace(block, attention=layer) for layer in layers)),
    )


NAMES = bert.NAMES.extend(
    """
    head.dense                         pooler
    head.next_sentence.pooler.dense    pooler
    [text-classification]
    head.pooler.dense                  classifier.dense
    head.classifier                    classifier.out_proj
    [question-answering]
    head.ffn.up                        qa_classifier.intermediate.dense
    head.ffn.down                      qa_classifier.output.dense
    head.norm                          qa_classifier.output.LayerNorm
    head.classifier                    qa_classifier.qa_outputs
    """,
    unread=("pooler.weight", "pooler.bias"),  # every task's files have a pooler
)

FAMILY = Family(
    model_type="big_bird",
    distinction="block-sparse attention: global, sliding and random blocks instead of all pairs",
    architectures=architectures("BigBird", f"Model ForMaskedLM ForPreTraining {CLASSIFIERS}"),
    spec=spec,
    build=build,
    names=NAMES,
    tiny=KEYS.tiny("big_bird", type_vocab_size=2, block_size=1, num_random_blocks=1),
)
