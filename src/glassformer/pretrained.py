"""Pretrained models: the parts of a model, read from a folder in the Hugging Face layout, and written to one.

name or folder ──> config.json ──> spec ──> network on the meta device ──> weights of the checkpoint

`glassformer.load` makes a `Model` of the parts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from glassformer.compression.adapter_names import BaseConfig
from glassformer.compression.adapter_set import AdapterSet
from glassformer.compression.adapters import check_not_adapted
from glassformer.compression.base_model import find_base_model
from glassformer.core import processor
from glassformer.core.heads import Head
from glassformer.core.init import zero_padding
from glassformer.core.quantised import FixedProgram, StoredLevels
from glassformer.engine.pooling import PoolingSettings, read_pooling_settings, write_pooling_settings
from glassformer.engine.prepare import prepare
from glassformer.errors import ConfigError, GlassformerError, UnsupportedError, WeightsError
from glassformer.files import as_path, check_link, is_int, read_json_object
from glassformer.files.atomic import write_json
from glassformer.hub.find import is_adapter_folder
from glassformer.load_options import LoadOptions, device_of, opened
from glassformer.loaded_model import LoadedModel
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
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.layout import STEP_PROGRAM, find_program, folder_of
from glassformer.weights.load import LoadReport, carried_tensors, export_weights, load_weights
from glassformer.weights.names import WeightNames
from glassformer.weights.quantised import quantisation_config
from glassformer.weights.quantised_layout import CONFIG_KEY, QuantisedFiles
from glassformer.weights.read import WeightFiles
from glassformer.weights.write import write_checkpoint

if TYPE_CHECKING:
    from glassformer.audio import AudioProcessor
    from glassformer.vision import ImageProcessor

    Processor = ImageProcessor | AudioProcessor

META = torch.device("meta")


@dataclass
class ModelParts:
    """A network and what belongs to it in a model folder in the Hugging Face layout.

    family, spec, config, task, own_head: what the network was made from; own_head: whether the head is a custom one
    tokenizer, processor: None = the folder has none
    pooling: the folder's settings for sentence embeddings, or the folder itself where they cannot be read
    report: what became of every tensor of the checkpoint
    carried: tensors of the checkpoint that go from the loaded file to the saved one
    """

    network: Network
    family: Family
    spec: Any
    config: ModelConfig
    task: str
    own_head: bool = False
    tokenizer: Tokenizer | None = None
    processor: Processor | None = None
    generation_config: StoredGenerationConfig = field(default_factory=StoredGenerationConfig)
    pooling: PoolingSettings | Path | None = None
    report: LoadReport = field(default_factory=LoadReport)
    folder: Path | None = None
    carried: dict[str, Tensor] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.network.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return next(self.network.parameters()).dtype

    def initialise(self, module: nn.Module) -> None:
        """Random weights for a new network, or for a part of one that no file holds."""
        self.family.initialise(module, self.spec)
        zero_padding(module)


def read_pretrained(
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
) -> ModelParts:
    """Load a model folder in the Hugging Face layout, or a model of the Hub by name.

    Args:
        name_or_folder: an existing folder, GGUF or ONNX file, or a name on the Hub: from the cache, or downloaded.
        task: the head, by a Hugging Face pipeline name ("fill-mask", …) or a short verb ("fill", "classify", …);
            None = the one that `architectures` in `config.json` names. The head of another task than that is
            randomly initialised: a token classifier too, where the tensor names of a text classifier would fit.
        head: a custom head on the bare body: a `core.Head` class, or a function, called with the hidden size D.
            Its tensors are read from the folder if it was saved with it, else they are randomly initialised.
        overrides: keys of `config.json` to override: {"num_labels": 6, "id2label": None} makes a head for other
            labels (tensors that do not fit become random), {"hidden_dropout_prob": 0.0} disables dropout.
        dtype: None = the checkpoint's own; "int8" and "int4": weights of linear layers and embeddings are rounded to
            levels as they are read, and no copy in floating point is made (4 bits: groups of 32, embeddings in 8).
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
    location, program = folder_of(location)
    with opened(location, allow_pickle=allow_pickle) as (folder, open_weights):
        config = options.override(text_part(read_json_object(folder / "config.json", ConfigError)), read_pretrained)
        parts, stored_task = _build(config, task, head, folder=folder, given=options.overrides)
        weights = program or find_program(folder, allow_pickle=allow_pickle) or open_weights
        parts = _with_weights(parts, weights, task, stored_task, options, strict=strict)
        _read_files(parts, folder, adapters or folder)
    parts.folder = folder if folder.exists() else Path(location)  # what was made of another library's file is gone
    if adapters is not None:
        base_config = BaseConfig(parts.family, parts.spec, parts.task, parts.own_head, parts.folder)
        loaded = AdapterSet(parts.network, base_config).load(adapters, allow_pickle=allow_pickle)
        parts.report.new = [name for name in parts.report.new if name not in loaded.full_parameters]
    if precision is not None:
        prepare(parts.network, precision)
    return parts


