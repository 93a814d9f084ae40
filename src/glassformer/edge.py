"""Input validation: what callers pass in is checked once, here; inside, every tensor has the right shape and range."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor

from glassformer.core.cache import KeyValueCache
from glassformer.core.checks import any_true
from glassformer.core.flow import Batch, EncoderOutput, Flow, Tape
from glassformer.core.heads import first_token
from glassformer.core.masks import Packing
from glassformer.errors import ConfigError, DataError, UnknownOptionError
from glassformer.files import safe_repr
from glassformer.models import Network
from glassformer.text.tokenizer import Tokenizer

INSTEAD = {
    "decoder_inputs_embeds": "; give decoder_input_ids, and replace what the decoder's first block reads with a tape: "
    "tape=Tape(edit={'decoder.embed.out': vectors})",
    "head_mask": "; replace what a head gives with a tape: tape=Tape(edit={'blocks.0.attn.probs': lambda x: …})",
}
"""Arguments of the reference library that are not taken → what to write instead."""


def reject_arguments(call: str, arguments: Mapping[str, Any]) -> None:
    """Raises: ConfigError: there are unknown arguments; with a hint for those of the reference library."""
    for name, value in arguments.items():
        if name in INSTEAD and (value is None or value is False):
            continue
        raise UnknownOptionError(f"{call}(…) takes no {safe_repr(name)}{INSTEAD.get(name, '')}")


def _as_ids(given: object) -> str:
    """How texts, or lists of numbers, become a tensor of ids."""
    listed = given if isinstance(given, (list, tuple)) else [given]
    texts = any(isinstance(each, str) for each in listed)
    called = (
        "model(**model.tokenizer(text, return_tensors='pt')); model.encode(text) and model.inspect(text) take texts"
    )
    return called if texts else "torch.tensor([[…], […]])"


def check_ids(name: str, ids: Tensor, count: int | None, like: Tensor | None = None) -> None:
    """Check integers [B, T], from 0 to `count` - 1 (None = no limit), of the shape of `like`, or one row of it."""
    if not isinstance(ids, Tensor):
        raise DataError(f"{name} is {type(ids).__name__}; it must be a tensor [B, T]: {_as_ids(ids)}")
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise DataError(
            f"{name} is {str(ids.dtype).removeprefix('torch.')} of shape {list(ids.shape)}; it must be int64 or int32 "
            "of shape [B, T]: one text is a row, ids[None]; other integers become ids.long()"
        )
    if like is None and ids.shape[1] == 0:
        raise DataError(f"{name} has shape {list(ids.shape)}, which holds no token; give at least one")
    if like is not None and (ids.shape[1] != like.shape[1] or ids.shape[0] not in (1, like.shape[0])):
        raise DataError(f"{name} has shape {list(ids.shape)}; it must be that of input_ids, {list(like.shape[:2])}")
    if not torch.compiler.is_exporting() and ids.numel():
        smallest, largest = map(int, ids.aminmax())
        if smallest < 0 or (count is not None and largest >= count):
            allowed = "0 or more" if count is None else f"0 to {count - 1}"
            raise DataError(f"{name} holds numbers from {smallest} to {largest}; allowed: {allowed}")


def check_codebook_ids(name: str, ids: Tensor, books: int, count: int) -> None:
    """Check ids [B, T, K], one of each of K codebooks of `count` ids."""
    if not isinstance(ids, Tensor) or ids.dim() != 3 or ids.shape[2] != books:
        got = list(ids.shape) if isinstance(ids, Tensor) else type(ids).__name__
        raise DataError(
            f"{name} is {got}; it must be a tensor of shape [B, T, {books}], an id of each codebook at every position: "
            f"CodePattern(kind='delayed', books={books}, entries=…).tokens(codes)[None]"
        )
    for book in range(books):
        check_ids(f"codebook {book} of {name}", ids[..., book], count)


def check_token_types(ids: Tensor, counts: int | tuple[int, ...], like: Tensor | None) -> None:
    """Check token type (segment) ids [B, T]; of tables [B, T, columns], where each column has its number of types."""
    if isinstance(counts, int):
        check_ids("token_type_ids", ids, counts, like=like)
        return
    if not isinstance(ids, Tensor) or ids.dim() != 3 or ids.shape[2] != len(counts):
        got = list(ids.shape) if isinstance(ids, Tensor) else type(ids).__name__
        raise DataError(f"token_type_ids is {got}; it must be a tensor of shape [B, T, {len(counts)}]")
    for column, count in enumerate(counts):
        check_ids(f"column {column} of token_type_ids", ids[..., column], count, like=like)


def check_numbers(name: str, x: Tensor, shape: str) -> None:
    """Check floats with as many dimensions as `shape` names; the module that reads them checks the sizes."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() != shape.count(",") + 1:
        got = f"{x.dtype} of shape {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise DataError(f"{name} is {got}; it must be a tensor of floats {shape}; model.processor(…) makes it")
    if not x.numel():
        raise DataError(f"{name} has shape {list(x.shape)}, which is empty; give at least one")


