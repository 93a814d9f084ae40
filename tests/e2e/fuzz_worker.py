"""Damages model folders and loads them, in a process that an audit hook watches; prints what happened as JSON.

    python fuzz_worker.py FOLDER CASES SEED [FIRST]

A case is a function of SEED and its number, so a failure is replayed by CASES = 1 and FIRST = its number.
FOLDER is the only place where anything may be written.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer import Model

HANG_S = 5.0
MESSAGE_CHARACTERS = 2_000
INDEX = "model.safetensors.index.json"
GGUF = "model.gguf"
KINDS = ("safetensors", "index", "config key", "config text", "tokenizer", "sentences", "several")

# ── what must not happen ──────────────────────────────────────────────────────────────────────────────────

PROCESSES = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system", "os.spawn", "pty.spawn")
CHANGES = (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.truncate",
    "os.chmod",
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

violations: list[str] = []


def watch(home: Path) -> None:
    """From now on: no socket, no process, no write outside `home`, no code from inside it."""
    inside = os.fspath(home.resolve())

    def is_inside(path: object) -> bool:
        try:
            return os.path.realpath(os.fsdecode(path)).startswith(inside)  # type: ignore[arg-type]
        except TypeError:
            return False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith("socket.") or event in PROCESSES:
            violations.append(f"{event} {arguments!r:.200}")
        elif event == "open":
            path, _mode, flags = arguments
            if isinstance(path, int) or path == os.devnull or not (flags or 0) & WRITING:
                return
            if not is_inside(path):
                violations.append(f"open for writing {path!r:.200}")
        elif event in CHANGES:
            path = arguments[0]
            if event in ("os.remove", "os.rmdir") and arguments[1] >= 0:  # relative to an open folder
                path = os.path.join(os.readlink(f"/proc/self/fd/{arguments[1]}"), os.fsdecode(path))
            if not is_inside(path):
                violations.append(f"{event} {arguments!r:.200}")
        elif event == "import" and arguments[1] and is_inside(arguments[1]):
            violations.append(f"import from the folder {arguments!r:.200}")
        elif event == "compile" and arguments[1] and is_inside(arguments[1]):
            violations.append(f"compile from the folder {arguments[1]!r:.200}")

    sys.addaudithook(hook)


# ── damage ────────────────────────────────────────────────────────────────────────────────────────────────

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 8, 16, 2**31, 2**63, 2**64, 10**12, 10**18, -(10**12), 10**400,
    0.0, -0.5, 0.5, 1.0, 8.0, 1e-300, 1e300, "", "8", "gelu", "os.system", "../../etc/passwd", "\x1b[31m\n",
    "x" * 100_000, "http://127.0.0.1:9/x", [], [8], ["BertModel"], [[]], [None], [0] * 1000, {}, {"a": 1},
    {"rope_type": "linear"},
    {"rope_type": "llama3", "factor": 0}, {"0": "A", "1": "B"}, {"rope_type": ["default"]}, {"content": "x"},
)  # fmt: skip

FRAGMENTS = (
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"-1", b"0", b"1", b"true", b"null", b"NaN", b"Infinity", b"1e999",
    b"1e400", b"9223372036854775807", b"18446744073709551616", b"99999999999", b'"F32"', b'"F16"', b'"BF16"', b'"I64"',
    b'"BOOL"', b'"U8"', b'"shape"', b'"data_offsets"', b"\\ud800", b"\xff", b"\x00", b"../", b"\xed\xa0\x80", b" ",
    b"[[[[[[[[", b"{}",
)  # fmt: skip


def damaged(data: bytes, dice: random.Random) -> bytes:
    """One to four small damages: flipped bits, cuts, repeats, and pieces of JSON in the wrong place."""
    mutated = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(mutated)) if mutated else 0
        other = place + dice.randint(1, 16)
        kind = dice.randrange(10)
        if kind < 2 and mutated:
            mutated[place] ^= 1 << dice.randrange(8)
        elif kind < 4:
            mutated[place:other] = dice.choice(FRAGMENTS)
        elif kind < 6:
            mutated[place:place] = dice.choice(FRAGMENTS)
        elif kind == 6:
            del mutated[place:other]
        elif kind == 7:
            mutated[place:place] = mutated[place:other]
        elif kind == 8:
            number = [i for i, byte in enumerate(mutated) if byte in b"0123456789"]
            if number:
                mutated[dice.choice(number)] = dice.choice(b"0123456789-.e")
        else:
            del mutated[dice.randrange(len(mutated) + 1) :]
    return bytes(mutated)


def damaged_value(value: Any, dice: random.Random) -> Any:
    """The same JSON with one value, however deep, replaced, removed or repeated elsewhere."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        key = dice.choice(list(value))
        copy = dict(value)
        if dice.random() < 0.1:
            del copy[key]
        else:
            copy[key] = damaged_value(value[key], dice)
        return copy
    if isinstance(value, list) and value and dice.random() < 0.8:
        place = dice.randrange(len(value))
        return [*value[:place], damaged_value(value[place], dice), *value[place + 1 :]]
    return dice.choice(HOSTILE)


