"""Weight names of CLIP's towers, as lines of a table, below the prefixes `ours` and `theirs`."""

POSITION_IDS = "embeddings.position_ids"
"""A buffer in files of old releases."""

BLOCK_LINES = """
    {ours}blocks.{{i}}.attn_residual.before    {theirs}encoder.layers.{{i}}.layer_norm1
    {ours}blocks.{{i}}.attn.qkv                {theirs}encoder.layers.{{i}}.self_attn.(q|k|v)_proj
    {ours}blocks.{{i}}.attn.out                {theirs}encoder.layers.{{i}}.self_attn.out_proj
    {ours}blocks.{{i}}.ffn_residual.before     {theirs}encoder.layers.{{i}}.layer_norm2
    {ours}blocks.{{i}}.ffn.up                  {theirs}encoder.layers.{{i}}.mlp.fc1
    {ours}blocks.{{i}}.ffn.down                {theirs}encoder.layers.{{i}}.mlp.fc2
"""
TEXT_LINES = f"""
    {{ours}}embed.tokens        {{theirs}}embeddings.token_embedding
    {{ours}}embed.positions     {{theirs}}embeddings.position_embedding
    {{ours}}final_norm          {{theirs}}final_layer_norm
    {BLOCK_LINES}"""
# "pre_layrnorm" is a misspelling of the reference library.
VISION_LINES = f"""
    {{ours}}embed.projection    {{theirs}}embeddings.patch_embedding
    {{ours}}embed.summary       {{theirs}}embeddings.class_embedding
    {{ours}}embed.positions     {{theirs}}embeddings.position_embedding
    {{ours}}embed.norm          {{theirs}}pre_layrnorm
    {{ours}}final_norm          {{theirs}}post_layernorm
    {BLOCK_LINES}"""
