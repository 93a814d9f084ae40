"""Files made to break a reader: 18,000 mutated ones, and a corpus of named malicious ones.

Promises R4 and R5 for checkpoints at the figures of `make test`: nothing but a clear error or a correct
result; no crash, no hang, no swelling memory, and nothing from a file is ever executed.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import re
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from safetensors.torch import save

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import parse_json_object
from glassformer.weights import layout as layout_module
from glassformer.weights.header import read_header
from glassformer.weights.layout import find_weights
from glassformer.weights.read import open_checkpoint
from tests.peak import measured

LIMIT_S = 5.0


# ── mutated files ─────────────────────────────────────────────────────────────────────────────────────────

FRAGMENTS = [
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"-1", b"0", b"1", b"true", b"null", b"NaN", b"Infinity", b"1e999",
    b"9223372036854775807", b"18446744073709551616", b'"F32"', b'"F64"', b'"U4"', b'"shape"', b'"dtype"',
    b'"data_offsets"', b'"__metadata__"', b"\\ud800", b"\xff", b"\x00", b"../", b"\xed\xa0\x80", b" ", b"[[[[[[[[",
]  # fmt: skip


def mutate(data: bytes, dice: random.Random) -> bytes:
    """One to four small damages: flipped bits, cuts, repeats, and pieces of JSON in the wrong place."""
    mutated = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        start = dice.randrange(len(mutated)) if mutated else 0
        end = start + dice.randint(1, 16)
        kind = dice.randrange(6)
        if kind == 0 and mutated:
            mutated[start] ^= 1 << dice.randrange(8)
        elif kind == 1:
            mutated[start:end] = dice.choice(FRAGMENTS)
        elif kind == 2:
            mutated[start:start] = dice.choice(FRAGMENTS)
        elif kind == 3:
            del mutated[start:end]
        elif kind == 4:
            mutated[start:start] = mutated[start:end]
        else:
            del mutated[start:]
    return bytes(mutated)


def read_mutated() -> int:
    """Read 10,000 headers. Returns: how many of them were whole."""
    tensors = {
        "embeddings.word.weight": torch.ones(3, 2),
        "b": torch.zeros(4, dtype=torch.float16),
        "flag": torch.ones(3, dtype=torch.bool),
        "count": torch.tensor(1),
    }
    good = save(tensors, {"format": "pt"})
    header_end = 8 + int.from_bytes(good[:8], "little")
    dice, passed = random.Random(1), 0
    for number in range(10_000):
        data = mutate(good, dice)
        if number % 2:  # the header's length mended, so that the damage is met further in
            header = mutate(good[8:header_end], dice)
            data = struct.pack("<Q", len(header)) + header + good[header_end:]
        try:
            header = read_header(io.BytesIO(data), len(data), Path("fuzzed.safetensors"))
        except WeightsError as error:
            assert "fuzzed.safetensors" in str(error) and "\n" not in str(error)
            continue
        passed += 1
        assert 8 + int.from_bytes(data[:8], "little") + sum(info.bytes for info in header.tensors.values()) == len(data)
        theirs = dict(safetensors.deserialize(data))
        assert {name: tuple(entry["shape"]) for name, entry in theirs.items()} == {
            name: info.shape for name, info in header.tensors.items()
        }
    return passed


def test_mutated_safetensors_are_refused_or_whole() -> None:
    """What passes here passes the library as well: we are never the laxer of the two."""
    passed, grown = measured(read_mutated)
    assert 100 < passed < 9_000  # the damage reaches both sides of the checks
    assert grown < 200_000_000


def test_mutated_indexes_are_refused_or_stay_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = {
        "metadata": {"total_size": 80},
        "weight_map": {
            f"layer.{number}.weight": f"model-0000{number % 2 + 1}-of-00002.safetensors" for number in range(6)
        },
    }
    for name in set(index["weight_map"].values()):  # type: ignore[attr-defined]
        (tmp_path / name).write_bytes(save({"x": torch.ones(1)}))
    good = json.dumps(index).encode()
    (tmp_path / INDEX).write_bytes(good)
    dice, passed = random.Random(2), 0
    for _ in range(4_000):
        data = mutate(good, dice)
        # Parsed from memory: 4,000 files written would take longer than all else here.
        monkeypatch.setattr(
            layout_module, "read_json_object", lambda path, data=data: parse_json_object(data, str(path))
        )
        try:
            layout = find_weights(tmp_path)
        except WeightsError as error:
            assert "\n" not in str(error)
            continue
        passed += 1
        assert all(path.parent == tmp_path and path.is_file() for path in layout.files)
    assert 20 < passed < 3_500


def test_mutated_configs_are_refused_or_objects() -> None:
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 384, "layer_norm_eps": 1e-12,
        "id2label": {"0": "A", "1": "B"}, "rope_scaling": None, "tie_word_embeddings": True,
    }  # fmt: skip
    good = json.dumps(config).encode()
    dice, passed = random.Random(3), 0
    for _ in range(4_000):
        try:
            value = parse_json_object(mutate(good, dice), "config.json", ConfigError)
        except ConfigError as error:
            assert str(error).startswith("config.json")
            continue
        passed += 1
        assert isinstance(value, dict)
        json.dumps(value, allow_nan=False)
    assert 100 < passed < 3_500


# ── named malicious files ─────────────────────────────────────────────────────────────────────────────────

MODEL, INDEX = "model.safetensors", "model.safetensors.index.json"
Make = Callable[[Path], object]


def entry(shape: Any, offsets: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def raw(header: bytes | object | Callable[[], bytes], data: bytes = b"", length: int | None = None) -> Make:
    """A `model.safetensors` of this header (as JSON, or bytes as they are, or made when it is written) and data."""

    def make(folder: Path) -> None:
        made = header() if callable(header) else header
        text = made if isinstance(made, bytes) else json.dumps(made).encode()
        stated = len(text) if length is None else length
        (folder / MODEL).write_bytes(struct.pack("<Q", stated) + text + data)

    return make


def one(shape: Any, offsets: Any, dtype: Any = "F32", data: bytes = bytes(8)) -> Make:
    return raw({"w": entry(shape, offsets, dtype)}, data)


def sparse(name: str, size: int, start: bytes = b"") -> Make:
    def make(folder: Path) -> None:
        with open(folder / name, "wb") as stream:
            stream.write(start)
            stream.truncate(size)

    return make


def index(weight_map: object, text: bytes | None = None) -> Make:
    def make(folder: Path) -> None:
        (folder / "a.safetensors").write_bytes(save({"w": torch.ones(1)}))
        (folder.parent / "outside.safetensors").write_bytes(save({"w": torch.ones(1)}))
        (folder / "config.json").write_text("{}")
        (folder / ".hidden.safetensors").write_bytes(save({"w": torch.ones(1)}))
        (folder / INDEX).write_bytes(text or json.dumps({"weight_map": weight_map}).encode())

    return make


def link(name: str, to: str, also: Make | None = None) -> Make:
    def make(folder: Path) -> None:
        if also is not None:
            also(folder)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(to)

    return make


def folder_as_file(folder: Path) -> None:
    (folder / MODEL).mkdir()


def pipe(name: str) -> Make:
    return lambda folder: os.mkfifo(folder / name)


def many_tensors() -> bytes:
    entries = (b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % number for number in range(100_001))
    return b"{" + b",".join(entries) + b"}"


# Those of megabytes are made by their test alone: each process that measures imports this module.

FILES: dict[str, tuple[Make, str]] = {
    # the length of the header
    "header of 2^63": (raw(b"{}", length=2**63), "declares a header of 9223372036854775808"),
    "header of 2^64 - 1": (raw(b"{}", length=2**64 - 1), "declares a header"),
    "header longer than the file": (raw(b"{}", length=3), "is cut short"),
    "header of length 0": (raw(b"", length=0), "does not start with"),
    "header over the cap in a file that has it": (
        sparse(MODEL, 200_000_000, struct.pack("<Q", 150_000_000) + b"{"), "at most 100000000"),
    "header of 99 MB of zeros": (sparse(MODEL, 99_000_008, struct.pack("<Q", 99_000_000) + b"{"), "not valid JSON"),
    "empty file": (lambda folder: (folder / MODEL).write_bytes(b""), "too few"),
    # the header as JSON
    "header is a list": (raw([1, 2]), "does not start with"),
    "header nested 100,000 deep": (raw(b'{"a":' + b"[" * 100_000), "nested too deeply"),
    "header nested in objects": (raw(b'{"a":' * 100_000), "nested too deeply"),
    "header of 90 MB of empty lists": (raw(lambda: b'{"a":[' + b"[]," * 30_000_000 + b"0]}"), "JSON values"),
    "header not UTF-8": (raw(b'{"\xff\xfe": 1}'), "not UTF-8"),
    "header in UTF-16": (raw("{}".encode("utf-16-le")), "not valid JSON"),
    "tensor declared twice": (
        raw(b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}'),
        "duplicate key 'w'"),
    "shape declared twice": (
        raw(b'{"w":{"dtype":"F32","shape":[2],"shape":[9],"data_offsets":[0,8]}}', bytes(8)), "duplicate key 'shape'"),
    "NaN in a shape": (raw(b'{"w":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}', bytes(8)), "NaN"),
    "Infinity as an offset": (raw(b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,Infinity]}}'), "Infinity"),
    "number of 5,000 digits": (
        raw(b'{"w":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,8]}}', bytes(8)), "not valid JSON"),
    "name of half a character": (
        raw(b'{"\\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'), "half of a surrogate pair"),
    "name that would colour the terminal": (
        raw({"\x1b[31m\x07\n": entry([3], [0, 8])}, bytes(8)), r"'\\x1b\[31m\\x07\\n'"),
    "name of a megabyte": (raw({"w" * 1_000_000: entry([3], [0, 8])}, bytes(8)), r"1000002 characters"),
    "name of 99 MB": (
        raw(lambda: b'{"' + b"w" * 99_000_000 + b'":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}'),
        "99000002 characters"),
    "100,001 tensors": (raw(many_tensors), "declares 100001 tensors"),
    "metadata that is no text": (raw({"__metadata__": {"format": ["pt"]}}), "__metadata__"),
    "metadata that is a tensor": (raw({"__metadata__": entry([2], [0, 8])}, bytes(8)), "__metadata__"),
    # one entry
    "entry that is a number": (raw({"w": 3}), "must have dtype"),
    "entry without a shape": (raw({"w": {"dtype": "F32", "data_offsets": [0, 8]}}, bytes(8)), "must have dtype"),
    "entry with more than it should": (raw({"w": entry([2], [0, 8]) | {"code": "os"}}, bytes(8)), "nothing else"),
    "negative size": (one([-2], [0, 8]), "must be at most 64 whole numbers"),
    "two negative sizes": (one([-2, -1], [0, 8]), "must be at most 64 whole numbers"),
    "size of 2.0": (one([2.0], [0, 8]), "whole numbers"),
    "size of true": (one([True, 2], [0, 8]), "whole numbers"),
    "size that is text": (one(["2"], [0, 8]), "whole numbers"),
    "65 dimensions": (one([1] * 64 + [2], [0, 8]), "at most 64"),
    "shape that overflows to 8 bytes": (one([2**62, 4, 2], [0, 8]), "more bytes than can be counted"),
    "shape that overflows next to a zero": (one([2**62, 2**62, 0], [0, 0], data=b""), "more bytes than can be counted"),
    "exabytes declared": (one([2**40, 2**18], [0, 2**60]), "is cut short: the tensors need"),
    "shape larger than its bytes": (one([1000], [0, 8]), r"needs 4000 bytes, data_offsets \[0, 8\] give 8"),
    "negative offset": (one([2], [-8, 0]), "two whole numbers"),
    "offsets swapped": (one([2], [8, 0]), "give -8"),
    "three offsets": (one([2], [0, 4, 8]), "two whole numbers"),
    "dtype of 4 bits": (one([2], [0, 8], "F4"), "'F4' is not one of"),
    "dtype that is a list": (one([2], [0, 8], ["F32"]), "is not one of"),
    "dtype that names code": (one([2], [0, 8], "os.system"), "is not one of"),
    # the tensors together
    "tensors that overlap": (
        raw({"a": entry([2], [0, 8]), "b": entry([2], [4, 12])}, bytes(12)), "'b' overlaps tensor 'a'"),
    "two tensors in one place": (raw({"a": entry([2], [0, 8]), "b": entry([2], [0, 8])}, bytes(8)), "overlaps"),
    "hole between tensors": (
        raw({"a": entry([1], [0, 4]), "b": entry([1], [8, 12])}, bytes(12)), "4 bytes before tensor 'b'"),
    "hole at the start": (one([1], [4, 8]), "4 bytes before"),
    "an archive behind the tensors": (one([2], [0, 8], data=bytes(8) + b"PK\x03\x04payload"), "at its end"),
    "tensors cut off": (one([2], [0, 8], data=bytes(7)), "is cut short"),
    # what a name in the folder is
    "a pipe that never answers": (pipe(MODEL), "not a regular file"),
    "an index that is a pipe": (pipe(INDEX), "not a regular file"),
    "a folder in place of the file": (folder_as_file, "not a regular file|cannot be opened"),
    "a link to an endless device": (link(MODEL, "/dev/zero"), "leads out"),
    "a link to a file of the system": (link(MODEL, "/etc/passwd"), "leads out"),
    "a link to nothing": (link(MODEL, "absent"), "cannot be opened"),
    "a link to itself": (link(MODEL, MODEL), "cannot be opened|leads out"),
    # the index
    "shard above the folder": (index({"w": "../outside.safetensors"}), "plain file name"),
    "shard by absolute path": (index({"w": "/etc/x.safetensors"}), "plain file name"),
    "shard with backslashes": (index({"w": "..\\outside.safetensors"}), "plain file name"),
    "shard on a drive": (index({"w": "C:a.safetensors"}), "plain file name"),
    "shard with a NUL": (index({"w": "a.safetensors\0.safetensors"}), "plain file name"),
    "shard that is hidden": (index({"w": ".hidden.safetensors"}), "plain file name"),
    "shard that is a pickle": (index({"w": "pytorch_model.bin"}), "ends in .safetensors"),
    "shard that is the config": (index({"w": "config.json"}), "ends in .safetensors"),
    "shard that is a number": (index({"w": 3}), "plain file name"),
    "shard named by 300 letters": (index({"w": "a" * 300 + ".safetensors"}), "plain file name"),
    "shard that is not there": (index({"w": "b.safetensors"}), "not there"),
    "shard without the tensor": (index({"v": "a.safetensors"}), "does not hold tensor 'v'"),
    "shard that is a link out": (
        link("a.safetensors", "../outside.safetensors", index({"w": "a.safetensors"})), "leads out"),
    "index that is a link out": (link(INDEX, "../outside.safetensors", index({"w": "a.safetensors"})), "leads out"),
    "index that is a list": (index(None, b"[]"), "must be a JSON object"),
    "index whose map is a list": (index(["a.safetensors"]), "needs a weight_map"),
    "index with an empty map": (index({}), "needs a weight_map"),
    "index naming a tensor twice": (
        index(None, b'{"weight_map":{"w":"a.safetensors","w":"b.safetensors"}}'), "duplicate key 'w'"),
    "index of 65 MB": (sparse(INDEX, 65 << 20, b"{"), "bytes; a file of this kind may have"),
    "index nested deep": (index(None, b'{"weight_map":' + b"[" * 50_000), "nested too deeply"),
}  # fmt: skip


def refusal_of(folder: Path) -> tuple[str, float]:
    """The error of a checkpoint, and its seconds of this process: other work on the machine is not its fault."""
    start = time.process_time()
    with pytest.raises(WeightsError) as caught:
        open_checkpoint(folder)
    return str(caught.value), time.process_time() - start


@pytest.mark.parametrize("name", FILES)
@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links in the corpus are POSIX")
def test_a_malicious_checkpoint_is_one_clear_error(tmp_path: Path, name: str) -> None:
    make, message = FILES[name]
    folder = tmp_path / "model"
    folder.mkdir()
    make(folder)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file() and path.stat().st_size)
    (message_of, seconds), grown = measured(refusal_of, folder)
    assert re.search(message, message_of), message_of
    assert seconds < LIMIT_S
    assert grown < 100_000_000 + 3 * size < 1 << 30
    assert message_of.isprintable() and len(message_of) < 1_000
    assert os.fspath(folder) in message_of


# ── pickles: nothing in them is executed ──────────────────────────────────────────────────────────────────


class Call:
    """An object whose pickle is a call, made when it is loaded."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def saved(value: object, *, zipped: bool = True) -> Make:
    return lambda path: torch.save(value, path, _use_new_zipfile_serialization=zipped)


