"""Hooks on parts of a model, by the reference library's paths: they see what its parts are given and give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import glassformer
from glassformer import Model, UnsupportedError
from glassformer.hf.reference_model import as_reference
from glassformer.models import FAMILIES

IDS = torch.tensor([[5, 6, 7, 8]])


def both(name: str, folder: Path) -> tuple[Model, Any]:
    kind = getattr(transformers, name)
    family = next(family for family in FAMILIES.values() if name in family.architectures)
    torch.manual_seed(0)
    theirs = kind(kind.config_class.from_dict(dict(family.tiny))).eval()
    theirs.save_pretrained(folder)
    return as_reference(glassformer.load(folder)), theirs


def part(model: Any, path: str) -> Any:
    for step in path.split("."):
        model = model[int(step)] if step.isdigit() else getattr(model, step)
    return model


def first(x: Any) -> Tensor:
    """A part's tensor: itself, or the first of a tuple or an output."""
    return x if isinstance(x, Tensor) else x[0]


@pytest.mark.parametrize(
    ("name", "refused"),
    {
        "BertForSequenceClassification": ("bert.pooler",),
        "DistilBertForSequenceClassification": (),
        "GPT2LMHeadModel": (),
        "LlamaForCausalLM": (),
        "ModernBertForSequenceClassification": (*(f"model.layers.{i}.mlp.Wi" for i in range(3)), "head"),
        "DebertaForMaskedLM": None,  # layers in tuples
        "T5ForConditionalGeneration": (),
        "BartForConditionalGeneration": (),
    }.items(),
)
def test_every_part_is_given_and_gives_what_the_reference_does(
    name: str, refused: tuple[str, ...] | None, tmp_path: Path
) -> None:
    ours, theirs = both(name, tmp_path)
    inputs = {"input_ids": IDS}
    if theirs.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = IDS[:, :3]
    seen: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    denied = []

    def remember(calls: dict[str, Any], path: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], output: Any) -> None:
            given = args[0] if args and isinstance(args[0], Tensor) else None
            calls[path] = given, first(output).clone(), isinstance(output, tuple)  # some are changed in place later

        return hook

    for path, module in theirs.named_modules():
        if not path or isinstance(module, nn.ModuleList):
            continue
        module.register_forward_hook(remember(expected, path))
        try:
            at = part(ours, path)
        except AttributeError:  # no parameters: activations, dropout
            continue
        try:
            at.register_forward_hook(remember(seen, path))
        except UnsupportedError:
            denied.append(path)
    with torch.no_grad():
        theirs(**inputs), ours(**inputs)
    assert refused is None or denied == [*refused]
    compared = [path for path in expected if path in seen]
    assert len(compared) > 20
    for path in compared:
        (given, output, in_tuple), (their_given, their_output, theirs_in_tuple) = seen[path], expected[path]
        torch.testing.assert_close(output, their_output, atol=1e-5, rtol=1e-4, msg=path)
        assert in_tuple == theirs_in_tuple, path
        if their_given is not None and "embed_positions" not in path:  # a table, which is given positions here
            torch.testing.assert_close(given, their_given, atol=1e-5, rtol=1e-4, msg=path)


def test_a_hook_replaces_what_a_part_gives_and_is_given(tmp_path: Path) -> None:
    ours, theirs = both("GPT2LMHeadModel", tmp_path)

    def steer(module: Any, args: Any, output: Any) -> Any:
        return (output[0] + 1.5, *output[1:]) if isinstance(output, tuple) else output + 1.5

    def scale(module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return args[0] * 2, *args[1:]

    plain = ours(IDS).logits
    for change in (
        lambda model: model.transformer.h[1].register_forward_hook(steer),
        lambda model: model.transformer.h[0].attn.register_forward_hook(steer),
        lambda model: model.transformer.h[0].mlp.register_forward_pre_hook(scale),
        lambda model: model.transformer.h[2].register_forward_pre_hook(scale),
    ):
        ones, others = change(ours), change(theirs)
        torch.testing.assert_close(ours(IDS).logits, theirs(IDS).logits, atol=1e-4, rtol=1e-4)
        with ones, others:
            assert not torch.equal(ours(IDS).logits, plain)
        assert torch.equal(ours(IDS).logits, plain), "it is removed"


def test_a_hook_replaces_rows_of_a_fused_layer(tmp_path: Path) -> None:
    ours, theirs = both("LlamaForCausalLM", tmp_path)
    for model in (ours, theirs):
        model.model.layers[1].self_attn.v_proj.register_forward_hook(lambda module, args, output: output * 3)
    torch.testing.assert_close(ours(IDS).logits, theirs(IDS).logits, atol=1e-4, rtol=1e-4)


def test_hooks_run_while_a_model_generates(tmp_path: Path) -> None:
    ours, theirs = both("LlamaForCausalLM", tmp_path)
    options: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False}
    ours.generate(IDS, **options)  # prepares its weights
    for model in (ours, theirs):
        model.model.layers[0].register_forward_hook(
            lambda module, args, output: output + torch.linspace(-2, 2, output.shape[-1])
        )
    assert torch.equal(ours.generate(IDS, **options), theirs.generate(IDS, **options))


