"""Protocol of a loaded model: a network with its config, tokenizer and processor.

Code that reads a model, such as inspection, generation, speech recognition and tasks, asks for this much of it; what it
has besides, and how it was loaded, is not their concern.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch

from glassformer.engine.pooling import PoolingSettings
from glassformer.models import Family, Network
from glassformer.models.model_config import ModelConfig, StoredGenerationConfig
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.load import LoadReport


class LoadedModel(Protocol):
    """A network and what belongs to it; `Model` says what each field is.

    family, spec, config, task, own_head: what the network was made from
    tokenizer, processor: raise MissingPartError where the folder has none
    pooling: settings of sentence embeddings, or the folder where they cannot be read
    GENERATION_CONFIG: options of generation where neither a call nor the folder names them
    """

    GENERATION_CONFIG: ClassVar[Mapping[str, Any]]
    network: Network
    family: Family
    spec: Any
    config: ModelConfig
    task: str
    own_head: bool
    generation_config: StoredGenerationConfig
    pooling: PoolingSettings | Path | None
    report: LoadReport
    folder: Path | None
    carried: dict[str, torch.Tensor]

    @property
    def tokenizer(self) -> Tokenizer: ...
    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer | None) -> None: ...
    @property
    def has_tokenizer(self) -> bool: ...
    @property
    def has_processor(self) -> bool: ...
    @property
    def processor(self) -> Any: ...
    @processor.setter
    def processor(self, processor: Any) -> None: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def is_encoder_decoder(self) -> bool: ...
    @property
    def writes(self) -> bool: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def dtype(self) -> torch.dtype: ...
    def check_nan(self, output: Any) -> None: ...
    def __call__(self, *args: Any, **inputs: Any) -> Any: ...
