"""Text to ids and back: tokenizers on the Hugging Face `tokenizers` engine, without torch.

Read in this order:

    tokenizer.py   Tokenizer, the face: call it, encode, decode, save
    build.py       from a folder's files to an engine: tokenizer.json, or else by the family's reader:
                     word_piece.py      vocab.txt
                     byte_pairs.py      vocab.json and merges.txt
                     characters.py      vocab.json of letters, decoded as what was heard
                     sentencepiece.py   pieces, and which id each has in which family
                     piece_file.py      the SentencePiece file itself
    frame.py       the special tokens around a text, where no tokenizer.json says them
    special.py     which token plays which role, on which side padding goes, whether there are segments
    request.py     what one call asks for (padding, truncation, stride), checked
    encoding.py    Encoding, what a call answers with
    stages.py      the four steps of one text, for people to look at
    long_text.py   texts beyond a million characters, in pieces with the same result
    chat.py        conversations to text, by the template of the folder; sandbox.py runs it
    train.py       a tokenizer learned from a corpus: plan.py has all of it but its pieces, unigram.py learns those
                     of one kind, the engine those of the others
    engine.py      the one boundary to the engine: its errors, its cheap copies
    sentences.py   where sentences begin and end
    files.py       reading small text files that nobody has vetted
"""

from __future__ import annotations

from glassformer.text.encoding import Encoding
from glassformer.text.stages import Stages
from glassformer.text.tokenizer import Tokenizer

__all__ = ["Encoding", "Stages", "Tokenizer"]