def test_kwargs_and_gradients(tmp_path: Path) -> None:
    ours, theirs = both("BertForSequenceClassification", tmp_path)
    gradients: dict[str, list[Tensor]] = {"ours": [], "theirs": []}
    for name, model in (("ours", ours), ("theirs", theirs)):
        layer = model.bert.encoder.layer[1]
        layer.register_full_backward_hook(lambda module, given, made, name=name: gradients[name].append(first(made)))
        layer.register_forward_hook(lambda module, args, kwargs, output: None, with_kwargs=True)
        model(IDS).logits[0, 1].backward()
    torch.testing.assert_close(gradients["ours"], gradients["theirs"], atol=1e-5, rtol=1e-4)


def test_a_part_is_initialised_anew_and_put_into_evaluation_mode(tmp_path: Path) -> None:
    ours, theirs = both("BertForSequenceClassification", tmp_path)
    for model in (ours, theirs):
        model.train()
        model.bert.eval()
        for module in model.bert.encoder.layer[2].modules():
            if isinstance(module, nn.Linear):
                module.weight.data.fill_(0.25)
        norms = [module for module in model.bert.encoder.layer[1].modules() if isinstance(module, nn.LayerNorm)]
        model.bert.encoder.layer[1].apply(lambda module, norms=norms: module in norms and module.bias.data.fill_(3.0))
        assert model.training and not model.bert.training and not model.bert.embeddings.training
    state = theirs.state_dict()
    for path in ("encoder.layer.2.attention.self.key.weight", "encoder.layer.2.output.dense.weight",
                 "encoder.layer.1.output.LayerNorm.bias", "encoder.layer.1.output.dense.weight"):  # fmt: skip
        assert torch.equal(part(ours.bert, path), state[f"bert.{path}"]), path


def test_what_hooks_cannot_do(tmp_path: Path) -> None:
    ours, _ = both("BertForSequenceClassification", tmp_path)
    with pytest.raises(UnsupportedError, match="no module of ours computes whole"):
        ours.bert.pooler.register_forward_hook(print)
    handle = ours.bert.register_forward_hook(lambda module, args, output: output[0] + 1)
    with pytest.raises(UnsupportedError, match="a hook on the body replaces nothing"), handle:
        ours(IDS)
    with pytest.raises(UnsupportedError, match="register_full_backward_hook of 'bert'"):
        ours.bert.register_full_backward_hook(print)
    with pytest.raises(UnsupportedError, match=r"encoder\.layer = … would change nothing"):
        ours.bert.encoder.layer = nn.ModuleList([nn.Identity()])
    with pytest.raises(UnsupportedError, match="num_hidden_layers"):
        del ours.bert.encoder.layer[:]


def test_layers_are_dropped_as_in_the_reference(tmp_path: Path) -> None:
    ours, theirs = both("BertForSequenceClassification", tmp_path)
    for model in (ours, theirs):
        del model.bert.encoder.layer[2:]
        model.bert.encoder.layer = nn.ModuleList([model.bert.encoder.layer[1], model.bert.encoder.layer[0]])
    with torch.no_grad():
        torch.testing.assert_close(ours(IDS).logits, theirs(IDS).logits, atol=1e-5, rtol=1e-4)
    ours.save_pretrained(tmp_path / "fewer")
    assert len(glassformer.load(tmp_path / "fewer").network.blocks) == ours.config.num_hidden_layers == 2
