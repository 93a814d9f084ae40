"""Tokenizers: text to token ids and back, on the Hugging Face `tokenizers` engine, without torch.

Read in this order:

    tokenizer.py             Tokenizer: call it, encode, decode, converse, save; vocabulary.py: its tokens and ids
    settings.py              the settings of a folder: special tokens (by family, where no file says), padding side;
                               its chat templates
    build.py                 from a folder to an engine: tokenizer.json or vocab.txt, or else by the family's reader:
                               bpe.py             vocab.json and merges.txt
                               characters.py      vocab.json of characters, with CTC decoding
                               sentencepiece.py   SentencePiece, and the ids of its pieces by family
                               sentencepiece_model.py   the SentencePiece file itself
    growth.py                bounds on what a tokenizer makes of a text
    engine.py                the boundary to the engine: checked inputs, its errors, its cheap copies
    encoding.py              a call: its options (padding, truncation, stride), rows; Encoding, the result
    batches.py               the fast path for many texts, pairs, pre-split words
    long_text.py             texts beyond a million characters, in chunks with the same result
    chat.py                  chat templates; sandbox.py runs them
    stages.py                tokenization step by step, for inspection
    options.py               options of training and of checking; corpus.py: both on files
    train.py                 trains tokenizers; untrained.py: pipelines without vocabulary, unigram.py: Unigram models
    token_bytes.py           the bytes of each token
    sentences.py             sentence splitting; windows.py: windows over a text that is longer than a model reads
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from glassformer.files.lazy import LazyPackage

if TYPE_CHECKING:
    from glassformer.text.encoding import Encoding
    from glassformer.text.stages import Stages
    from glassformer.text.tokenizer import Tokenizer

__all__ = ["Encoding", "Stages", "Tokenizer"]

_LAZY = {
    "Encoding": "glassformer.text.encoding",
    "Stages": "glassformer.text.stages",
    "Tokenizer": "glassformer.text.tokenizer",
}
"""Imported when used: a command line reads `options` without the engine."""

sys.modules[__name__].__class__ = LazyPackage
