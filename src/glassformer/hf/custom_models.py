"""Custom models and configs, derived from `PreTrainedModel`, `BertPreTrainedModel`, … and `PretrainedConfig`.

    class TagsByBert(BertPreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
            self.bert = BertModel(config, add_pooling_layer=False)      a body: a model of ours
            self.classifier = nn.Linear(config.hidden_size, config.num_labels)
            self.post_init()

`from_pretrained` makes one of a folder's config, and reads into its parts what the folder has for them: tensors of a
body with the prefix of its attribute or of the family, or with none; those of other modules by their own names. The
names of tensors are those of the reference library, here and in the files that `save_pretrained` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import as_path, read_json_object
from glassformer.files.atomic import write_json
from glassformer.hf.configs import AutoConfig, check_floating, options_of
from glassformer.hf.reference_model import ReferenceModel
from glassformer.load_options import FINDING, shard_bytes
from glassformer.model import Model
from glassformer.models.model_config import ModelConfig
from glassformer.weights.load import LEGACY_NORM_NAMES
from glassformer.weights.read import open_checkpoint
from glassformer.weights.write import write_checkpoint

NO_CODE = (
    "{0} is not saved with its code, which is never loaded from a model's folder: import the class, and call "
    "{0}.from_pretrained(folder), or AutoConfig.register and AutoModel.register"
)


class AnyModel(type(nn.Module)):  # type: ignore[misc] # torch's, as mypy sees it, is no class
    """`isinstance(model, PreTrainedModel)` holds for every model of ours, too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (not cls.own and isinstance(instance, Model))