def damaged_json(data: bytes, dice: random.Random) -> bytes:
    return json.dumps(damaged_value(json.loads(data), dice)).encode()


def damaged_tensors(data: bytes, dice: random.Random) -> bytes:
    """Half of the time the header's length is mended, so that the damage is met further in."""
    if dice.random() < 0.4:
        return damaged(data, dice)
    end = 8 + int.from_bytes(data[:8], "little")
    header = damaged(data[8:end], dice) if dice.random() < 0.5 else damaged_json(data[8:end], dice)
    return len(header).to_bytes(8, "little") + header + data[end:]


SIZES = (0, 1, 3, 31, 2**15, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)
"""Lying lengths, counts, types and offsets."""


def damaged_gguf(data: bytes, dice: random.Random) -> bytes:
    """Lengths, counts, types or offsets of the header that lie; half of the damage is among the tensors' names."""
    mutated = bytearray(data)
    begin = 0 if dice.random() < 0.5 else data.index(b"token_embd") - 8
    end = data.rindex(b"blk.") + 60
    for _ in range(dice.randint(1, 3)):
        place, width = dice.randrange(begin, end), dice.choice([4, 8])
        mutated[place : place + width] = (dice.choice(SIZES) % 256**width).to_bytes(width, "little")
    if dice.random() < 0.3:
        mutated[begin:end] = damaged(bytes(mutated[begin:end]), dice)
    if dice.random() < 0.1:
        del mutated[dice.randrange(len(mutated)) :]
    return bytes(mutated)


def either(data: bytes, dice: random.Random) -> bytes:
    return damaged(data, dice) if dice.random() < 0.5 else damaged_json(data, dice)


# ── cases ─────────────────────────────────────────────────────────────────────────────────────────────────


