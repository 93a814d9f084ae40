"""`HfArgumentParser`: options of a script from dataclasses, and their values from the command line or a file."""

from __future__ import annotations

import argparse
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from glassformer.errors import ConfigError, nearest
from glassformer.files import as_path, read_bytes, read_json_object, safe_repr
from glassformer.files.yaml_text import MAX_BYTES, parse_yaml
from glassformer.hf.trainer.arguments import INSTEAD, OLD_NAMES, UNUSED, TrainingArguments

YES, NO = frozenset("yes true t y 1".split()), frozenset("no false f n 0".split())


class HfArgumentParser(argparse.ArgumentParser):
    """An option for each field of dataclasses: `--width 4 --flag --words a b`.

        parser = HfArgumentParser((ModelArguments, TrainingArguments))
        model_args, training_args = parser.parse_args_into_dataclasses()

    Args:
        dataclass_types: one class or several
        options: of `argparse.ArgumentParser`
    """

    def __init__(self, dataclass_types: Any = None, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.ArgumentDefaultsHelpFormatter)
        super().__init__(**options)
        self.dataclass_types = [dataclass_types] if isinstance(dataclass_types, type) else list(dataclass_types or ())
        for kind in self.dataclass_types:
            hints = get_type_hints(kind)
            for each in _options_of(kind):
                self._add(each, hints[each.name])
            if issubclass(kind, TrainingArguments):
                for name in sorted({*UNUSED, *OLD_NAMES, *INSTEAD}):
                    self.add_argument(f"--{name}", nargs="?", const=True, default=argparse.SUPPRESS)

    def _add(self, each: Field[Any], kind: Any) -> None:
        """One field as an option."""
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        options: dict[str, Any] = {"help": each.metadata.get("help"), "required": default is MISSING}
        if default is not MISSING:
            options["default"] = default
        of = [x for x in get_args(kind) if x is not type(None)]
        if get_origin(kind) in (Union, types.UnionType):
            kind = of[0] if len(of) == 1 else next((x for x in (float, int) if x in of), str)
            of = list(get_args(kind))
        if kind is bool:
            options |= {"type": _flag, "nargs": "?", "const": True, "required": False}
            options.setdefault("default", False)
            if default is True:
                names = {f"--no_{each.name}", f"--no-{each.name.replace('_', '-')}"}
                self.add_argument(*sorted(names), action="store_false", dest=each.name, help=argparse.SUPPRESS)
        elif get_origin(kind) in (list, Sequence):
            options |= {"type": of[0] if of else str, "nargs": "+"}
        elif get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
            values = of if get_origin(kind) is Literal else [x.value for x in kind]
            options |= {"type": type(values[0]), "choices": values}
        else:
            options["type"] = kind if kind in (int, float, str) else str
        self.add_argument(f"--{each.name}", *({f"--{each.name.replace('_', '-')}"} - {f"--{each.name}"}), **options)

    def parse_args_into_dataclasses(
        self,
        args: Sequence[str] | None = None,
        return_remaining_strings: bool = False,
        look_for_args_file: bool = True,
        args_filename: str | None = None,
        args_file_flag: str | None = None,
    ) -> tuple[Any, ...]:
        """An object of each class.

        Args:
            args: instead of the command line's

        Returns: the objects; then what is left, if it was asked for.
        Raises: ConfigError: an option that there is not.
        """
        namespace, rest = self.parse_known_args(args)
        made = [kind(**self._of(kind, vars(namespace))) for kind in self.dataclass_types]
        if rest and not return_remaining_strings:
            raise ConfigError(f"no option is called {', '.join(rest)}{nearest(rest[0], self._option_string_actions)}")
        return (*made, rest) if return_remaining_strings else tuple(made)

    def parse_dict(self, args: Mapping[str, Any], allow_extra_keys: bool = False) -> tuple[Any, ...]:
        """An object of each class, of the values of a dict. Raises: ConfigError: a key that is no option."""
        taken = [self._of(kind, args) for kind in self.dataclass_types]
        if not allow_extra_keys and (unknown := [name for name in args if not any(name in each for each in taken)]):
            raise ConfigError(f"no option is called {', '.join(map(safe_repr, unknown[:5]))}")
        return tuple(kind(**values) for kind, values in zip(self.dataclass_types, taken, strict=True))

    def parse_json_file(self, json_file: str | Path, allow_extra_keys: bool = False) -> tuple[Any, ...]:
        """The same of a JSON file."""
        return self.parse_dict(read_json_object(as_path(json_file, "json_file"), ConfigError), allow_extra_keys)

    def parse_yaml_file(self, yaml_file: str | Path, allow_extra_keys: bool = False) -> tuple[Any, ...]:
        """The same of a YAML file."""
        path = as_path(yaml_file, "yaml_file")
        values = parse_yaml(read_bytes(path, ConfigError, MAX_BYTES), str(path))
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: must hold names and values; got {safe_repr(values)}")
        return self.parse_dict(values, allow_extra_keys)

    @staticmethod
    def _of(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
        names = {each.name for each in _options_of(kind)}
        names |= {*UNUSED, *OLD_NAMES, *INSTEAD} if issubclass(kind, TrainingArguments) else set()
        return {name: value for name, value in values.items() if name in names}


def _options_of(kind: Any) -> Iterable[Field[Any]]:
    """The fields that a class is made with; a mapping is no option."""
    return [each for each in fields(kind) if each.init and each.default_factory is not dict]


def _flag(value: str) -> bool:
    if value.lower() in YES | NO:
        return value.lower() in YES
    raise argparse.ArgumentTypeError(f"{value!r} is neither true nor false")
