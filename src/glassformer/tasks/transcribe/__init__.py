"""Speech recognition as a task: transcripts of recordings, by a decoder (Whisper) or letter by letter (CTC).

task.py          examples, predictions, word and character error rate: start there
recognisers.py   what differs between the two: labels of a transcript, inputs, and transcripts of an output
scores.py        options of an evaluation, word and character error rate
sounds.py        the recording of a row: a file in a folder, bytes, samples
quality.py       which recordings are left out, and why
augmentation.py  data augmentation: speed, gain, noise, SpecAugment
"""