def repacked(change: Callable[[str, bytes], bytes], **options: Any) -> Make:
    """An honest archive with its members changed."""

    def make(path: Path) -> None:
        buffer = io.BytesIO()
        torch.save({"w": torch.zeros(1_000_000)}, buffer)
        with zipfile.ZipFile(buffer) as honest, zipfile.ZipFile(path, "w", **options) as changed:
            for name in honest.namelist():
                changed.writestr(name, change(name, honest.read(name)))

    return make


def swelling_directory(path: Path) -> None:
    """An archive whose table of contents lies about the size of a stored member."""
    torch.save({"w": torch.zeros(1000)}, path)
    data = bytearray(path.read_bytes())
    start = data.find(b"PK\x01\x02")
    while start != -1:
        data[start + 24 : start + 28] = struct.pack("<I", 2**31 - 1)
        start = data.find(b"PK\x01\x02", start + 4)
    path.write_bytes(data)


def bytes_of(data: bytes) -> Make:
    return lambda path: path.write_bytes(data)


def cut(path: Path) -> None:
    torch.save({"w": torch.zeros(1000)}, path)
    path.write_bytes(path.read_bytes()[:-300])


def tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for name in ("storages", "tensors", "../../escape"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())


def script(path: Path) -> None:
    repacked(lambda name, data: data)(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("archive/constants.pkl", b"")


def enumerate_views(storage: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    return [(f"w{start}", storage[start:]) for start in range(50)]


LEGACY = pickle.dumps(0x1950A86A20F9469CFC6C, 2)  # how torch.save began its files before the archives
DEEP = b"(" * 100_000 + b"t" * 100_000

PICKLES: dict[str, tuple[Callable[[Path], Make], str]] = {
    "os.system": (lambda s: saved({"w": Call(os.system, f"echo > {s}")}), "posix.system|nt.system"),
    "os.system before the archive format": (lambda s: saved(Call(os.system, f"echo > {s}"), zipped=False), "system"),
    "os.system as a bare pickle": (lambda s: bytes_of(pickle.dumps(Call(os.system, f"echo > {s}"))), "not a file"),
    "os.system behind the legacy magic": (
        lambda s: bytes_of(LEGACY + pickle.dumps(Call(os.system, f"echo > {s}"), 2)), "refused"),
    "subprocess": (lambda s: saved({"w": Call(subprocess.Popen, ["touch", str(s)])}), "Popen"),
    "eval": (lambda s: saved({"w": Call(eval, f"open({str(s)!r}, 'w')")}), "eval"),
    "exec": (lambda s: saved({"w": Call(exec, f"open({str(s)!r}, 'w')")}), "exec"),
    "open": (lambda s: saved({"w": Call(open, str(s), "w")}), "open"),
    "getattr": (lambda s: saved({"w": Call(getattr, "", "format")}), "getattr"),
    "import": (lambda s: saved({"w": Call(__import__, "antigravity")}), "__import__"),
    "a path made": (lambda s: saved({"w": Call(os.makedirs, str(s))}), "makedirs"),
    "torch.load within": (lambda s: saved({"w": Call(torch.load, str(s))}), "torch.serialization.load"),
    "torch.jit within": (lambda s: saved({"w": Call(torch.jit.load, str(s))}), "torch.jit"),
    "torch.hub within": (lambda s: saved({"w": Call(torch.hub.load, "a/b", "c")}), "torch.hub"),
    "a module, not its weights": (lambda s: saved(torch.nn.Linear(2, 2)), "torch.nn.modules.linear.Linear"),
    "memory": (lambda s: saved({"w": Call(bytearray, 20_000_000_000)}), "far more memory"),
    "archive that swells": (
        lambda s: repacked(lambda n, d: d, compression=zipfile.ZIP_DEFLATED), "would swell"),
    "archive that swells as bzip2": (lambda s: repacked(lambda n, d: d, compression=zipfile.ZIP_BZIP2), "would swell"),
    "archive whose directory lies": (lambda s: swelling_directory, "would swell"),
    "archive cut short": (lambda s: cut, "damaged"),
    "archive of nothing": (lambda s: bytes_of(b"PK\x05\x06" + bytes(18)), "not a file that torch"),
    "archive without a pickle": (
        lambda s: repacked(lambda n, d: b"" if n.endswith(".pkl") else d), "refused"),
    "archive with a broken pickle": (
        lambda s: repacked(lambda n, d: d[:40] if n.endswith(".pkl") else d), "refused"),
    "archive with a storage too small": (
        lambda s: repacked(lambda n, d: d[:8] if n.endswith("/data/0") else d), "refused"),
    "pickle nested 100,000 deep": (
        lambda s: repacked(lambda n, d: b"\x80\x02" + DEEP + b"." if n.endswith(".pkl") else d), "refused|holds tuple"),
    "TorchScript": (lambda s: script, "TorchScript"),
    "tar of the oldest torch": (lambda s: tar, "not a file that torch"),
    "one number a billion times": (lambda s: saved({"w": torch.zeros(1).expand(10**9)}), "would swell"),
    "one storage under many names": (
        lambda s: saved(dict(enumerate_views(torch.zeros(100_000)))), "would swell"),
    "numbers next to tensors": (lambda s: saved({"w": torch.ones(1), "lr": 0.1}), "something else: 'lr'"),
    "a list": (lambda s: saved([torch.ones(1)]), "holds list"),
    "names that are numbers": (lambda s: saved({1: torch.ones(1)}), "something else: 1"),
    "complex numbers": (lambda s: saved({"w": torch.ones(1, dtype=torch.complex64)}), "complex64"),
    "sparse tensors": (lambda s: saved({"w": torch.ones(3).to_sparse()}), "sparse"),
    "tensors without numbers": (lambda s: saved({"w": torch.ones(10**12, device="meta")}), "without numbers"),
}  # fmt: skip

# The same code as in the child of `pickled.convert`, but one child for all: starting torch is what takes time.
ALL_IN_ONE_CHILD = """
import json, sys, time
from pathlib import Path
import torch
from glassformer.errors import WeightsError
from glassformer.weights import pickled
folder = Path(sys.argv[1])
torch.set_num_threads(1)
largest = max(folder.glob("*.pt"), key=lambda path: path.stat().st_size)
pickled._sandbox(largest, folder / "out", 100)
for number in range(int(sys.argv[2])):
    start = time.process_time()
    try:
        pickled._convert_in_child(folder / f"{number}.pt", folder / "out")
        verdict = "READ"
    except WeightsError as problem:
        verdict = str(problem)
    except BaseException as problem:
        verdict = pickled._explain(problem)
    print(json.dumps([verdict, time.process_time() - start]))
"""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, tuple[str, float]], Path]:
    """What the child's reader says of each malicious pickle, and the file none of them may create."""
    folder = tmp_path_factory.mktemp("pickles")
    sentinel = folder / "executed"
    for number, (build, _) in enumerate(PICKLES.values()):
        build(sentinel)(folder / f"{number}.pt")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)}
    done = subprocess.run(
        [sys.executable, "-c", ALL_IN_ONE_CHILD, str(folder), str(len(PICKLES))],
        capture_output=True, text=True, env=environment, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: (verdict, seconds) for name, (verdict, seconds) in zip(PICKLES, lines, strict=True)}, sentinel


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
@pytest.mark.parametrize("name", PICKLES)
def test_a_malicious_pickle_executes_nothing(verdicts: tuple[dict[str, tuple[str, float]], Path], name: str) -> None:
    verdict, seconds = verdicts[0][name]
    assert verdict != "READ" and re.search(PICKLES[name][1], verdict), verdict
    assert seconds < LIMIT_S
    assert not verdicts[1].exists()


@pytest.mark.parametrize("name", ["os.system", "archive that swells", "memory"])
def test_the_same_through_the_front_door(tmp_path: Path, name: str) -> None:
    sentinel = tmp_path / "executed"
    model = tmp_path / "model"
    model.mkdir()
    PICKLES[name][0](sentinel)(model / "pytorch_model.bin")
    with pytest.raises(WeightsError, match=r"only pickled weights"):
        open_checkpoint(model)
    with pytest.raises(WeightsError, match=PICKLES[name][1]) as caught:
        open_checkpoint(model, allow_pickle=True)
    assert os.fspath(model / "pytorch_model.bin") in str(caught.value) and str(caught.value).isprintable()
    assert not sentinel.exists()


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(FILES) + len(PICKLES) >= 60
