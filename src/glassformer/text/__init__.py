"""Tokenizers: text to token ids and back, on the Hugging Face `tokenizers` engine, without torch.

Read in this order:

    tokenizer.py             Tokenizer: call it, encode, decode, save; vocabulary.py: its tokens and ids
    build.py                 from a folder to an engine: tokenizer.json, or else by the family's reader:
                               wordpiece.py       vocab.txt
                               bpe.py             vocab.json and merges.txt
                               characters.py      vocab.json of characters, with CTC decoding
                               sentencepiece.py   SentencePiece, and the ids of its pieces by family
                               sentencepiece_model.py   the SentencePiece file itself
    post_processor.py        special tokens around a text, where there is no tokenizer.json
    special_tokens.py        the special tokens of each family
    settings.py              the settings of a folder: special tokens, padding side, token types
    request.py               the options of a call (padding, truncation, stride), validated; inputs.py: its texts
    encode.py                texts to rows; batches.py: the fast path for many texts, pairs, pre-split words
    encoding.py              Encoding, the result of a call
    stages.py                tokenization step by step, for inspection
    long_text.py             texts beyond a million characters, in chunks with the same result
    chat.py                  chat templates; sandbox.py runs them
    train.py                 trains tokenizers; untrained.py: pipelines without vocabulary, unigram.py: Unigram models
    engine.py                the boundary to the engine: its errors, its cheap copies
    token_bytes.py           the bytes of each token
    sentences.py             sentence splitting
    files.py                 reads small untrusted text files
"""

from __future__ import annotations

from glassformer.text.encoding import Encoding
from glassformer.text.stages import Stages
from glassformer.text.tokenizer import Tokenizer

__all__ = ["Encoding", "Stages", "Tokenizer"]