def keep_of(name: str, mask: Tensor | None, ids: Tensor | None, cache: KeyValueCache | None) -> Tensor | None:
    """Turn an attention mask [B, S] into keep [B, 1, S] bool; None if no token is masked."""
    if mask is None or ids is None:
        return None
    expected = [ids.shape[0], (0 if cache is None else cache.length) + ids.shape[1]]
    if not isinstance(mask, Tensor) or list(mask.shape) != expected:
        got = f"has shape {list(mask.shape)}" if isinstance(mask, Tensor) else f"is {type(mask).__name__}"
        raise ConfigError(f"{name} {got}; it must be a tensor of shape {expected}, past and present tokens")
    keep = mask.bool()
    if mask.dtype != torch.bool and any_true(mask != keep):
        raise ConfigError(
            f"{name} holds other numbers than 1 (text) and 0 (padding); a mask that is added to scores "
            "becomes one by mask == 0"
        )
    # A program that is exported with a mask must read masks that hide something, too.
    recorded = torch.compiler.is_exporting() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    no_padding = not recorded and bool(keep.all())
    return None if no_padding else keep[:, None]


FEATURES = {
    "input_values": "[B, samples]",
    "input_features": "[B, mel bins, frames]",
    "pixel_values": "[B, channels, height, width]",
    "visual_feats": "[B, regions, width]",
    "visual_pos": "[B, regions, 4]",
}
"""Inputs of floats, with their shapes."""


TOKEN_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")


class ModelInputs(TypedDict, total=False):
    """The tensors that networks read besides `TOKEN_INPUTS`, by the names of Hugging Face transformers.

    inputs_embeds: in the place of input_ids, what `get_input_embeddings()` makes of them, or vectors like these.
        [B, T, width]
    encoder_outputs: in the place of the source, an encoder's output, or its states first in a tuple
    """

    inputs_embeds: Tensor | None
    encoder_outputs: Any
    bbox: Tensor | None
    decoder_input_ids: Tensor | None
    decoder_attention_mask: Tensor | None
    input_values: Tensor | None
    input_features: Tensor | None
    pixel_values: Tensor | None
    visual_feats: Tensor | None
    visual_pos: Tensor | None
    visual_attention_mask: Tensor | None


class CallInputs(ModelInputs, total=False):
    """What a model's call takes besides its first arguments: inputs of the network, and options of the call.

    past_key_values: as `cache`
    use_cache: begin a cache, which the output holds; None = as the config says
    output_hidden_states, output_attentions: fill these fields; None = as the config says
    return_dict: False = the output as a tuple
    start_positions, end_positions, next_sentence_label, sentence_order_label: labels of heads that take several
    """

    past_key_values: KeyValueCache | None
    use_cache: bool | None
    output_hidden_states: bool | None
    output_attentions: bool | None
    return_dict: bool | None
    start_positions: Tensor | None
    end_positions: Tensor | None
    next_sentence_label: Tensor | None
    sentence_order_label: Tensor | None