class CustomModel(nn.Module, metaclass=AnyModel):
    """A module of bodies and custom layers, with the loading and saving of a model.

    config_class: what `from_pretrained` reads the config with; None = as the folder says
    """

    config_class: ClassVar[Any] = None
    own: ClassVar[bool] = False
    main_input_name: ClassVar[str] = "input_ids"

    def __init_subclass__(cls, *, own: bool = True, **_: Any) -> None:
        cls.own = own

    def __init__(self, config: Any, *unnamed: Any, **named: Any) -> None:
        super().__init__()
        if not isinstance(config, Mapping):
            raise ConfigError(
                f"{type(self).__name__}(config) takes a config, such as AutoConfig.from_pretrained(folder); got "
                f"{type(config).__name__}"
            )
        self.config: Any = config

    # ------------------------------------------------------------------------------------------- initial weights

    def post_init(self) -> None:
        """Initialise the custom layers by `_init_weights`; bodies are already."""
        for module in self._own_modules():
            self._init_weights(module)

    init_weights = post_init

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Matrices and embeddings from N(0, initializer_range²), biases 0; norms as torch has made them."""
        if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Embedding)):
            nn.init.normal_(module.weight, std=self.config.get("initializer_range", 0.02))
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)  # type: ignore[arg-type] # a parameter

    def _own_modules(self) -> Iterator[nn.Module]:
        bodies = {id(inner) for _, body in self.bodies() for inner in (body, *body.network.modules())}
        return (module for module in self.modules() if module is not self and id(module) not in bodies)

    def bodies(self) -> Iterator[tuple[str, ReferenceModel]]:
        """The models in it, by their paths."""
        for name, module in nn.Module.named_modules(self):
            if isinstance(module, ReferenceModel):
                yield name, module

    # ------------------------------------------------------------------------------------------ loading and saving

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, *unnamed: Any, config: Any = None, **keywords: Any) -> Any:
        """A model with the weights of a folder, or of a model of the Hub, in eval mode.

        Args:
            unnamed: of the class, after its config
            config: instead of the folder's
            keywords: to override keys of the config; `dtype`, and where to find the folder, as of `glassformer.load`
        Returns: the model; with output_loading_info=True, and the names of tensors that are new or unused.
        """
        own = {name: keywords.pop(name) for name in [*keywords] if name in (*FINDING, "dtype", "torch_dtype")}
        revision, informed = keywords.pop("revision", None), keywords.pop("output_loading_info", False)
        options = options_of(own)
        check_floating(options, cls.__name__)
        folder = options.find_folder(name_or_folder, revision, allow_pickle=False)
        if config is None:
            config = (cls.config_class or AutoConfig).from_pretrained(folder)
        for name in ("ignore_mismatched_sizes", "low_cpu_mem_usage", "device_map"):
            keywords.pop(name, None)
        names = {*keywords, *({"id2label", "label2id"} if "num_labels" in keywords and "id2label" in config else ())}
        for name in names:
            setattr(config, name, keywords.get(name))
        model = cls(config, *unnamed)
        with open_checkpoint(folder) as checkpoint:
            state = {_current(name): checkpoint.read(name) for name in checkpoint.tensors}
        info = model.load_state_dict(model._as_own(state), strict=False)
        if options.dtype is not None:
            model.to(options.dtype)
        model.eval()
        loading = {"missing_keys": [*info.missing_keys], "unexpected_keys": [*info.unexpected_keys]}
        return (model, {**loading, "mismatched_keys": [], "error_msgs": []}) if informed else model

    @classmethod
    def register_for_auto_class(cls, *_: Any) -> None:
        """Raises: UnsupportedError: code is not saved next to weights."""
        raise UnsupportedError(NO_CODE.format(cls.__name__))

    @classmethod
    def from_config(cls, config: Any, **_: Any) -> Self:
        """A new model with random weights, in training mode."""
        return cls(config)

    _from_config = from_config

    def _as_own(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors of a folder by the names that they have here; those of another shape stay away, as new ones."""
        renamed = dict(state)
        for at, body in self.bodies():
            prefixes = (f"{at}.", f"{body.base_model_prefix}.", "")
            prefix = next(p for p in prefixes if not p or any(name.startswith(p) for name in state))
            names = {name for _, theirs in body.tensor_names().values() for name in theirs}
            renamed |= {f"{at}.{name}": state[prefix + name] for name in names if prefix + name in state}
        shapes = {name: tensor.shape for name, tensor in self.state_dict().items()}
        return {name: tensor for name, tensor in renamed.items() if shapes.get(name, tensor.shape) == tensor.shape}

    def save_pretrained(self, folder: str | Path, **keywords: Any) -> None:
        """Write config and weights into a folder, which `from_pretrained` of the same class reads."""
        state = keywords.pop("state_dict", None) or self.state_dict()
        tensors = {name: tensor.contiguous() for name, tensor in state.items()}
        write_checkpoint(as_path(folder, "folder"), tensors, max_shard_bytes=shard_bytes(keywords, 5_000_000_000))
        keys = dict(self.config.to_dict()) if isinstance(self.config, ModelConfig) else dict(self.config)
        write_json(as_path(folder, "folder") / "config.json", {**keys, "architectures": [type(self).__name__]})

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload config and weights to the Hub. Returns: the address of the commit."""
        from glassformer.hub.push import push_saved

        return push_saved(self.save_pretrained, name, **options)

    # ------------------------------------------------------------------------------------------- names of tensors

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters, those of bodies by the reference library's names."""
        start = f"{prefix}." if prefix else ""
        theirs = {id(p): f"{at}.{name}" for at, body in self.bodies() for name, p in body.named_parameters()}
        for name, parameter in super().named_parameters("", recurse, remove_duplicate):
            yield start + theirs.get(id(parameter), name), parameter

    def state_dict(self, *args: Any, **options: Any) -> dict[str, Any]:  # type: ignore[override] # as torch calls it
        """Tensors, those of bodies by the reference library's names; by ours where this is part of a larger module."""
        state: dict[str, Any] = super().state_dict(*args, **options)
        if args or options.get("prefix") or options.get("destination") is not None:
            return state
        bodies = dict(self.bodies())
        own = {name: x for name, x in state.items() if not any(name.startswith(f"{at}.") for at in bodies)}
        return own | {f"{at}.{name}": x for at, body in bodies.items() for name, x in body.state_dict().items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy tensors into the parameters, by the names that `state_dict` gives.

        Returns: missing_keys, unexpected_keys.
        """
        bodies = dict(self.bodies())
        own = {name: x for name, x in state_dict.items() if not any(name.startswith(f"{at}.") for at in bodies)}
        for at, body in bodies.items():
            theirs = {name.removeprefix(f"{at}."): x for name, x in state_dict.items() if name.startswith(f"{at}.")}
            body.load_state_dict(theirs, strict=strict)
        ours = super().state_dict()
        within = {name: x for name, x in ours.items() if any(name.startswith(f"{at}.") for at in bodies)}
        result = super().load_state_dict({**own, **within}, strict=strict, assign=assign)
        result.missing_keys[:] = [name for name in self.state_dict() if name not in state_dict]
        return result

    # --------------------------------------------------------------------------------------------------- questions

    @property
    def base_model(self) -> nn.Module:
        """The first body; the model itself where it has none."""
        return next((body for _, body in self.bodies()), self)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return next(self.parameters()).dtype

    def num_parameters(self, only_trainable: bool = False) -> int:
        return sum(x.numel() for x in self.parameters() if x.requires_grad or not only_trainable)

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of token embeddings of the first body."""
        return self._body().get_input_embeddings()

    def resize_token_embeddings(self, size: int | None = None, **options: Any) -> nn.Embedding:
        """Resize the vocabulary of the first body."""
        table = self._body().resize_token_embeddings(size, **options)
        self.config.vocab_size = table.num_embeddings
        return table

    def gradient_checkpointing_enable(self, *unnamed: Any, **named: Any) -> None:
        """Activation checkpointing of the bodies in training mode."""
        for _, body in self.bodies():
            body.gradient_checkpointing_enable()

    def _body(self) -> ReferenceModel:
        """Raises: UnsupportedError: it has none."""
        for _, body in self.bodies():
            return body
        raise UnsupportedError(f"{type(self).__name__} holds no model, whose token embeddings these would be")


def _current(name: str) -> str:
    """A tensor's name today: norms have a weight and a bias."""
    stem, _, leaf = name.rpartition(".")
    return f"{stem}.{({old: new for new, old in LEGACY_NORM_NAMES.items()}).get(leaf, leaf)}" if stem else name


class _AnyConfig(type):
    """`isinstance(config, PretrainedConfig)` holds for every config of ours."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (cls.__name__ in _BASES and isinstance(instance, ModelConfig))


_BASES = ("PretrainedConfig", "PreTrainedConfig")


class PretrainedConfig(ModelConfig, metaclass=_AnyConfig):
    """A custom config: what the class sets as attributes is what `config.json` holds."""

    model_type: ClassVar[str] = ""

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, revision: str | None = None, **keywords: Any) -> Self:
        """Read `config.json`; keywords override its keys."""
        own = {name: keywords.pop(name) for name in [*keywords] if name in FINDING}
        folder = options_of(own).find_folder(name_or_folder, revision, allow_pickle=False)
        return cls.from_dict({**read_json_object(folder / "config.json", ConfigError), **keywords})

    @classmethod
    def from_dict(cls, keys: Mapping[str, Any], **others: Any) -> Self:
        """A config of these keys."""
        return cls(**{name: value for name, value in {**keys, **others}.items() if name != "model_type"})

    @classmethod
    def from_json_file(cls, path: str | Path) -> Self:
        """The config of a JSON file. Raises: ConfigError: it is no JSON object."""
        return cls.from_dict(read_json_object(as_path(path), ConfigError))

    @classmethod
    def register_for_auto_class(cls, *_: Any) -> None:
        """Raises: UnsupportedError: code is not saved next to weights."""
        raise UnsupportedError(NO_CODE.format(cls.__name__))

    def to_dict(self) -> dict[str, Any]:
        """A plain dict of the keys, with the model type."""
        return {**self, "model_type": type(self).model_type or self.get("model_type", "")}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` into a folder."""
        ModelConfig(self.to_dict()).save_pretrained(folder)
