"""HuBERT: wav2vec 2.0's encoder, pre-trained to predict the cluster of masked frames.

    samples ─ [ convolution ─ norm ─ gelu ] × n ─ norm ─ projection ─ frames
    frames + convolved positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Hsu et al. 2021. The rest is wav2vec 2.0's.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.models import wav2vec2
from glassformer.models._config import ConfigReader
from glassformer.models._family import Family
from glassformer.models._speech import SpeechEncoderSpec, build, initialise
from glassformer.weights.names import WeightNames


def spec(reader: ConfigReader) -> SpeechEncoderSpec:
    """config.json → spec."""
    reader.fixed("conv_pos_batch_norm", False)
    like_wav2vec2 = wav2vec2.spec(reader)
    if reader.flag("feat_proj_layer_norm", default=True):
        return like_wav2vec2
    return replace(like_wav2vec2, waveform=replace(like_wav2vec2.waveform, norm=None))


def names(spec: SpeechEncoderSpec, task: str) -> WeightNames:
    """Weight names: wav2vec 2.0's below another prefix."""
    return replace(wav2vec2.names(spec, task), prefix="hubert")


FAMILY = Family(
    model_type="hubert",
    distinction="wav2vec 2.0's network, trained to predict clusters of frames",
    architectures={
        "HubertModel": "feature-extraction",
        "HubertForCTC": "automatic-speech-recognition",
        "HubertForSequenceClassification": "audio-classification",
    },
    spec=spec,
    build=build,
    names=names,
    initialise=initialise,
    modality="sound",
    tiny={
        **wav2vec2.FAMILY.tiny,
        "model_type": "hubert",
        "feat_extract_norm": "group",
        "conv_bias": False,
        "do_stable_layer_norm": False,
    },
)
