"""Reading SentencePiece files: as the library that wrote them, and never a traceback or a hang on damaged ones."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import DataError, GlassformerError, UnsupportedError
from glassformer.text import Tokenizer, sentencepiece_model
from glassformer.text.sentencepiece_model import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    VocabularyPiece,
    read_sentencepiece_model,
)
from tests.text.families import pieces_of


def number(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def field(position: int, value: bytes | int | float) -> bytes:
    """One field, written by hand."""
    match value:
        case bytes():
            return number(position << 3 | 2) + number(len(value)) + value
        case float():
            return number(position << 3 | 5) + struct.pack("<f", value)
        case _:
            return number(position << 3) + number(value)


def piece(text: str | bytes, score: float = 0.0, kind: int = NORMAL) -> bytes:
    content = text if isinstance(text, bytes) else text.encode()
    return field(1, field(1, content) + field(2, score) + field(3, kind))


UNK = piece("<unk>", kind=UNKNOWN)
SMALL = UNK + piece("<s>", kind=CONTROL) + piece("</s>", kind=CONTROL) + piece("▁a", -1.5) + piece("▁", -3.0)


@pytest.mark.parametrize(("family", "name"), [("xlm-roberta", "sentencepiece.bpe.model"), ("llama", "tokenizer.model")])
def test_the_library_reads_the_same(family_folder: Callable[[str], Path], family: str, name: str) -> None:
    path = family_folder(family) / name
    file, library = read_sentencepiece_model(path), pieces_of(path)
    assert len(file.pieces) == library.get_piece_size() == 800
    for position, (text, score, kind) in enumerate(file.pieces):
        assert (text, score) == (library.id_to_piece(position), library.get_score(position))
        assert (kind == UNKNOWN) == library.is_unknown(position)
        assert (kind == CONTROL) == library.is_control(position)
        assert (kind == BYTE) == library.is_byte(position)
    assert file.algorithm == {"xlm-roberta": "unigram", "llama": "byte pairs"}[family]
    assert file.byte_fallback == (family == "llama")
    assert bool(file.character_map) == (family == "xlm-roberta")


def test_fields_by_hand(tmp_path: Path) -> None:
    """Unknown fields of all four encodings are skipped; what is absent has the format's defaults."""
    path = tmp_path / "spiece.model"
    skipped = field(9, b"x" * 300) + field(10, 1.0) + field(11, 2**60) + number(12 << 3 | 1) + bytes(8)
    training = field(2, field(3, 2) + field(35, 1) + field(40, 5) + skipped)
    path.write_bytes(skipped + UNK + field(1, field(1, b"a")) + training + field(3, field(2, b"map")))
    file = read_sentencepiece_model(path)
    assert file.pieces == (VocabularyPiece("<unk>", 0.0, UNKNOWN), VocabularyPiece("a", 0.0, NORMAL))
    assert (file.algorithm, file.byte_fallback, file.character_map) == ("byte pairs", True, b"map")
    path.write_bytes(UNK)
    assert read_sentencepiece_model(path).algorithm == "unigram"


def hostile() -> dict[str, tuple[bytes, str]]:
    return {
        "empty": (b"", "damaged one: it holds no pieces"),
        "another library's vocabulary": (b"IQ== 0\nIg== 1\n", "not a SentencePiece model, or a damaged one"),
        "cut in a number": (SMALL + b"\x80", "it ends within a number"),
        "cut in a piece": (SMALL[:-2], r"a field of \d+ bytes where"),
        "endless number": (b"\x80" * 40, "a number of more than ten bytes"),
        "huge length": (b"\x0a" + number(2**62), "a field of 4611686018427387904 bytes where 0 are left"),
        "no field number": (b"\x02\x00", "field number 0"),
        "a group": (b"\x0b\x0c", "wire type 3"),
        "piece as number": (field(1, 7), "a number where bytes are expected"),
        "text as number": (field(1, field(1, 7)), "a number where bytes are expected"),
        "short score": (field(1, field(2, b"ab")), "not a SentencePiece model"),
        "not utf-8": (piece(b"\xff"), "not a SentencePiece model, or a damaged one: 'utf-8'"),
        "no text": (UNK + piece(""), "piece 1 is ''"),
        "twice": (SMALL + piece("▁a"), "piece 5 is '▁a'"),
        "nan": (UNK + piece("a", float("nan")), "with the score nan"),
        "infinite": (UNK + piece("a", float("-inf")), "with the score -inf"),
    }