def new_parts(
    config: Mapping[str, Any],
    *,
    task: str | None = None,
    head: Callable[[int], Head] | None = None,
    tokenizer: Tokenizer | None = None,
    device: torch.device | str | None = None,
) -> ModelParts:
    """A new model with random weights, in training mode; on the device "meta" it has shapes and no weights."""
    to_device = device_of(device)
    parts, _ = _build(config, task, head, to_device, given=config)
    parts.tokenizer = tokenizer
    if to_device.type != "meta":
        parts.initialise(parts.network)
    return parts


def _build(
    config: Mapping[str, Any],
    task: str | None,
    head: Callable[[int], Head] | None,
    device: torch.device = META,
    *,
    folder: Path | None = None,
    given: Container[str] = (),
) -> tuple[ModelParts, str | None]:
    """Parts whose weights mean nothing yet, and the task of its config's head; given: keys a caller has set."""
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
    pooling = read_pooling(folder, network)
    parts = ModelParts(
        network,
        family,
        spec,
        ModelConfig(config),
        target,
        head is not None,
        pooling=pooling,
        report=report,
        folder=folder,
    )
    return parts, stored


def _with_weights(
    parts: ModelParts,
    weights: Path | Callable[[], WeightFiles],
    task: str | None,
    stored_task: str | None,
    options: LoadOptions,
    *,
    strict: bool,
) -> ModelParts:
    """The parts with weights: those that are opened, or those in an ONNX file, which ONNX Runtime runs."""
    if isinstance(weights, Path):
        return _run_by_onnx(parts, weights, task, options)
    _load_weights(parts, weights, stored_task, options, strict=strict)
    return parts


def _load_weights(
    parts: ModelParts,
    open_weights: Callable[[], WeightFiles],
    stored_task: str | None,
    options: LoadOptions,
    *,
    strict: bool,
) -> None:
    other_task = parts.task != stored_task
    # The names and shapes of one label head often fit another, but its weights mean nothing there.
    other_labels = other_task and {parts.task, stored_task} <= LABEL_TASKS
    # A body may have been saved without its pooler.
    new_head = other_task or parts.task == "feature-extraction" or not LABEL_KEYS.isdisjoint(options.overrides)
    unused_keys, names = parts.report.warnings, names_of(parts)

    def is_label_head(name: str) -> bool:  # a pooler belongs to the body, and is taken from any file that has it
        theirs = names.without_prefix(names.find(name, prefixed=True)[1][0])
        return name.startswith("head.") and theirs.rpartition(".")[0] not in names.poolers

    rounding = None
    if options.bits is not None:
        from glassformer.compression.quantised_loading import RoundedWhenRead, check_not_levels

        check_not_levels(parts.config.get(CONFIG_KEY), options.bits)
        rounding = RoundedWhenRead(parts.network, options.bits)
    with open_weights() as checkpoint:
        parts.report = load_weights(
            parts.network,
            checkpoint,
            names,
            dtype=options.dtype,
            device=options.device,
            strict=strict,
            may_be_new=lambda name: name.startswith("head.") and new_head,
            reinitialised=lambda name: other_labels and is_label_head(name),
            initialise=parts.initialise,
            quantised=QuantisedFiles.of(parts.config) if parts.config.get(CONFIG_KEY) else None,
            rounding=rounding,
        )
        parts.carried = carried_tensors(checkpoint, names)
    parts.report.warnings += unused_keys
    parts.network.eval()
    if not processor.is_fast(parts.dtype, parts.device.type):
        narrow = str(parts.dtype).removeprefix("torch.")
        cure = '; or call model.prepare("bf16") (--precision bf16)' if parts.dtype == torch.bfloat16 else ""
        warnings.warn(
            f"the weights are {narrow}, for which this processor has no instructions: several times slower than "
            f'float32. Load with dtype="float32", which takes twice the memory{cure}',
            stacklevel=4,
        )


def _run_by_onnx(parts: ModelParts, path: Path, task: str | None, options: LoadOptions) -> ModelParts:
    """The parts with a network that ONNX Runtime runs in the place of theirs.

    Raises: UnsupportedError: another device or dtype than the file's, another head, or one that is to be new.
        WeightsError: the file is damaged, or of another model.
    """
    from glassformer.engine.onnx_network import STATES, OnnxNetwork
    from glassformer.engine.onnx_program import OnnxProgram
    from glassformer.engine.onnx_steps import OnnxSteps, reads_past
    from glassformer.weights.onnx_files import checked_weights

    if parts.own_head:
        raise UnsupportedError(f"{path} is run by ONNX Runtime as a whole and takes no other head; leave head= out")
    program = OnnxProgram(path, checked_weights(path))
    body = "feature-extraction"
    scores = [name for name in program.outputs if name.endswith("logits")]
    if task is None and not scores and not set(STATES).isdisjoint(program.outputs) and body in parts.family.tasks:
        warned = parts.report.warnings
        parts, _ = _build(parts.config, body, None, folder=parts.folder)  # exported without the head of its config
        parts.report.warnings = warned
    padding = parts.config.get("pad_token_id")
    steps = None
    if reads_past(program):
        steps = OnnxSteps(program)
    elif (step := path.with_name(STEP_PROGRAM)).is_file() and step != path:
        check_link(path.parent, step)
        steps = OnnxSteps(OnnxProgram(step, checked_weights(step)))
    network = OnnxNetwork(parts.network, program, padding if is_int(padding) else 0, steps)
    if parts.task in LABEL_TASKS and (labels := program.width("logits")) not in (None, parts.config.num_labels):
        raise WeightsError(
            f"{path}: gives {labels} labels, and the config names {parts.config.num_labels}; they belong to different "
            "models"
        )
    parts.network = network
    if options.device.type == "meta":
        network.refuse("loaded without its weights, as it is to be trained or changed")
    if options.bits is not None:
        network.refuse(f"rounded to int{options.bits} as it is read: it computes in its own dtype")
    if options.device.type != "cpu":
        network.refuse(f"put on {options.device}: it runs on the CPU")
    if options.dtype not in (None, parts.dtype):
        network.refuse(f"loaded as {str(options.dtype).removeprefix('torch.')}: it computes in its own dtype")
    return parts


