"""Speech recognition: transcripts of recordings of any length, with segments, words and their times.

    sound ─ spectrogram ─ windows of 30 s ─ decoder ─ timestamps ─> segments ─ alignment ─> words

Read in this order:

    transcribe.py    the front door: a model and a recording → Transcription
    options.py       TranscriptionOptions
    results.py       Transcription, Segment, TimedWord; subtitles.py writes them as SRT, VTT, TSV, text
    vocabulary.py    Whisper's special tokens, and the prompt that they make; timestamps.py: the rules of timestamps
    spectrogram.py   log-mel spectrogram of a long recording, in bounded memory
    window.py        one window of 30 s → tokens, with temperature fallback
    sequential.py    windows one after another: timestamps say where the next one begins
    batched.py       windows cut at silences, several at once; voice.py finds the silences
    alignment.py     word times, from cross-attention and dynamic time warping; alignment_heads.py finds the heads
    ctc.py           recognisers that predict a letter a frame; ctc_search.py: greedy, prefix beam search, alignment
    live.py          text while the speaker speaks; job.py: a file to files, resumed after a stop
"""
