"""Tasks over the codes of an audio codec.

codes_task.py  what they share: recordings of rows as codes, delayed ids
generate.py    audio generation: a decoder predicts the next codes · bigrams.py: a baseline
convert.py     audio to audio: a decoder makes one recording of another, which it reads alongside it
"""