def _read_files(parts: ModelParts, folder: Path, adapters: Path) -> None:
    """Read what is in the folder next to config and weights; the tokenizer next to adapters comes first."""
    tokenizers = (Tokenizer.find(place, model_type=parts.family.model_type) for place in (adapters, folder))
    parts.tokenizer = next((tokenizer for tokenizer in tokenizers if tokenizer is not None), None)
    parts.processor = _find_processor(parts.family, folder)
    if (generation_config := folder / "generation_config.json").is_file():
        parts.generation_config = StoredGenerationConfig(read_json_object(generation_config, ConfigError))
    vocabulary = parts.network.vocabulary
    if parts.tokenizer is not None and vocabulary and parts.tokenizer.largest_id >= vocabulary:
        raise ConfigError(
            f"{folder}: the tokenizer makes ids up to {parts.tokenizer.largest_id}, the model's embedding has "
            f"{vocabulary} rows; they belong to different models"
        )


def names_of(model: ModelParts | LoadedModel) -> WeightNames:
    """The names of the network's tensors in files of the model."""
    return weight_names(model.family, model.spec, model.task, model.network, own_head=model.own_head)


def is_bare(model: LoadedModel) -> bool:
    """Whether files of this model are those of a body without a head."""
    return model.task == "feature-extraction" and not model.own_head


def save(model: LoadedModel, folder: str | Path, *, max_shard_bytes: int = 5_000_000_000) -> None:
    """Save config, weights and tokenizer in the Hugging Face layout, which transformers loads.

    Raises: WeightsError: the files cannot be written. ConfigError: the model has adapters that are not merged.
    """
    check_not_adapted(model.network)
    if isinstance(model.network, FixedProgram):
        model.network.refuse("saved in other files")
    folder = as_path(folder, "folder")
    if folder.exists() and not folder.is_dir():
        raise WeightsError(f"{folder}: is a file; give a folder to write the model to")
    names, prefixed = names_of(model), not is_bare(model)
    tensors = export_weights(model.network, names, prefixed=prefixed, carried=model.carried)
    write_checkpoint(folder, tensors, max_shard_bytes=max_shard_bytes)
    dtype = str(model.dtype).removeprefix("torch.")
    own = {key: value for key, value in model.config.items() if key not in ("torch_dtype", "dtype", CONFIG_KEY)}
    if any(isinstance(module, StoredLevels) for module in model.network.modules()):
        own[CONFIG_KEY] = quantisation_config(model.network, names, tensors, prefixed=prefixed)
    save_files(model, folder, {**own, "dtype": dtype})


def save_files(model: LoadedModel, folder: Path, config: Mapping[str, Any]) -> None:
    """Save what lies next to the weights: config, tokenizer, processor, settings of generation and of pooling.

    Raises: WeightsError: the files cannot be written.
    """
    write_json(folder / "config.json", {**config, "architectures": [model.family.architecture(model.task)]})
    if model.generation_config:
        write_json(folder / "generation_config.json", model.generation_config)
    if is_bare(model) and isinstance(model.pooling, PoolingSettings):
        write_pooling_settings(folder, model.pooling, model.network.width)
    for part in (model.has_tokenizer and model.tokenizer, model.has_processor and model.processor):
        if part:
            part.save(folder)


def _find_processor(family: Family, folder: Path) -> Processor | None:
    """The preprocessor of images or audio; None if the family reads text, or the folder does not configure one."""
    if family.modality == "picture":
        from glassformer.vision import ImageProcessor

        return ImageProcessor.find(folder)
    if family.modality == "sound":
        from glassformer.audio import AudioProcessor

        return AudioProcessor.find(folder)
    return None


def read_pooling(folder: Path | None, network: Network) -> PoolingSettings | Path | None:
    """The folder's settings of pooling, or the folder itself where they cannot be read: `encode` says why."""
    try:
        return read_pooling_settings(folder, network.POOLING)
    except GlassformerError:
        return folder  # without embeddings the model can be used all the same