def read_call(
    network: Network,
    family: str,
    given: Mapping[str, Any],
    *,
    cache: KeyValueCache | None,
    tape: Tape | None,
) -> tuple[Batch, Flow]:
    """Check the arguments of a model's call, and turn them into what the network reads.

    Args:
        family: the model type, for messages
        given: `TOKEN_INPUTS` and `ModelInputs`, others are refused
    Raises: DataError: ids out of range, or empty inputs. ConfigError: unread inputs, or shapes that do not fit.
    """
    first = network.READS[0]  # what an argument without a name is
    if "input_ids" not in network.READS and given.get("input_ids") is not None and given.get(first) is None:
        given = {**given, "input_ids": None, first: given["input_ids"]}
    known = {*TOKEN_INPUTS, *ModelInputs.__annotations__}
    reject_arguments("model", {name: x for name, x in given.items() if name not in known})
    given = _with_vectors(network, given)
    _check_inputs(network, family, given)
    if tape is not None and not isinstance(tape, Tape):
        raise ConfigError(f"tape is {safe_repr(tape)}; it must be a Tape, such as Tape('attn.probs')")
    ids, decoder_ids = given.get("input_ids"), given.get("decoder_input_ids")
    regions, regions_mask = given.get("visual_feats"), given.get("visual_attention_mask")
    batch = Batch(
        input_ids=ids,
        token_type_ids=given.get("token_type_ids"),
        bbox=given.get("bbox"),
        decoder_input_ids=decoder_ids,
        decoder_keep=keep_of("decoder_attention_mask", given.get("decoder_attention_mask"), decoder_ids, cache),
        visual_keep=keep_of("visual_attention_mask", regions_mask, regions, None),
        **{name: given.get(name) for name in FEATURES},
    )
    network.check_reads(batch, family)
    states = encoder_states(network, given.get("encoder_outputs"), family)
    if states is not None and decoder_ids is not None and len(states) not in (1, len(decoder_ids)):
        raise DataError(
            f"encoder_outputs has {len(states)} rows, decoder_input_ids {len(decoder_ids)}; give as many, or 1"
        )
    masked = next((x for x in (states, ids, given.get("input_values")) if x is not None), None)
    past = cache if decoder_ids is None else None  # with a decoder, the cache holds its tokens, not the encoder's
    keep, packing = keep_of("attention_mask", given.get("attention_mask"), masked, past), None
    if keep is None and cache is None and isinstance(ids, Tensor):
        keep, packing = _texts_apart(network, given.get("position_ids"), len(ids))
    return batch, Flow(
        keep=keep,
        packing=packing,
        positions=given.get("position_ids"),
        cache=cache,
        tape=tape and tape.attach(network),
        memory=None if states is None else EncoderOutput(states, keep),
    )


def _texts_apart(network: Network, positions: Tensor | None, rows: int) -> tuple[Tensor | None, Packing | None]:
    """Where the positions of a row begin again, another text begins, which sees nothing of the one before.

    Of causal networks without mask and cache, as in the reference library. Returns: a mask [B, T, T], or of one row
    what packs it; both None where each row is one text.
    """
    if positions is None or torch.compiler.is_exporting() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return None, None
    stacks = network.stacks()
    if list(stacks) != ["text"] or not all(block.attn.pattern.causal for block in stacks["text"]):
        return None, None
    text = (positions.diff(dim=-1) != 1).cumsum(-1)
    if not bool(text.any()):
        return None, None
    text = torch.cat([torch.zeros_like(text[:, :1]), text], dim=-1).expand(rows, -1)
    if rows == 1:
        return None, Packing(tuple(text[0].bincount().tolist()))
    return text[:, :, None] == text[:, None, :], None


