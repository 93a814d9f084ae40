"""`adapter_config.json` of PEFT: the rank and alpha of each layer, the base model and its task, and what is refused.

{"peft_type": "LORA", "base_model_name_or_path": "org/name", "task_type": "CAUSAL_LM",
 "r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"], …}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import is_int, is_number, read_json_object, safe_repr
from glassformer.models import LABEL_TASKS

CONFIG = "adapter_config.json"

READ = frozenset(
    "peft_type r lora_alpha lora_dropout bias use_rslora rank_pattern alpha_pattern base_model_name_or_path revision "
    "task_type init_lora_weights".split()
)
UNUSED = frozenset(
    # What was trained is known by the tensors; the others say how it came about.
    "auto_mapping peft_version inference_mode target_modules modules_to_save exclude_modules layers_to_transform "
    "layers_pattern fan_in_fan_out ephemeral_gpu_offload runtime_config loftq_config eva_config corda_config "
    "lora_ga_config qalora_group_size ensure_weight_tying megatron_core".split()
)
BOUNDS = {"r": (1, 1_000_000), "lora_alpha": (0, 1_000_000_000), "lora_dropout": (0, 1)}
"""From the least to the largest that a config may hold: no rank of a real layer, and nothing that a float cannot be."""
UNCHANGED = (True, False, None, "gaussian", "orthogonal", "eva", "mica")
"""Initial values of `init_lora_weights` under which the base model stays as it is."""
SUBTRACTED = ("pissa", "olora")
"""Those that take a part out of the base weights, which can be found again."""

TASK_TYPES = {
    "text-generation": "CAUSAL_LM",
    "translation": "SEQ_2_SEQ_LM",
    "text-classification": "SEQ_CLS",
    "token-classification": "TOKEN_CLS",
    "question-answering": "QUESTION_ANS",
    "feature-extraction": "FEATURE_EXTRACTION",
}
WITH_HEAD = (*LABEL_TASKS, "question-answering")


@dataclass(frozen=True)
class AdapterConfig:
    """What the config of a folder of adapters says.

    path: of the file
    values: its content
    """

    path: Path
    values: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> AdapterConfig:
        """Read and check it. Raises: ConfigError: what is wrong. UnsupportedError: what is not computed here."""
        config = cls(folder / CONFIG, read_json_object(folder / CONFIG, ConfigError))
        config._check_kind()
        config._check_numbers()
        return config

    def rank(self, layer: str) -> int:
        """r of a layer of the checkpoint."""
        return int(self._of_layer("rank_pattern", layer, self.values["r"]))

    def scale(self, layer: str) -> float:
        """What the update of a layer is multiplied with: α/r, or α/√r (rsLoRA)."""
        alpha = float(self._of_layer("alpha_pattern", layer, self.values["lora_alpha"]))
        rank = self.rank(layer)
        return alpha / (rank**0.5 if self.values.get("use_rslora") else rank)

    @property
    def dropout(self) -> float:
        return float(self.values.get("lora_dropout", 0.0))

    @property
    def start(self) -> str:
        """The way in which A and B began, in small letters: "pissa", "olora" or another."""
        return str(self.values.get("init_lora_weights")).lower()

    @property
    def base(self) -> str | None:
        """The name or the folder of the base model, where the file says it."""
        base = self.values.get("base_model_name_or_path")
        if not (base is None or isinstance(base, str)):
            raise ConfigError(f"{self.path}: base_model_name_or_path is {safe_repr(base)}; it must be a name")
        return base or None

    @property
    def task(self) -> str | None:
        """The task of the base model's head, where the file says it."""
        return next((task for task, kind in TASK_TYPES.items() if kind == self.values.get("task_type")), None)

    def _of_layer(self, patterns: str, layer: str, default: Any) -> Any:
        """The value of the first pattern that a layer's name ends with: a name of PEFT's patterns may be its end."""
        given = self.values.get(patterns) or {}
        return next((value for name, value in given.items() if f".{layer}".endswith(f".{name}")), default)

    def _check_kind(self) -> None:
        """Check that it is LoRA as it is computed here. Raises: UnsupportedError."""
        values, where = self.values, self.path
        if values.get("peft_type") != "LORA":
            raise UnsupportedError(
                f"{where}: peft_type is {safe_repr(values.get('peft_type'))}; supported: 'LORA'. Others can be merged "
                "in PEFT, where that is possible: model.merge_and_unload().save_pretrained(folder)"
            )
        for key, value in values.items():
            if value and key not in READ | UNUSED:
                raise UnsupportedError(f"{where}: {key} = {safe_repr(value)} is not supported")
        start = values.get("init_lora_weights")
        if start not in UNCHANGED and self.start not in SUBTRACTED:
            raise UnsupportedError(
                f"{where}: init_lora_weights = {safe_repr(start)} changes the base model in a way that the file does "
                f"not tell; supported: {', '.join(SUBTRACTED)}; or save it in PEFT with "
                "path_initial_model_for_weight_conversion"
            )
        if values.get("bias", "none") != "none":
            raise UnsupportedError(f"{where}: bias = {safe_repr(values['bias'])} is not supported; supported: 'none'")

    def _check_numbers(self) -> None:
        """Check ranks, alphas and the dropout. Raises: ConfigError; UnsupportedError: a regular expression."""
        values, where = self.values, self.path
        numbers = {"r": values.get("r"), "lora_alpha": values.get("lora_alpha")}
        numbers["lora_dropout"] = values.get("lora_dropout", 0.0)
        for pattern, kind in (("rank_pattern", "r"), ("alpha_pattern", "lora_alpha")):
            given = values.get(pattern) or {}
            if not isinstance(given, dict):
                raise ConfigError(f"{where}: {pattern} is {safe_repr(given)}; it must map names of layers to numbers")
            if regex := next((name for name in given if not re.fullmatch(r"[\w.-]+", name)), None):
                raise UnsupportedError(
                    f"{where}: {pattern} has the regular expression {safe_repr(regex)}; supported: names of layers, or "
                    "their ends"
                )
            numbers |= {f"{kind} of {name}": value for name, value in given.items()}
        for key, value in numbers.items():
            kind = key.partition(" ")[0]
            least, most = BOUNDS[kind]
            if not (is_number(value) and least <= value <= most) or (kind == "r" and not is_int(value)):
                raise ConfigError(f"{where}: {key} is {safe_repr(value)}; it must be a number from {least} to {most}")


def common(values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The most frequent value, and what differs from it: as a rank and a rank pattern say it."""
    most = Counter(values.values()).most_common(1)[0][0]
    return most, {name: value for name, value in values.items() if value != most}


def base_name(folder: Path | None) -> tuple[str | None, str | None]:
    """The name of a base model that a config records, and its revision: of a snapshot in the Hub cache the Hub's."""
    if folder is None:
        return None, None
    match = re.search(r"models--([^/]+?)(?:--([^/]+))?/snapshots/([0-9a-f]{40})$", folder.absolute().as_posix())
    if match is None:
        return str(folder.absolute()), None
    return "/".join(part for part in match.groups()[:2] if part), match[3]
