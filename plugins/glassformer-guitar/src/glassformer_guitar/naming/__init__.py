"""Pedals from sound: which effects a guitar went through, in their order.

task.py       an encoder reads the log-mel spectrogram, a decoder writes the chain · pipeline.py: of any sound
windows.py    log-mel spectrograms in windows · cepstrum.py: delays of copies
chains.py     chains as tokens, and greedy search for them
scores.py     exact chains, F1 of each pedal · baselines.py: a classifier on means of the spectrogram
"""

from glassformer_guitar.naming.task import NamePedals

__all__ = ["NamePedals"]
