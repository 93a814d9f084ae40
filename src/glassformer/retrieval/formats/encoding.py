"""Character encodings: bytes of unknown origin as text.

byte order mark      UTF-8, UTF-16, UTF-32
valid UTF-8          UTF-8
every other byte 0   UTF-16 without a mark
other bytes 0        no text: a binary file
Western letters      Windows-1252, of which Latin-1 is a part
anything else        by the statistics of charset-normalizer: Cyrillic, Greek, Shift-JIS, Big5, …
"""

from __future__ import annotations

import codecs
import re

from glassformer.data.lines import ends_in_cr
from glassformer.errors import DataError, import_optional

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE_BYTES = 1 << 16
_WESTERN = re.compile(r"[\x00-\x7fÀ-ÂÄ-ÏÑ-ÖØ-Üß-âä-ïñ-öø-üÿãõÃÕŒœŸ¡¿«»‘’“”‚„…–—•·°§©®™ºª£€\xa0\xad]*")
"""What texts of Western Europe hold; letters of Icelandic are left out, which stand for Turkish ones elsewhere."""
_MOST_WESTERN = 0.3  # of the letters of a word-like stretch; Cyrillic or Greek, read as Latin, are nearly all above 127
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_MOST_CONTROL = 0.01


def decode(data: bytes, declared: str | None = None) -> str:
    """The text of a file's bytes, without a byte order mark; line ends as they are, but CR alone is LF where most are.

    Args:
        declared: the encoding that the file names itself, as HTML does; believed where it fits
    Raises: DataError: not text. MissingExtraError: a guess is needed, and charset-normalizer is not installed.
    """
    text = _decoded(data, declared)
    return text.replace("\r", "\n") if ends_in_cr(text[:_SAMPLE_BYTES].encode("utf-8", "replace")) else text


def _decoded(data: bytes, declared: str | None) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data, encoding)
    if (encoding_16 := _unmarked_utf16(data[:_SAMPLE_BYTES])) is not None:
        return _strict(data, encoding_16)
    if b"\0" in data or len(_CONTROL.findall(data[:_SAMPLE_BYTES])) > _MOST_CONTROL * len(data[:_SAMPLE_BYTES]):
        raise DataError("it is a binary file, not text")
    for likely in filter(None, ("utf-8", declared)):
        try:
            return data.decode(likely)
        except (UnicodeDecodeError, LookupError):
            continue
    return _guessed(data)


def _strict(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as problem:
        raise DataError(f"it is not valid {encoding.upper()} text ({problem.reason} at byte {problem.start})") from None


def _unmarked_utf16(sample: bytes) -> str | None:
    """UTF-16 without a byte order mark, by its zeros: of Latin text, every other byte."""
    half = len(sample) // 2
    if half < 2:
        return None
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > 0.5 * half and even < 0.05 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.5 * half and odd < 0.05 * half else None


def _guessed(data: bytes) -> str:
    western = data.decode("cp1252", "replace")
    # Sampled in the middle of words at worst: one byte is one character.
    beyond = [char for char in western if char > "\x7f"]
    letters = sum(char.isalpha() for char in western)
    if _WESTERN.fullmatch(western) and len(beyond) <= _MOST_WESTERN * letters:
        return western
    normalizer = import_optional(
        "charset_normalizer", "charset-normalizer", "documents", "a text file that is not in UTF-8"
    )
    best = normalizer.from_bytes(data).best()
    if best is None:
        raise DataError("its character encoding was not recognised; save the file as UTF-8")
    return str(best)
