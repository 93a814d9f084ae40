"""EnCodec: sound as codes, by convolutions, an LSTM, and codebooks of Euclidean distance.

seanet.py     the encoder and decoder of waveforms, at once or piece by piece
quantizer.py  codebooks of Euclidean distance
network.py    the codec: chunks, loudness, overlap-add
names.py      weight names
recipe.py     config keys, architectures
"""

from glassformer.models.encodec.names import NAMES, names
from glassformer.models.encodec.network import Encodec, EncodecSpec
from glassformer.models.encodec.recipe import FAMILY, KEYS, spec

__all__ = ["FAMILY", "KEYS", "NAMES", "Encodec", "EncodecSpec", "names", "spec"]
