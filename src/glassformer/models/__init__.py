"""One recipe a family: `config.json` → spec, spec → network, their tensor names ↔ ours.

To add a family, write a recipe like its neighbours and put its record here; see docs/architecture.md.
"""

from __future__ import annotations

from glassformer.models import (
    bart,
    bert,
    big_bird,
    clip,
    clip_text_model,
    clip_vision_model,
    distilbert,
    dpr,
    gpt2,
    hubert,
    imagegpt,
    layoutlm,
    llama,
    lxmert,
    marian,
    mbart,
    mistral,
    mixtral,
    openai_gpt,
    pegasus,
    phi,
    phi3,
    qwen2,
    roberta,
    t5,
    tapas,
    transformer,
    vit,
    wav2vec2,
    whisper,
    xlm,
    xlm_roberta,
)
from glassformer.models._family import Family, Network, Reader, TextSpec

FAMILIES: dict[str, Family] = {
    recipe.FAMILY.model_type: recipe.FAMILY
    for recipe in (
        bart,
        bert,
        big_bird,
        clip,
        clip_text_model,
        clip_vision_model,
        distilbert,
        dpr,
        gpt2,
        hubert,
        imagegpt,
        layoutlm,
        llama,
        lxmert,
        marian,
        mbart,
        mistral,
        mixtral,
        openai_gpt,
        pegasus,
        phi,
        phi3,
        qwen2,
        roberta,
        t5,
        tapas,
        transformer,
        vit,
        wav2vec2,
        whisper,
        xlm,
        xlm_roberta,
    )
}
"""`model_type` of `config.json` → the family's record."""

__all__ = ["FAMILIES", "Family", "Network", "Reader", "TextSpec"]