@pytest.mark.parametrize("name", hostile())
def test_damaged_files(tmp_path: Path, name: str) -> None:
    content, message = hostile()[name]
    path = tmp_path / "spiece.model"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_sentencepiece_model(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (field(3, 3), "splits into words"),
        (field(3, 4), "splits into characters"),
        (field(3, 9), r"splits into \?"),
        (field(24, 1), "marks where words end"),
    ],
)
def test_other_algorithms_are_refused(tmp_path: Path, training: bytes, message: str) -> None:
    path = tmp_path / "spiece.model"
    path.write_bytes(SMALL + field(2, training))
    with pytest.raises(UnsupportedError, match=message):
        read_sentencepiece_model(path)


def test_a_file_of_very_many_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencepiece_model, "MAX_PIECES", 1000)
    path = tmp_path / "spiece.model"
    path.write_bytes(b"".join(piece(f"p{n}") for n in range(1001)))
    with pytest.raises(DataError, match="more than 1,000 pieces"):
        read_sentencepiece_model(path)


def test_very_many_special_pieces_take_no_time_squared(tmp_path: Path) -> None:
    """One by one the engine would take minutes for these."""
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    control = b"".join(piece(f"<c{n}>", kind=CONTROL) for n in range(50_000))
    (tmp_path / "spiece.model").write_bytes(SMALL + piece("<pad>", kind=CONTROL) + control)
    start = time.process_time()
    tokenizer = Tokenizer.from_folder(tmp_path)
    tokenizer("a", truncation=True, max_length=4)
    assert time.process_time() - start < 20
    assert len(tokenizer.special_ids) > 50_000


FAMILY_FILES = {
    "xlm-roberta": "sentencepiece.bpe.model",
    "t5": "spiece.model",
    "pegasus": "spiece.model",
    "llama": "tokenizer.model",
}


def rewritten(content: bytes, rng: random.Random) -> bytes:
    """A well-formed file with something else in it: what a check of the form alone lets through."""
    file = [VocabularyPiece(*entry) for entry in parsed(content)]
    match rng.randrange(4):
        case 0:
            position = rng.randrange(len(file))
            file[position] = file[position]._replace(kind=rng.randrange(8))
        case 1:
            odd = ("", "▁", "a" * 300, "\0", "<s>", "<mask>", "<extra_id_5>", "$A", "a:1", " ", "<0x41>")
            position = rng.randrange(len(file))
            file[position] = file[position]._replace(text=rng.choice(odd))
        case 2:
            del file[rng.randrange(len(file)) :]
        case 3:
            rng.shuffle(file)
    training = field(2, field(3, rng.choice((1, 1, 2, 2, 3))) + field(35, rng.randrange(2)))
    size = rng.choice((0, 4, 8, 200, 2**31))
    character_map = struct.pack("<I", size) + rng.randbytes(rng.choice((0, 4, 300)))
    normaliser = field(3, field(2, rng.choice((b"", b"", character_map))))
    return b"".join(piece(*entry) for entry in file) + training + normaliser


def parsed(content: bytes) -> list[tuple[str, float, int]]:
    from glassformer.text.sentencepiece_model import _parse_model

    return [tuple(entry) for entry in _parse_model(content)[0]]  # type: ignore[misc]


def test_well_formed_files_with_odd_content(family_copy: Callable[..., Path]) -> None:
    rng = random.Random(12)
    folders = {family: family_copy(family) for family in FAMILY_FILES}
    originals = {family: (folders[family] / name).read_bytes() for family, name in FAMILY_FILES.items()}
    refused = 0
    for _ in range(200):
        family = rng.choice(list(folders))
        (folders[family] / FAMILY_FILES[family]).write_bytes(rewritten(originals[family], rng))
        start = time.process_time()
        try:
            tokenizer = Tokenizer.from_folder(folders[family])
            tokenizer(["Time flies, ﬁne ① low </s>", "é"], truncation=True, max_length=12)
            tokenizer.decode([0, 1, 5, 7, 300])
            tokenizer.explain("low time")
        except GlassformerError:
            refused += 1
        assert time.process_time() - start < 5
    assert 20 < refused < 180


def test_a_damaged_map_of_characters_is_reported_at_once(tmp_path: Path) -> None:
    """The engine believes a map until it is used."""
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    (tmp_path / "spiece.model").write_bytes(SMALL + field(3, field(2, struct.pack("<I", 4) + bytes(4))))
    with pytest.raises(DataError, match=r"spiece.model: its map of characters is damaged"):
        Tokenizer.from_folder(tmp_path)
