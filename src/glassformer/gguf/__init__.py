"""GGUF files of llama.cpp: one file with config, tokenizer and quantized weights, read as a checkpoint.

    model = glassformer.load("model-Q4_K_M.gguf")            weights as fp32, or as dtype= says

    metadata  general.architecture, {arch}.block_count, …  ──architectures.py──>  config.json
              tokenizer.ggml.tokens, .merges, …            ──vocabulary.py────>   tokenizer.json
    tensors   blk.0.attn_q.weight  Q4_K                    ──dequantized──>       model.layers.0.self_attn.q_proj.weight

Dequantization is the `gguf` package's (extra `gguf`); the file itself is read here, since it may be anybody's.
Source: the specification of the format, ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.files.atomic import write_json
from glassformer.gguf.architectures import check_architecture, config_of, tensor_names
from glassformer.gguf.header import read_header
from glassformer.gguf.scaled_positions import read_factors
from glassformer.gguf.vocabulary import write_tokenizer
from glassformer.gguf.weights import GGUFWeights
from glassformer.weights.read import WeightFiles


@contextmanager
def opened(path: Path) -> Iterator[tuple[Path, Callable[[], WeightFiles]]]:
    """A folder with the config and the tokenizer of a GGUF file, and what opens its weights.

    The folder is there until the end of the context.
    Raises: WeightsError, ConfigError, DataError: what is wrong with the file. UnsupportedError: an architecture, a
        tokenizer or a quantization that is not supported. MissingExtraError: the `gguf` package is not installed.
    """
    header = read_header(path, partial(check_architecture, path))
    config = config_of(header, read_factors(header))
    with TemporaryDirectory(prefix="glassformer-gguf-") as name:
        folder = Path(name)
        write_json(folder / "config.json", config)
        write_tokenizer(header, folder)
        yield folder, partial(GGUFWeights, header, tensor_names(header, config))