class Folder:
    """A whole model folder in memory, and all the keys that its family's recipe reads."""

    def __init__(self, path: Path) -> None:
        from glassformer.models import FAMILIES, ConfigReader

        self.files = {os.fspath(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
        config = json.loads(self.files["config.json"])
        self.family: str = config["model_type"]
        reader = ConfigReader(config)
        FAMILIES[self.family].spec(reader)
        asked = (
            "model_type",
            "architectures",
            "eos_token_id",
            "pad_token_id",
            "id2label",
            "num_labels",
            "problem_type",
        )
        self.keys = sorted({*reader.used, *config, *asked, "initializer_range", "rope_scaling", "rope_theta"})

    def write(self, path: Path, files: dict[str, bytes]) -> None:
        """Only what changes between cases is written."""
        for name, content in {**self.files, **files}.items():
            place = path / name
            if name in files or not place.is_file() or place.read_bytes() != content:
                place.parent.mkdir(exist_ok=True)
                place.unlink(missing_ok=True)  # a file of its own: an earlier model may still be mapped from it
                place.write_bytes(content)


def damage(folder: Folder, kind: str, dice: random.Random) -> dict[str, bytes]:
    """The files of one case that differ from the whole folder's."""
    files = folder.files
    if GGUF in files:
        return {GGUF: damaged_gguf(files[GGUF], dice)}
    if kind == "several":
        changed: dict[str, bytes] = {}
        for each in dice.sample([k for k in KINDS if k != "several" and (k != "index" or INDEX in files)], 2):
            changed |= damage(folder, each, dice)
        return changed
    if kind == "config key":
        config = json.loads(files["config.json"])
        for _ in range(dice.randint(1, 2)):
            key = dice.choice(folder.keys)
            config[key] = dice.choice(HOSTILE)
        return {"config.json": json.dumps(config).encode()}
    if kind == "config text":
        return {"config.json": either(files["config.json"], dice)}
    if kind == "tokenizer":
        name = dice.choice([n for n in ("tokenizer.json", "tokenizer_config.json") if n in files])
        return {name: either(files[name], dice)}
    if kind == "sentences":
        name = dice.choice(["modules.json", "1_Pooling/config.json", "sentence_bert_config.json"])
        return {name: either(files[name], dice)}
    if kind == "index":
        return {INDEX: either(files[INDEX], dice)}
    name = dice.choice([n for n in files if n.endswith(".safetensors")])
    return {name: damaged_tensors(files[name], dice)}


def use(model: Model, step: str) -> object:
    """A little of one of the things that a model does."""
    import torch

    words = ["time flies like an arrow", "", "fruit"]
    if step == "call":
        return model(
            input_ids=torch.tensor([[1, 4, 5, 2]]),
            attention_mask=torch.tensor([[1, 1, 1, 0]]),
            decoder_input_ids=torch.tensor([[1, 4]]) if model.task == "translation" else None,
        )
    if step == "encode":
        return model.encode(words)
    if step == "generate":
        return model.generate(words[0], max_new_tokens=3)
    return repr((model, model.report, model.taps()[:3]))


def one_case(folder: Path, family: str, dice: random.Random) -> str:
    """Load a folder, as people do, and use what was loaded."""
    from glassformer import load
    from glassformer.models import FAMILIES

    task = None if dice.random() < 0.7 else dice.choice(FAMILIES[family].tasks)
    model = load(
        folder,
        task=task,
        overrides=FAMILIES[family].requires.get(task, {}) if task else None,
        dtype=dice.choice([None, None, "float32", "bfloat16"]),
        strict=dice.random() < 0.2,
        offline=True,
    )
    steps = {"text-generation": ["call", "look", "generate", "encode"], "translation": ["call", "look"]}
    step = dice.choice(steps.get(model.task, ["call", "look", "encode"]))
    use(model, step)
    return step


def packed_folders(home: Path) -> dict[str, Folder]:
    """Folders whose weights are stored as levels of 8 and 4 bits."""
    from glassformer import load
    from tests.e2e.tiny_models import make_folder

    folders = {}
    for bits in ("int8", "int4"):
        path = make_folder(home / f"wide {bits}", "llama", hidden_size=32, intermediate_size=64, head_dim=16)
        packed = home / f"llama {bits}"
        load(path, dtype=bits).save_pretrained(packed)
        for name in ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
            (packed / name).parent.mkdir(exist_ok=True)
            (packed / name).write_bytes((home / "bert one file" / name).read_bytes())
        use(load(packed), "call")
        folders[f"llama {bits}"] = Folder(packed)
    return folders


def gguf_folders(home: Path) -> dict[str, Folder]:
    """GGUF files with tokenizers of both kinds."""
    from glassformer import load
    from glassformer.export import export_gguf
    from tests.gguf.small_models import small

    folders = {}
    for name in ("llama", "qwen2"):
        path = home / f"{name} gguf"
        export_gguf(small(name), path, "q8_0")
        use(load(path), "call")
        folders[f"{name} gguf"] = Folder(path)
    return folders


def run(home: Path, cases: int, seed: int, first: int) -> dict[str, Any]:
    import torch

    from glassformer import GlassformerError, load
    from tests.e2e.tiny_models import make_folder
    from tests.peak import held_bytes

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    whole: dict[str, Folder] = {}
    for family in ("bert", "gpt2", "llama", "transformer"):
        for shape, size in (("one file", 10**9), ("shards", 2_000)):
            path = make_folder(home / "whole" / f"{family} {shape}", family, max_shard_bytes=size)
            (path / "1_Pooling").mkdir()
            (path / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
            (path / "sentence_bert_config.json").write_text('{"max_seq_length": 12, "do_lower_case": false}')
            steps = [{"type": f"a.{kind}", "path": p} for kind, p in (("Transformer", ""), ("Pooling", "1_Pooling"))]
            (path / "modules.json").write_text(json.dumps(steps))
            (path / "tokenizer_config.json").write_text(
                '{"model_max_length": 16, "pad_token": "[PAD]", "padding_side": "right", "tokenizer_class": "A"}'
            )
            whole[f"{family} {shape}"] = Folder(path)
            use(load(path), "call")  # the whole folder works; and all is imported before the clock runs
    whole |= packed_folders(home / "whole") | gguf_folders(home / "whole")

    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    slow: list[str] = []
    before, begun = held_bytes("VmRSS"), time.monotonic()
    for number in range(first, first + cases):
        dice = random.Random(f"{seed}:{number}")
        name = dice.choice(list(whole))
        path, folder = home / name, whole[name]
        kind = dice.choice([k for k in KINDS if k != "index" or INDEX in folder.files])
        folder.write(path, damage(folder, kind, dice))
        faulthandler.dump_traceback_later(10 * HANG_S, exit=True)
        start = time.process_time()  # a busy machine is no hang
        case = f"case {number} ({name}, {kind})"
        try:
            outcomes[f"used: {one_case(path, folder.family, dice)}"] += 1
        except GlassformerError as error:
            outcomes[type(error).__name__] += 1
            text = str(error)
            if not text.isprintable() or len(text) > MESSAGE_CHARACTERS:
                failures.append(f"{case}: not one clear line: {text!r:.400} ({len(text)} characters)")
        except BaseException as error:
            where = "".join(traceback.format_exception(error, limit=-4))
            failures.append(f"{case}: {type(error).__name__}: {error!s:.300}\n{where:.1500}")
        seconds = time.process_time() - start
        faulthandler.cancel_dump_traceback_later()
        if seconds > HANG_S:
            slow.append(f"{case}: {seconds:.1f} s")
    return {
        "cases": cases,
        "outcomes": dict(sorted(outcomes.items())),
        "failures": failures[:30],
        "failed": len(failures),
        "slow": slow,
        "violations": violations[:30],
        "grown_bytes": held_bytes() - before,
        "seconds": round(time.monotonic() - begun, 1),
    }


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    home = Path(sys.argv[1])
    home.mkdir(parents=True, exist_ok=True)
    watch(home)
    result = run(home, int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 0)
    print(json.dumps(result))
