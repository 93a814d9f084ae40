"""Pretrained models: a network with its config, tokenizer and processor, loaded from a folder and saved to one.

name or folder ──> config.json ──> spec ──> network on the meta device ──> weights of the checkpoint
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import nn

from glassformer.compression.adapter_names import BaseConfig
from glassformer.compression.adapter_set import AdapterSet
from glassformer.compression.adapters import DEFAULT, Adapters, AdapterSpec, check_not_adapted
from glassformer.compression.base_model import find_base_model
from glassformer.compression.weighted_adapters import Combination
from glassformer.core import processor
from glassformer.core.heads import Head
from glassformer.core.init import zero_padding
from glassformer.engine.pooling import PoolingSettings, read_pooling_settings, write_pooling_settings
from glassformer.engine.prepare import prepare
from glassformer.errors import ConfigError, GlassformerError, MissingPartError, WeightsError
from glassformer.files import read_json_object
from glassformer.files.atomic import write_json
from glassformer.hub.find import is_adapter_folder
from glassformer.load_options import LoadOptions, device_of, opened
from glassformer.models import (
    LABEL_KEYS,
    LABEL_TASKS,
    ConfigReader,
    Family,
    Network,
    attach_head,
    body_task,
    find_family,
    resolve_task,
    text_part,
    weight_names,
)
from glassformer.models.model_config import ModelConfig, StoredGenerationConfig
from glassformer.module import NetworkModule
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.load import LoadReport, export_weights, load_weights
from glassformer.weights.names import WeightNames
from glassformer.weights.read import WeightFiles, open_checkpoint
from glassformer.weights.renamed_checkpoint import carried_tensors
from glassformer.weights.write import write_checkpoint

if TYPE_CHECKING:
    from glassformer.audio import AudioProcessor
    from glassformer.vision import ImageProcessor

    Processor = ImageProcessor | AudioProcessor

META = torch.device("meta")
ANSWERING_TASKS = ("translation", "automatic-speech-recognition")


class PretrainedModel(NetworkModule):
    """A network and what belongs to it in a model folder in the Hugging Face layout.

    network: the PyTorch module
    config, generation_config: the content of these files
    own_head: whether the head is a custom one
    tokenizer: texts to ids
    processor: pictures or sounds to tensors; they raise DataError if the folder has none
    task: of its head
    report: what became of every tensor of the checkpoint
    pooling: the folder's settings for sentence embeddings
    GENERATION_CONFIG: options of generation where neither a call nor the folder names them
    """

    GENERATION_CONFIG: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        network: Network,
        family: Family,
        spec: Any,
        config: Mapping[str, Any],
        task: str,
        *,
        tokenizer: Tokenizer | None = None,
        processor: Processor | None = None,
        report: LoadReport | None = None,
        folder: Path | None = None,
        own_head: bool = False,
        generation_config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(network)
        self.family = family
        self.spec = spec
        self.config = ModelConfig(config)
        self.task = task
        self.report = report or LoadReport()
        self.folder = folder
        self.carried: dict[str, torch.Tensor] = {}
        self.own_head = own_head
        self.generation_config = StoredGenerationConfig(generation_config or {})
        self.pooling = _read_pooling(folder, network)
        self._tokenizer = tokenizer
        self._processor = processor

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | Path,
        *,
        task: str | None = None,
        head: Callable[[int], Head] | None = None,
        overrides: Mapping[str, Any] | None = None,
        dtype: torch.dtype | str | None = None,
        device: torch.device | str | None = None,
        base: str | Path | None = None,
        revision: str | None = None,
        allow_pickle: bool = False,
        offline: bool = False,
        strict: bool = False,
        precision: str | None = None,
        **reference: Any,
    ) -> Self:
        """Load a model folder in the Hugging Face layout, or a model of the Hub by name.

        Args:
            name_or_folder: an existing folder or GGUF file, or a name on the Hub: from the cache, or downloaded.
            task: the head, by a Hugging Face pipeline name ("fill-mask", …) or a short verb ("fill", "classify", …);
                None = the one that `architectures` in `config.json` names. The head of another task than that is
                randomly initialised: a token classifier too, where the tensor names of a text classifier would fit.
            head: a custom head on the bare body: a `core.Head` class, or a function, called with the hidden size D.
                Its tensors are read from the folder if it was saved with it, else they are randomly initialised.
            overrides: keys of `config.json` to override: {"num_labels": 6, "id2label": None} makes a head for other
                labels (tensors that do not fit become random), {"hidden_dropout_prob": 0.0} disables dropout.
            dtype: None = the checkpoint's own
            device: None = the CPU; "auto" = the accelerator if there is one.
            revision: a branch, tag or commit on the Hub
            offline: never open a connection
            strict: unused tensors are an error
            allow_pickle: also read old pickles, `.bin` and `.pt`, in a sandboxed child process.
            base: the base model of a folder of adapters; None = as these say.
            precision: of inference, as `Model.prepare`; None = the weights are left as they are.
            reference: keywords of Hugging Face transformers (see `LoadOptions`), and keys of `config.json` to override.
        Returns: the model in eval mode; `model.report` says what became of every tensor.
        Raises: DataError, ConfigError, WeightsError, UnsupportedError: what is wrong with the folder, and what to do.
        """
        options = LoadOptions.read(reference, dtype=dtype, device=device, offline=offline, overrides=overrides)
        location = options.locate(name_or_folder, revision, allow_pickle=allow_pickle)
        adapters = Path(location) if base is not None or is_adapter_folder(location) else None
        if adapters is not None:
            location, task, options = find_base_model(adapters, base, task, options, allow_pickle=allow_pickle)
        with opened(location, allow_pickle=allow_pickle) as (folder, open_weights):
            stored = text_part(read_json_object(folder / "config.json", ConfigError))
            config = options.override(stored, cls.from_pretrained)
            model, stored_task = cls._build(config, task, head, folder=folder, given=options.overrides)
            model._load_weights(open_weights, stored_task, options, strict=strict)
            model._read_files(folder, adapters or folder)
        model.folder = folder if folder.exists() else Path(location)  # what was made of another library's file is gone
        if adapters is not None:
            model.load_adapter(adapters, allow_pickle=allow_pickle)
        if precision is not None:
            prepare(model.network, precision)
        return model

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        task: str | None = None,
        head: Callable[[int], Head] | None = None,
        tokenizer: Tokenizer | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """A new model with random weights, in training mode; on the device "meta" it has shapes and no weights."""
        to_device = device_of(device)
        model, _ = cls._build(config, task, head, to_device, tokenizer=tokenizer, given=config)
        if to_device.type != "meta":
            model._initialise(model.network)
        return model

    def _initialise(self, module: nn.Module) -> None:
        """Random weights for a new network, or for a part of one that no file holds."""
        self.family.initialise(module, self.spec)
        zero_padding(module)

    @classmethod
    def _build(
        cls,
        config: Mapping[str, Any],
        task: str | None,
        head: Callable[[int], Head] | None,
        device: torch.device = META,
        *,
        folder: Path | None = None,
        tokenizer: Tokenizer | None = None,
        given: Container[str] = (),
    ) -> tuple[Self, str | None]:
        """A model whose weights mean nothing yet, and the task of its config's head; given: keys a caller has set."""
        family = find_family(config, folder)
        target, stored = resolve_task(family, config, task if head is None else body_task(task))
        family.check_requirements(target, config)
        reader = ConfigReader(config)
        spec = family.spec(reader)
        network = family.build_on_meta(spec, target) if device.type == "meta" else family.build(spec, target)
        if not any(parameter.is_meta for parameter in network.parameters()):  # a caller may want no memory taken
            network = network.to(device)
        if head is not None:
            with device:
                attach_head(network, head)
        report = LoadReport(warnings=reader.unused_key_warnings(given))
        model = cls(
            network,
            family,
            spec,
            config,
            target,
            tokenizer=tokenizer,
            report=report,
            folder=folder,
            own_head=head is not None,
        )
        return model, stored

    def _load_weights(
        self, open_weights: Callable[[], WeightFiles], stored_task: str | None, options: LoadOptions, *, strict: bool
    ) -> None:
        other_task = self.task != stored_task
        # The names and shapes of one label head often fit another, but its weights mean nothing there.
        other_labels = other_task and {self.task, stored_task} <= LABEL_TASKS
        # A body may have been saved without its pooler.
        new_head = other_task or self.task == "feature-extraction" or not LABEL_KEYS.isdisjoint(options.overrides)
        unused_keys, names = self.report.warnings, self._weight_names()

        def is_label_head(name: str) -> bool:  # a pooler belongs to the body, and is taken from any file that has it
            theirs = names.without_prefix(names.find(name, prefixed=True)[1][0])
            return name.startswith("head.") and theirs.rpartition(".")[0] not in names.poolers

        with open_weights() as checkpoint:
            self.report = load_weights(
                self.network,
                checkpoint,
                names,
                dtype=options.dtype,
                device=options.device,
                strict=strict,
                may_be_new=lambda name: name.startswith("head.") and new_head,
                reinitialised=lambda name: other_labels and is_label_head(name),
                initialise=self._initialise,
            )
            self.carried = carried_tensors(checkpoint, names)
        self.report.warnings += unused_keys
        self.eval()
        if not processor.is_fast(self.dtype, self.device.type):
            narrow = str(self.dtype).removeprefix("torch.")
            cure = '; or call model.prepare("bf16") (--precision bf16)' if self.dtype == torch.bfloat16 else ""
            warnings.warn(
                f"the weights are {narrow}, for which this processor has no instructions: several times slower than "
                f'float32. Load with dtype="float32", which takes twice the memory{cure}',
                stacklevel=4,
            )

    def _read_files(self, folder: Path, adapters: Path) -> None:
        """Read what is in the folder next to config and weights; the tokenizer next to adapters comes first."""
        tokenizers = (Tokenizer.find(place, model_type=self.family.model_type) for place in (adapters, folder))
        self._tokenizer = next((tokenizer for tokenizer in tokenizers if tokenizer is not None), None)
        self._processor = _find_processor(self.family, folder)
        if (generation_config := folder / "generation_config.json").is_file():
            self.generation_config = StoredGenerationConfig(read_json_object(generation_config, ConfigError))
        if self._tokenizer is not None and self.vocabulary and self._tokenizer.largest_id >= self.vocabulary:
            raise ConfigError(
                f"{folder}: the tokenizer makes ids up to {self._tokenizer.largest_id}, the model's embedding has "
                f"{self.vocabulary} rows; they belong to different models"
            )

    @property
    def _bare(self) -> bool:
        return super()._bare and not self.own_head

    def _weight_names(self) -> WeightNames:
        return weight_names(self.family, self.spec, self.task, self.network, own_head=self.own_head)

    def save_pretrained(self, folder: str | Path, *, max_shard_bytes: int = 5_000_000_000) -> None:
        """Save config, weights and tokenizer in the Hugging Face layout, which transformers loads.

        Raises: WeightsError: the files cannot be written. ConfigError: the model has adapters that are not merged.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise WeightsError(f"{folder}: is a file; give a folder to write the model to")
        names, prefixed = self._weight_names(), not self._bare
        tensors = export_weights(self.network, names, prefixed=prefixed, carried=self.carried)
        write_checkpoint(folder, tensors, max_shard_bytes=max_shard_bytes)
        dtype = str(self.dtype).removeprefix("torch.")
        own = {key: value for key, value in self.config.items() if key not in ("torch_dtype", "dtype")}
        write_json(
            folder / "config.json",
            {**own, "architectures": [self.family.architecture(self.task)], "dtype": dtype},
        )
        if self.generation_config:
            write_json(folder / "generation_config.json", self.generation_config)
        if self._bare and isinstance(self.pooling, PoolingSettings):
            write_pooling_settings(folder, self.pooling, self.network.width)
        for part in (self._tokenizer, self._processor):
            if part is not None:
                part.save(folder)

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload the model to the Hub; options of `hub.push.push_folder`. Returns: the address of the commit."""
        from glassformer.hub.push import push_folder

        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return push_folder(Path(folder), name, **options)

    def take_weights(self, folder: str | Path) -> None:
        """Load the weights of another save of the same model, such as the best checkpoint of a training run.

        Raises: WeightsError: its tensors do not fit.
        """
        with open_checkpoint(Path(folder), allow_pickle=False) as checkpoint:
            load_weights(self.network, checkpoint, self._weight_names(), dtype=self.dtype, device=self.device)

    # ------------------------------------------------------------------------------- adapters, by PEFT's names

    @property
    def adapters(self) -> AdapterSet:
        """The low-rank adapters (LoRA) by name, in the order in which they came."""
        return AdapterSet(self.network, BaseConfig(self.family, self.spec, self.task, self.own_head, self.folder))

    @property
    def active_adapters(self) -> list[str]:
        """The names of the adapters that take part in what the model computes."""
        return self.adapters.active

    def load_adapter(self, folder: str | Path, adapter_name: str = DEFAULT, **options: bool) -> Adapters:
        """Load adapters from a folder that PEFT or `save_adapter` has written, or from the Hub: `AdapterSet.load`."""
        adapters = self.adapters.load(folder, adapter_name, **options)
        self.report.new = [name for name in self.report.new if name not in adapters.full_parameters]
        return adapters

    def add_adapter(self, adapter_name: str = DEFAULT, spec: AdapterSpec | None = None) -> Adapters:
        """Add new adapters, to be trained; at first they change nothing: `AdapterSet.add`."""
        return self.adapters.add(adapter_name, spec)

    def save_adapter(self, folder: str | Path, adapter_name: str | None = None) -> None:
        """Save adapters alone to a folder, which PEFT loads: `AdapterSet.save`."""
        self.adapters.save(folder, adapter_name)

    def set_adapter(self, adapter_name: str | Sequence[str]) -> None:
        """Activate the adapters of this name, or of these, and no others: `AdapterSet.activate`."""
        self.adapters.activate(adapter_name)

    def disable_adapter(self) -> AbstractContextManager[None]:
        """Context in which the model computes what its base model does."""
        return self.adapters.disabled()

    def delete_adapter(self, adapter_name: str) -> None:
        """Remove adapters from the model; others stay as they are: `AdapterSet.delete`."""
        self.adapters.delete(adapter_name)

    def add_weighted_adapter(
        self,
        adapters: Sequence[str],
        weights: Sequence[float],
        adapter_name: str,
        combination_type: str = "svd",
        svd_rank: int | None = None,
        density: float | None = None,
        majority_sign_method: str = "total",
    ) -> None:
        """Add the weighted combination of adapters as one of its own, inactive: `AdapterSet.combine`, `Combination`."""
        how = Combination(combination_type, svd_rank, density, majority_sign_method)
        self.adapters.combine(adapters, weights, adapter_name, how)

    def merge_and_unload(self) -> Self:
        """Merge the active adapters into the weights, for good, and remove the others. Returns: the model itself."""
        self.adapters.merge_and_remove()
        return self

    def unload(self) -> Self:
        """Remove all adapters: the base model as it was. Returns: the model itself."""
        self.adapters.remove()
        return self

    def resize_token_embeddings(
        self, size: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize the vocabulary; see `NetworkModule`. Raises: ConfigError: the model has adapters."""
        check_not_adapted(self.network)
        return super().resize_token_embeddings(size, pad_to_multiple_of, mean_resizing)

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise MissingPartError(
                "this model has no tokenizer: its folder holds neither tokenizer.json nor vocabulary files; copy those "
                "of the same model next to its weights (vocab.json with merges.txt; for OpenAI's Whisper gpt2.tiktoken "
                "or multilingual.tiktoken, which the package openai-whisper carries)"
            )
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer

    @property
    def has_tokenizer(self) -> bool:
        return self._tokenizer is not None

    @property
    def processor(self) -> Processor:
        if self._processor is None:
            modality = self.family.modality
            raise MissingPartError(
                f"a {self.family.model_type!r} model reads text only"
                if modality is None
                else f"this model cannot read a {modality}: its folder holds no preprocessor_config.json"
            )
        return self._processor

    @processor.setter
    def processor(self, processor: Processor | None) -> None:
        self._processor = processor

    @property
    def has_processor(self) -> bool:
        return self._processor is not None

    @property
    def vocabulary(self) -> int:
        """Vocabulary size; 0 where the network reads and writes no text."""
        return self.network.vocabulary

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether it generates an answer to what it reads, instead of continuing it."""
        return self.task in ANSWERING_TASKS and "decoder_input_ids" in self.network.READS

    @property
    def writes(self) -> bool:
        """Whether it generates text: continues a prompt, or answers it."""
        codes = self.network.sizes.codebooks > 0
        return not codes and (
            self.is_encoder_decoder or (self.task == "text-generation" and self.family.modality is None)
        )


def _find_processor(family: Family, folder: Path) -> Processor | None:
    """The preprocessor of images or audio; None if the family reads text, or the folder does not configure one."""
    if family.modality == "picture":
        from glassformer.vision import ImageProcessor

        return ImageProcessor.find(folder)
    if family.modality == "sound":
        from glassformer.audio import AudioProcessor

        return AudioProcessor.find(folder)
    return None


def _read_pooling(folder: Path | None, network: Network) -> PoolingSettings | Path | None:
    """The folder's settings of pooling, or the folder itself where they cannot be read: `encode` says why."""
    try:
        return read_pooling_settings(folder, network.POOLING)
    except GlassformerError:
        return folder  # without embeddings the model can be used all the same
