"""What callers hand in, checked once, at the edge: inside, every tensor has the shape and the range it should have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch
from glassformer.errors import ConfigError, DataError
from glassformer.files import shown
from glassformer.text.chat import is_chat

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


def dtype_of(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """A floating dtype, by its name too; None stays None."""
    found = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if dtype is not None and found not in DTYPES.values():
        raise ConfigError(f"dtype is {shown(dtype)}; allowed: {', '.join(DTYPES)}")
    return found


def device_of(device: torch.device | str | None) -> torch.device:
    """A device that is there; None = the CPU, "auto" = the accelerator if there is one."""
    if device == "auto":
        found = torch.accelerator.current_accelerator()
        return found if found is not None and torch.accelerator.is_available() else torch.device("cpu")
    try:
        chosen = torch.device("cpu" if device is None else device)
        torch.empty(0, device=chosen)  # a device that torch knows may not be there
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            f"device is {shown(device)}, which this machine or this build of torch does not have; "
            "'auto' takes the accelerator if there is one, 'cpu' is everywhere"
        ) from error
    return chosen


def prompts_of(prompt: Any) -> list[Any]:
    """One text or conversation, or several, as a list; whether each is one, the tokenizer says."""
    if isinstance(prompt, str) or is_chat(prompt):
        return [prompt]
    if isinstance(prompt, (bytes, Mapping)) or not isinstance(prompt, Iterable):
        raise DataError(
            f"the prompt is {shown(prompt)}; it must be a text or a conversation, several of them, or a tensor of "
            "token ids [B, T]"
        )
    return list(prompt)


def refuse(call: str, refused: Mapping[str, Any]) -> None:
    """Arguments that a call does not take, with a hint for those that the reference library does."""
    hints = {
        "output_attentions": "Tape('attn.probs')",
        "output_hidden_states": "Tape('embed.out', 'blocks.*.out')",
    }
    for name, value in refused.items():
        if name in hints and not value:
            continue
        hint = f"; ask for the tensors you want: tape={hints[name]}" if name in hints else ""
        raise ConfigError(f"{call}(…) takes no {shown(name)}{hint}")


def check_ids(name: str, ids: Tensor, count: int | None, like: Tensor | None = None) -> None:
    """Whole numbers [B, T], from 0 to `count` - 1 where there is an end; of the shape of `like`, or one row of it."""
    if not isinstance(ids, Tensor):
        raise DataError(
            f"{name} is {type(ids).__name__}; it must be a tensor [B, T]: torch.tensor([[…], […]])"
        )
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise DataError(
            f"{name} is {str(ids.dtype).removeprefix('torch.')} of shape {list(ids.shape)}; it must be int64 or int32 "
            "of shape [B, T]: one text is a row, ids[None]; other whole numbers become ids.long()"
        )
    if like is None and ids.shape[1] == 0:
        raise DataError(f"{name} has shape {list(ids.shape)}, no token at all; give at least one")
    if like is not None and (ids.shape[1] != like.shape[1] or ids.shape[0] not in (1, like.shape[0])):
        raise DataError(
            f"{name} has shape {list(ids.shape)}; it must be that of input_ids, {list(like.shape)}"
        )
    if ids.numel():
        least, most = map(int, ids.aminmax())
        if least < 0 or (count is not None and most >= count):
            allowed = "0 up" if count is None else f"0 to {count - 1}"
            raise DataError(f"{name} holds numbers from {least} to {most}; allowed: {allowed}")


def check_segments(ids: Tensor, counts: int | tuple[int, ...], like: Tensor | None) -> None:
    """Segment ids [B, T]; where they have several columns [B, T, columns], each with its own number of kinds."""
    if isinstance(counts, int):
        check_ids("token_type_ids", ids, counts, like=like)
        return
    if not isinstance(ids, Tensor) or ids.dim() != 3 or ids.shape[2] != len(counts):
        got = list(ids.shape) if isinstance(ids, Tensor) else type(ids).__name__
        raise DataError(f"token_type_ids is {got}; it must be a tensor of shape [B, T, {len(counts)}]")
    for column, count in enumerate(counts):
        check_ids(f"column {column} of token_type_ids", ids[..., column], count, like=like)


def check_numbers(name: str, x: Tensor, shape: str) -> None:
    """Floating numbers with as many dimensions as `shape` names; the part that reads them knows their sizes."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() != shape.count(",") + 1:
        got = f"{x.dtype} of shape {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise DataError(
            f"{name} is {got}; it must be a tensor of floats {shape}; model.processor(…) makes it"
        )
    if not x.numel():
        raise DataError(f"{name} has shape {list(x.shape)}, nothing at all; give at least one")


def check_read(batch: Batch, read: tuple[str, ...], family: str) -> None:
    """A model is given only what it reads."""
    masks = {"decoder_keep", "visual_keep"}
    given = [field.name for field in fields(batch) if getattr(batch, field.name) is not None]
    if surplus := set(given) - set(read) - masks:
        raise ConfigError(
            f"a {family!r} model reads {', '.join(read)}; it takes no {', '.join(sorted(surplus))}"
        )


def keep_of(name: str, mask: Tensor | None, ids: Tensor | None, cache: KeyValueCache | None) -> Tensor | None:
    """An attention mask [B, S] as keep [B, 1, S]; None where it hides nothing."""
    if mask is None or ids is None:
        return None
    wanted = [ids.shape[0], (0 if cache is None else cache.length) + ids.shape[1]]
    if not isinstance(mask, Tensor) or list(mask.shape) != wanted:
        got = f"has shape {list(mask.shape)}" if isinstance(mask, Tensor) else f"is {type(mask).__name__}"
        raise ConfigError(f"{name} {got}; it must be a tensor of shape {wanted}, past and present tokens")
    keep = mask.bool()
    if mask.dtype != torch.bool and not bool((mask == keep).all()):
        raise ConfigError(
            f"{name} holds other numbers than 1 (text) and 0 (padding); a mask that is added to scores "
            "becomes one by mask == 0"
        )
    return None if bool(keep.all()) else keep[:, None]


def check_prompts_end(keep: Tensor) -> None:
    """A prompt is continued from the end of its row, so padding stands on the left. keep: [B, 1, T] bool"""
    ends = keep[:, 0, -1]
    if not bool(ends.all()):
        row = int(ends.long().argmin())
        wrong = "is padded on the right; pad on the left" if bool(keep[row].any()) else "is empty"
        raise DataError(f"prompt {row} {wrong}: a continuation begins where the row ends")


def check_room(
    prompt_tokens: int, new_tokens: int, room: int | None, *, reads_all: bool = False, who: str = "the model"
) -> None:
    """The position table must hold prompt and continuation; the last new token is not read, unless `reads_all`."""
    most = 0 if room is None else room - prompt_tokens + (0 if reads_all else 1)
    if room is not None and new_tokens > most:
        raise DataError(
            f"the prompt has {prompt_tokens} tokens and max_new_tokens is {new_tokens}, {who} has {room} "
            f"positions; shorten the prompt, or ask for at most {max(0, most)} new tokens; "
            "truncation=True shortens a prompt"
        )
