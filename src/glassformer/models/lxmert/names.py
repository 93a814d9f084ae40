"""Weight names of LXMERT: text, image regions, and the blocks in which each attends to the other."""

from __future__ import annotations

from glassformer.weights.name_table import NameTable

BLOCK = """
    {ours}.attn.qkv                     {attention}.self.(query|key|value)
    {ours}.attn.out                     {attention}.output.dense
    {ours}.attn_residual.on_residual    {attention}.output.LayerNorm
    {ours}.ffn.up                       {up}.dense
    {ours}.ffn.down                     {down}.dense
    {ours}.ffn_residual.on_residual     {down}.LayerNorm
"""
CROSS = """
    {ours}.cross.q                         encoder.x_layers.{i}.visual_attention.att.query
    {ours}.cross.kv                        encoder.x_layers.{i}.visual_attention.att.(key|value)
    {ours}.cross.out                       encoder.x_layers.{i}.visual_attention.output.dense
    {ours}.cross_residual.on_residual      encoder.x_layers.{i}.visual_attention.output.LayerNorm
"""
"""One module in the checkpoint, for both modalities."""


def modality_lines(modality: str, layers: str, their: str) -> str:
    """The lines of a modality's blocks: those of its own encoder, and those that attend to the other modality."""
    i, layer, crossed = "{i}", f"encoder.{layers}.{{i}}", f"encoder.x_layers.{{i}}.{their}"
    own = BLOCK.format(
        ours=f"{modality}.blocks.{{i}}",
        attention=f"{layer}.attention",
        up=f"{layer}.intermediate",
        down=f"{layer}.output",
    )
    ours = f"{modality}.crossed.{{i}}"
    return (
        own
        + BLOCK.format(ours=ours, attention=f"{crossed}_self_att", up=f"{crossed}_inter", down=f"{crossed}_output")
        + CROSS.format(ours=ours, i=i)
    )


NAMES = NameTable(
    modality_lines("text", "layer", "lang")
    + modality_lines("vision", "r_layers", "visn")
    + """
    text.embed.tokens                  embeddings.word_embeddings
    text.embed.positions               embeddings.position_embeddings
    text.embed.segments                embeddings.token_type_embeddings
    text.embed.norm                    embeddings.LayerNorm
    vision.embed.features              encoder.visn_fc.visn_fc
    vision.embed.features_norm         encoder.visn_fc.visn_layer_norm
    vision.embed.boxes                 encoder.visn_fc.box_fc
    vision.embed.boxes_norm            encoder.visn_fc.box_layer_norm
    head.pooler.dense                  pooler.dense
    head.answer.pooler.dense           pooler.dense

    [head]
    head.dense                         answer_head.logit_fc.0
    head.norm                          answer_head.logit_fc.2
    head.classifier                    answer_head.logit_fc.3
    head.answer.dense                  answer_head.logit_fc.0
    head.answer.norm                   answer_head.logit_fc.2
    head.answer.classifier             answer_head.logit_fc.3
    head.masked.transform              cls.predictions.transform.dense
    head.masked.norm                   cls.predictions.transform.LayerNorm
    head.masked.decoder.weight         cls.predictions.decoder.weight            =
    head.masked.decoder.bias           cls.predictions.bias
    head.matched                       cls.seq_relationship
    head.questions.transform           obj_predict_head.transform.dense
    head.questions.norm                obj_predict_head.transform.LayerNorm
    head.questions.asked.obj           obj_predict_head.decoder_dict.obj
    head.questions.asked.attr          obj_predict_head.decoder_dict.attr
    head.questions.asked.feat          obj_predict_head.decoder_dict.feat
    """,
    prefix="lxmert",
)