def _with_vectors(network: Network, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inputs with vectors of tokens as input_ids, where they are given. [B, T, width]"""
    if (vectors := given.get("inputs_embeds")) is None:
        return given
    if given.get("input_ids") is not None:
        raise ConfigError("input_ids and inputs_embeds are two forms of one input; give one of them")
    check_vectors(network, vectors)
    return {**given, "input_ids": vectors}


def check_vectors(network: Network, vectors: Any) -> None:
    """Raises: DataError: no vectors as wide as those of the network's token embedding. [B, T, width]"""
    width = network.embedding.tokens.embedding_dim
    floats = isinstance(vectors, Tensor) and vectors.is_floating_point()
    if not floats or vectors.dim() != 3 or vectors.shape[-1] != width or not vectors.numel():
        got = f"{vectors.dtype} of shape {list(vectors.shape)}" if isinstance(vectors, Tensor) else safe_repr(vectors)
        raise DataError(
            f"inputs_embeds is {got}; it must be a tensor of floats [B, T, {width}], as "
            "model.get_input_embeddings()(input_ids) is"
        )


def encoder_states(network: Network, outputs: Any, family: str) -> Tensor | None:
    """The states of an encoder's output that is given in the place of the source. [B, S, D]

    Args:
        outputs: an output, the states first in a tuple, or the states; None = none is given
    Raises: ConfigError: the network has no encoder. DataError: no states, or of another width.
    """
    if outputs is None:
        return None
    if "decoder_input_ids" not in network.READS:
        raise ConfigError(f"encoder_outputs are those of an encoder-decoder; a {family!r} model is none")
    states = outputs if isinstance(outputs, Tensor) else outputs[0] if isinstance(outputs, (Mapping, Sequence)) else 0
    if not isinstance(states, Tensor) or states.dim() != 3 or states.shape[-1] != network.width:
        got = f"{list(states.shape)}" if isinstance(states, Tensor) else safe_repr(outputs)
        raise DataError(
            f"encoder_outputs is {got}; it must hold states [B, S, {network.width}], as model.get_encoder()(…) makes"
        )
    return states


def _check_inputs(network: Network, family: str, given: Mapping[str, Any]) -> None:
    vocabularies = {"input_ids": network.vocabulary, "decoder_input_ids": network.target_vocabulary}
    for name, vocabulary in vocabularies.items():
        if (x := given.get(name)) is not None and x is not given.get("inputs_embeds"):
            if network.sizes.codebooks:
                check_codebook_ids(name, x, network.sizes.codebooks, vocabulary)
            else:
                check_ids(name, x, vocabulary or None)
    for name, shape in FEATURES.items():
        if (x := given.get(name)) is not None:
            several = name == "input_values" and network.sizes.channels > 1
            check_numbers(name, x, "[B, channels, samples]" if several else shape)
    ids = given.get("input_ids")
    if (types := given.get("token_type_ids")) is not None:
        if not network.token_types:
            raise ConfigError(f"a {family!r} model has no token types; leave token_type_ids out")
        check_token_types(types, network.token_types, like=ids)
    if (positions := given.get("position_ids")) is not None:
        if ids is None:
            raise ConfigError("position_ids are the positions of tokens; give input_ids too")
        check_ids("position_ids", positions, network.max_tokens, like=ids)


def warn_if_marker_missing(
    network: Network, task: str, tokenizer: Tokenizer | None, ids: Tensor | None, flow: Flow
) -> None:
    """Warn if the head reads the first token, and that is not the special token it was trained on ([CLS])."""
    head = network.head
    if ids is None or tokenizer is None or head is None or not head.reads_first_token:
        return
    if torch.compiler.is_compiling():  # a program that is exported looks at no values
        return
    marker = tokenizer.cls_token_id
    if marker is not None and "logits" in head.FIELDS and bool((first_token(ids, flow) != marker).any()):
        warnings.warn(
            f"the {task} head reads the first token, which should be {tokenizer.cls_token!r}; "
            "encode texts with add_special_tokens=True",
            stacklevel=3,
        )


def check_prompts_end(keep: Tensor) -> None:
    """Check that prompts are padded on the left, so that rows are continued at their end.

    Args:
        keep: [B, 1, T] bool
    """
    ends = keep[:, 0, -1]
    if not bool(ends.all()):
        row = int(ends.long().argmin())
        wrong = "is padded on the right; pad on the left" if bool(keep[row].any()) else "is empty"
        raise DataError(f"prompt {row} {wrong}: a continuation begins where the row ends")


def check_room(
    prompt_tokens: int, new_tokens: int, limit: int | None, *, reads_all: bool = False, who: str = "the model"
) -> None:
    """Check that prompt and new tokens fit the model's maximum length; the last one is not read, unless `reads_all`."""
    remaining = 0 if limit is None else limit - prompt_tokens + (0 if reads_all else 1)
    if limit is not None and new_tokens > remaining:
        raise DataError(
            f"the prompt has {prompt_tokens} tokens and max_new_tokens is {new_tokens}, {who} has {limit} "
            f"positions; shorten the prompt, or ask for at most {max(0, remaining)} new tokens; "
            "truncation=True shortens a prompt"
        )
