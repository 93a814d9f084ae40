"""Checkpoints of other libraries, opened as model folders in the Hugging Face layout.

    model.gguf                     llama.cpp, or a folder with one such file     glassformer.gguf
    folder with model.bin          CTranslate2: Whisper, as faster-whisper has it
    tiny.en.pt                     OpenAI's Whisper: recognised by the names of its tensors
    weights.pth                    Descript's audio codec, likewise
    encodec_24khz-….th             EnCodec, likewise
    ViT-B-32.pt                    OpenAI's CLIP, likewise; open_clip's folders, with open_clip_config.json

Each is a table of weight names and a config made from sizes; `renamed.py` is the one reader. A file that is named is
opened, pickles too: in a sandboxed child process that runs no code of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer import gguf
from glassformer.errors import GlassformerError, WeightsError
from glassformer.files import safe_repr
from glassformer.foreign import clip, dac, encodec, whisper
from glassformer.foreign.renamed import RenamedWeights
from glassformer.weights.layout import INDEX, PICKLED_INDEX, PICKLED_SINGLE, SINGLE
from glassformer.weights.read import WeightFiles, open_file, open_pickle

CTRANSLATE2 = "model.bin"
PICKLES = frozenset((".pt", ".pth", ".th", ".ckpt", ".bin"))


@dataclass(frozen=True, kw_only=True)
class StateDict:
    """A library's state dict.

    marks: tensors that no other library names so
    open: the checkpoint, its path, a folder → its weights; writes config and tokenizer there
    """

    title: str
    marks: tuple[str, ...]
    open: Callable[[WeightFiles, Path, Path], RenamedWeights]


STATE_DICTS = (
    StateDict(
        title="OpenAI Whisper",
        marks=("decoder.token_embedding.weight", "encoder.blocks.0.attn.query.weight"),
        open=whisper.open_openai,
    ),
    StateDict(
        title="Descript Audio Codec",
        marks=("quantizer.quantizers.0.codebook.weight", "encoder.block.0.weight_g"),
        open=dac.open_original,
    ),
    StateDict(
        title="EnCodec",
        marks=("quantizer.vq.layers.0._codebook.embed", "encoder.model.0.conv.conv.bias"),
        open=encodec.open_original,
    ),
    StateDict(
        title="OpenAI CLIP",
        marks=("transformer.resblocks.0.attn.in_proj_weight", "text_projection", "logit_scale"),
        open=clip.open_state_dict,
    ),
)


def is_foreign(name: object) -> bool:
    """Whether a name is that of another library's file, or of a folder with nothing else in it."""
    if not isinstance(name, (str, Path)):
        return False
    path = _expanded(Path(name))
    if _gguf_file(path):
        return True
    if path.suffix in PICKLES - {".bin"} and not _exists(path):
        return True  # which says what is missing; no model of the Hub has such a name
    if _is_file(path):
        # A file of these names next to a config.json belongs to the folder, which is to be given instead.
        in_folder = path.suffix in (".bin", ".safetensors") and _is_file(path.with_name("config.json"))
        return path.suffix in {*PICKLES, ".safetensors"} and (path.name == CTRANSLATE2 or not in_folder)
    if _has_own_weights(path):
        return False
    return _is_file(path / CTRANSLATE2) or (_is_file(path / clip.OPEN_CLIP) and not _is_file(path / "config.json"))


@contextmanager
def opened(path: Path) -> Iterator[tuple[Path, Callable[[], WeightFiles]]]:
    """A folder with the config and the tokenizer of a foreign checkpoint, and what opens its weights.

    The folder is there until the end of the context.
    Raises: WeightsError, ConfigError, DataError: what is wrong with the file. UnsupportedError: another architecture.
    """
    path = _expanded(path)
    if file := _gguf_file(path):
        with gguf.opened(file) as unpacked:
            yield unpacked
        return
    with TemporaryDirectory(prefix="glassformer-foreign-") as name:
        folder = Path(name)
        try:
            with _open(path, folder) as weights:
                yield folder, lambda: weights
        except GlassformerError as problem:
            # The reader of the message knows the folder of the file, not the one that was made from it.
            own = path if _is_dir(path) else path.parent
            problem.args = tuple(str(part).replace(name, str(own)) for part in problem.args)
            raise


def _open(path: Path, folder: Path) -> RenamedWeights:
    if _is_dir(path) and _is_file(path / clip.OPEN_CLIP):
        path = clip.weights_of(path)
    if _is_dir(path):
        return whisper.open_ctranslate2(path / CTRANSLATE2, folder)
    if path.name == CTRANSLATE2 and _is_ctranslate2(path):
        return whisper.open_ctranslate2(path, folder)
    checkpoint = open_file(path) if path.suffix == ".safetensors" else open_pickle(path)
    try:
        for kind in STATE_DICTS:
            if all(mark in checkpoint.tensors for mark in kind.marks):
                return kind.open(checkpoint, path, folder)
    except BaseException:
        checkpoint.close()
        raise
    checkpoint.close()
    names = ", ".join(map(safe_repr, list(checkpoint.tensors)[:3]))
    raise WeightsError(
        f"{path}: its tensors ({names}, …) are named as in no file that is read by itself "
        f"({', '.join(kind.title for kind in STATE_DICTS)}); give the model folder that it belongs to, with config.json"
    )


def _gguf_file(path: Path) -> Path | None:
    """The GGUF file of a path: itself, or the only one of a folder that has no other weights."""
    if not _is_dir(path):
        return path if path.suffix == ".gguf" else None
    files = [] if _has_own_weights(path) else [file for file in path.glob("*.gguf") if file.is_file()]
    return files[0] if len(files) == 1 else None


def _has_own_weights(folder: Path) -> bool:
    return any(_is_file(folder / name) for name in (SINGLE, INDEX, PICKLED_SINGLE, PICKLED_INDEX))


def _is_ctranslate2(path: Path) -> bool:
    """Whether a file begins as one of CTranslate2's: with a small number, where pickles and archives have letters."""
    with path.open("rb") as stream:
        return stream.read(4)[1:] == b"\0\0\0"


def _is_file(path: Path) -> bool:
    return _exists(path) and path.is_file()


def _is_dir(path: Path) -> bool:
    return _exists(path) and path.is_dir()


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False


def _expanded(path: Path) -> Path:
    """A path with `~` expanded, where its user is known."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path
