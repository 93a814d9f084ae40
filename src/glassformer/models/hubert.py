"""HuBERT: wav2vec 2.0 that learned from sound by guessing, for hidden frames, which cluster of sounds they belong to.

    samples ─ [ convolution ─ norm ─ gelu ] × n ─ norm ─ projection ─ frames
    frames + convolved positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Hsu et al. 2021. The recipe is wav2vec 2.0's but for what stands here.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.models import wav2vec2
from glassformer.models._family import Family, Reader
from glassformer.models._sound import WaveNetworkSpec, build, initialise
from glassformer.weights.names import Names


def spec(reader: Reader) -> WaveNetworkSpec:
    """config.json → spec."""
    reader.fixed("conv_pos_batch_norm", False)
    like_wav2vec2 = wav2vec2.spec(reader)
    if reader.flag("feat_proj_layer_norm", default=True):
        return like_wav2vec2
    return replace(like_wav2vec2, wave=replace(like_wav2vec2.wave, norm=None))


def names(spec: WaveNetworkSpec, task: str) -> Names:
    """Their tensor names: wav2vec 2.0's below another prefix."""
    return replace(wav2vec2.names(spec, task), prefix="hubert")


FAMILY = Family(
    model_type="hubert",
    oddity="wav2vec 2.0's network, trained to name clusters of frames",
    architectures={
        "HubertModel": "feature-extraction",
        "HubertForCTC": "automatic-speech-recognition",
        "HubertForSequenceClassification": "audio-classification",
    },
    spec=spec,
    build=build,
    names=names,
    initialise=initialise,
    opens="sound",
    tiny={
        **wav2vec2.FAMILY.tiny,
        "model_type": "hubert",
        "feat_extract_norm": "group",
        "conv_bias": False,
        "do_stable_layer_norm": False,
    },
)
