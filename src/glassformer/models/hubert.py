"""HuBERT: wav2vec 2.0's encoder, pre-trained to predict the cluster of masked frames.

    samples ─ [ convolution ─ norm ─ gelu ] × n ─ norm ─ projection ─ frames
    frames + convolved positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Hsu et al. 2021. The rest is wav2vec 2.0's.
"""

from __future__ import annotations

from glassformer.models._config import flag
from glassformer.models._family import Family, architectures
from glassformer.models.wav2vec2 import recipe as wav2vec2
from glassformer.models.wav2vec2.names import NAMES
from glassformer.models.wav2vec2.network import build, initialise

KEYS = wav2vec2.KEYS.extend(features_norm=flag("feat_proj_layer_norm", True), fixed={"conv_pos_batch_norm": False})

FAMILY = Family(
    model_type="hubert",
    distinction="wav2vec 2.0's network, trained to predict clusters of frames",
    architectures=architectures("Hubert", "Model ForCTC ForSequenceClassification", **wav2vec2.AUDIO_TASKS),
    spec=KEYS.spec(wav2vec2.encoder_spec),
    build=build,
    names=NAMES.extend(prefix="hubert"),
    initialise=initialise,
    modality="sound",
    tiny=KEYS.tiny(
        "hubert",
        **{**wav2vec2.TINY, "feat_extract_norm": "group", "conv_bias": False, "do_stable_layer_norm": False},
    ),
)
