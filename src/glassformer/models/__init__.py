"""Model families, one module each: `config.json` → spec → network, and the names of their weights.

To add a family, write a module like its neighbours and add it here; see docs/architecture.md.
"""

from __future__ import annotations

from glassformer.deprecation import former_names
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
from glassformer.models._config import ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network, TextSpec

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
"""`model_type` of `config.json` → the family."""

__all__ = ["FAMILIES", "ConfigReader", "Family", "Network", "TextSpec"]

__getattr__ = former_names(__name__)
