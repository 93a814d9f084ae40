"""wav2vec 2.0's weight names."""

from __future__ import annotations

from glassformer.weights.name_table import NameTable

NAMES = NameTable(
    """
    features.{i}.conv                       feature_extractor.conv_layers.{i}.conv
    features.{i}.norm                       feature_extractor.conv_layers.{i}.layer_norm
    features.norm                           feature_projection.layer_norm
    embed.projection                        feature_projection.projection
    embed.augment.vector                    masked_spec_embed
    embed.positions.gain                    encoder.pos_conv_embed.conv.parametrizations.weight.original0
    embed.positions.direction               encoder.pos_conv_embed.conv.parametrizations.weight.original1
    embed.positions.bias                    encoder.pos_conv_embed.conv.bias
    embed.norm                              encoder.layer_norm
    final_norm                              encoder.layer_norm
    blocks.{i}.attn.qkv                     encoder.layers.{i}.attention.(q|k|v)_proj
    blocks.{i}.attn.out                     encoder.layers.{i}.attention.out_proj
    blocks.{i}.attn_residual.{norm}         encoder.layers.{i}.layer_norm
    blocks.{i}.ffn.up                       encoder.layers.{i}.feed_forward.intermediate_dense
    blocks.{i}.ffn.down                     encoder.layers.{i}.feed_forward.output_dense
    blocks.{i}.ffn_residual.{norm}          encoder.layers.{i}.final_layer_norm

    [head]
    head.decoder                            lm_head
    head.projection                         projector
    head.classifier                         classifier
    head.mix.weights                        layer_weights
    """,
    prefix="wav2vec2",
    renamed={  # two spellings of weight normalisation; files with `weight_g` are older, but either is read
        f"encoder.pos_conv_embed.conv.weight_{old}": f"encoder.pos_conv_embed.conv.parametrizations.weight.{new}"
        for old, new in (("g", "original0"), ("v", "original1"))
    },
    # the first models were published without it; training starts at 0
    zero_if_missing=("embed.augment.vector",),
)
