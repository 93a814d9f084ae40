"""Numerical parity with the reference library, stage by stage: whether activations agree, and where they first differ.

    ids ─┬─ ours ──────  embed.out │ blocks.0.attn.out │ … │ blocks.0.out │ … │ final │ logits
         │                   ↕              ↕                      ↕             ↕       ↕
         └─ reference    embeddings │ output projection│ … │    block     │ … │ body  │ head

Ours are taps; theirs are captured by hooks on the modules that the weight names of the family point to, so that a new
family needs nothing here. In fp32, where rounding hides small errors, and in fp64, where it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.flow import Batch, Flow, Tape
from glassformer.errors import DataError, GlassformerError, UnsupportedError, import_optional
from glassformer.evaluation.reference import fp64_arithmetic, reference_model
from glassformer.hub import resolve
from glassformer.model import Model, load
from glassformer.models import Network
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table
from glassformer.weights.names import WeightNames
from glassformer.weights.read import open_checkpoint

TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-9}
"""Tolerance of a stage in each precision, absolute or relative to its largest number."""
PRECISIONS = {torch.float32: "fp32", torch.float64: "fp64"}

BUILDING_BLOCK = re.compile(r"(?:.*\.)?blocks\.\d+")


# ---------------------------------------------------------------------------------------------- cases and results


@dataclass(frozen=True, kw_only=True)
class ParityCase:
    """One batch for both models, padded on the right; `left`: for ours it is padded on the left.

    ids: [B, T]
    keep: False where ids are padding. [B, T] bool
    token_types: token_type_ids. [B, T]

    Differs: the reference counts and pools padding on the left, unless it gets positions. So it always gets texts
    padded on the right, and the visible tokens of both are compared.
    """

    name: str
    ids: Tensor
    keep: Tensor
    token_types: Tensor | None = None
    left: bool = False

    def padded_left(self) -> ParityCase:
        """The same rows with their padding on the left."""
        order = self.keep.int().argsort(dim=1, stable=True)  # padding first, texts in order
        types = None if self.token_types is None else self.token_types.gather(1, order)
        ids, keep = self.ids.gather(1, order), self.keep.gather(1, order)
        return ParityCase(name=self.name, ids=ids, keep=keep, token_types=types)


@dataclass(frozen=True)
class StageDifference(Record, keys=("stage", "absolute", "relative", "tolerance", "within")):
    """The difference of two tensors of one stage.

    absolute: the largest difference
    relative: that, as a part of the reference's largest number
    """

    stage: str
    absolute: float
    relative: float
    tolerance: float

    @property
    def within(self) -> bool:
        """Whether the difference is within the tolerance."""
        return min(self.absolute, self.relative) <= self.tolerance  # False for NaN


@dataclass(frozen=True)
class ParityRun:
    """The differences of all stages of one input in one precision, in the order of computation."""

    precision: str
    input: str
    stages: list[StageDifference]


@dataclass(frozen=True)
class FirstDifference:
    """The earliest stage beyond its tolerance."""

    precision: str
    input: str
    stage: str
    absolute: float
    relative: float
    tolerance: float


@dataclass(frozen=True, repr=False)
class ParityReport(
    Report, kind="parity", keys=("architecture", "folder", "reference", "equal", "first", "runs", "notes")
):
    """Differences of all stages, inputs and precisions.

    notes: remarks on the reference
    folder, architecture, reference: what was compared with which library
    """

    runs: list[ParityRun]
    notes: list[str] = field(default_factory=list)
    folder: str = ""
    architecture: str = ""
    reference: str = ""

    @property
    def equal(self) -> bool:
        """Whether all stages are within their tolerance."""
        return self.first is None

    @property
    def first(self) -> FirstDifference | None:
        """The earliest stage beyond its tolerance, of all runs; None if none is."""
        beyond = [
            (order, FirstDifference(run.precision, run.input, x.stage, x.absolute, x.relative, x.tolerance))
            for run in self.runs
            for order, x in enumerate(run.stages)
            if not x.within
        ]
        return min(beyond, key=lambda entry: entry[0])[1] if beyond else None

    @property
    def heading(self) -> str:
        """What was compared, on which inputs."""
        inputs = dict.fromkeys(run.input for run in self.runs)
        return (
            f"{self.architecture} of {self.folder}, compared with {self.reference}\n"
            f"maximum difference over {len(inputs)} inputs: {', '.join(inputs)}"
        )

    def tables(self) -> list[Table]:
        """A row a stage: the largest difference in each precision, absolute and relative."""
        precisions = list(dict.fromkeys(run.precision for run in self.runs))
        headings = ["stage", *(name for precision in precisions for name in (precision, "relative")), "verdict"]
        rows = []
        for stages in zip(*(run.stages for run in self.runs), strict=True):
            row = [stages[0].stage]
            for precision in precisions:
                own = [x for run, x in zip(self.runs, stages, strict=True) if run.precision == precision]
                row += [f"{max(x.absolute for x in own):.1e}", f"{max(x.relative for x in own):.1e}"]
            rows.append([*row, "equal" if all(x.within for x in stages) else "differs"])
        return [Table(headings, rows)]

    def remarks(self) -> Iterator[str]:
        """Whether all stages are equal, or the first that differs; remarks on the reference."""
        limits = {run.precision: run.stages[0].tolerance for run in self.runs}
        allowed = ", ".join(f"{limit:.0e} in {precision}" for precision, limit in limits.items())
        if (x := self.first) is None:
            yield f"equal at every stage (within {allowed}, absolute or relative)"
        else:
            yield (
                f"differs first at {x.stage}, in {x.precision}, on {x.input}: by {x.absolute:.1e}, "
                f"relative {x.relative:.1e} (allowed: {allowed}, absolute or relative)"
            )
        yield from (f"note: {note}" for note in self.notes)


# ---------------------------------------------------------------------------------------------------- the comparison


def compare_stages(
    network: Network,
    reference_of: Callable[[torch.dtype], nn.Module],
    names: WeightNames,
    cases: Sequence[ParityCase],
    *,
    tolerances: Mapping[torch.dtype, float] = TOLERANCES,
    notes: Sequence[str] = (),
) -> ParityReport:
    """Compare a network with a reference model in each precision.

    Args:
        network: ours, in eval mode; it is left in the last precision of `tolerances`.
        reference_of: makes the reference model in a precision; called within `fp64_arithmetic`.
        names: the weight names of the family.
        tolerances: precision → tolerance.
    Returns: the report; `report.first` is the first stage that differs.
    Raises: UnsupportedError: a module that the names point to does not exist in the reference model.
    """
    runs = []
    for dtype, tolerance in tolerances.items():
        network.to(dtype)  # fp32 first: fp64 holds every fp32 weight exactly, and the way back would round
        with fp64_arithmetic(dtype):
            reference = reference_of(dtype).eval()
            for case in cases:
                pairs = compare_case(network, reference, names, case)
                precision = PRECISIONS.get(dtype, str(dtype).removeprefix("torch."))
                stages = [difference(stage, ours, theirs, tolerance) for stage, ours, theirs in pairs]
                runs.append(ParityRun(precision, case.name, stages))
    return ParityReport(runs, list(notes))


def difference(stage: str, ours: Tensor, theirs: Tensor, tolerance: float) -> StageDifference:
    """The difference of two tensors; infinite for other shapes, NaN and infinity."""
    if ours.shape != theirs.shape:
        return StageDifference(stage, float("inf"), float("inf"), tolerance)
    if not ours.numel():
        return StageDifference(stage, 0.0, 0.0, tolerance)
    gap = (ours.double() - theirs.double()).abs()
    absolute = float(gap.max()) if bool(gap.isfinite().all()) else float("inf")
    scale = float(theirs.double().abs().max())
    relative = 0.0 if absolute == 0 else absolute / scale if 0 < scale < float("inf") else float("inf")
    return StageDifference(stage, absolute, relative, tolerance)


@torch.no_grad()
def compare_case(
    network: Network, reference: nn.Module, names: WeightNames, case: ParityCase
) -> list[tuple[str, Tensor, Tensor]]:
    """Run one case through both; (stage, ours, theirs) of its visible tokens, in the order of computation."""
    network.name_nodes()
    modules = _stage_modules(network, reference, names)
    ours = case.padded_left() if case.left else case
    tape = Tape(*(tap for tap, _, _ in modules)).attach(network)
    batch = Batch(input_ids=ours.ids, token_type_ids=ours.token_types)
    padded = not bool(case.keep.all())
    output = network(batch, Flow(keep=ours.keep[:, None] if padded else None, tape=tape)).present()

    extra = {} if case.token_types is None else {"token_type_ids": case.token_types}
    with _capture(modules) as captured:
        their_output = reference(
            input_ids=case.ids, attention_mask=case.keep.long(), use_cache=False, return_dict=True, **extra
        )
    fields = network.head.FIELDS if network.head is not None else ()
    stages = [(tap, tape.taps[tap], captured[tap]) for tap, _, _ in modules]
    stages += [(field, output[field], their_output[field]) for field in fields]
    return [(stage, _visible_rows(a, ours.keep), _visible_rows(b, case.keep)) for stage, a, b in stages]


def _visible_rows(x: Tensor, keep: Tensor) -> Tensor:
    """The positions of x [B, T, …] that are not padding; x itself where it has no positions."""
    return x[keep] if x.shape[:2] == keep.shape else x


def _stage_modules(network: Network, reference: nn.Module, names: WeightNames) -> list[tuple[str, nn.Module, bool]]:
    """(our tap, their module, whether it is its input), in the order of computation."""
    prefixed = bool(names.prefix) and names.prefix in dict(reference.named_modules())
    taps, paths = set(network.taps()), {path for path, _ in network.named_modules()}
    blocks = [path for path, _ in network.named_nodes() if BUILDING_BLOCK.fullmatch(path)]
    modules = []

    def module(ours: str, *, block: bool = False) -> nn.Module:
        stem = names.find(f"{ours}.weight", prefixed=prefixed)[1][0].removesuffix(".weight")
        path = re.match(r".*?\.\d+(?=\.)", f"{stem}.").group() if block else stem  # type: ignore[union-attr]
        try:
            return reference.get_submodule(path)
        except AttributeError:
            raise UnsupportedError(
                f"{type(reference).__name__} has no module {path!r}, to which the weight names map {ours!r}"
            ) from None

    for number, block in enumerate(blocks):
        their_block = module(f"{block}.attn.out", block=True)
        if number == 0:
            modules.append(("embed.out" if "embed.out" in taps else f"{block}.before", their_block, True))
        for tap, projection in (
            ("attn.out", "attn.out"),
            ("cross.out", "cross.out"),
            ("ffn.out", "ffn.down"),
        ):
            if f"{block}.{projection}" in paths:  # a mixture of experts has no such projection
                modules.append((f"{block}.{tap}", module(f"{block}.{projection}"), False))
        modules.append((f"{block}.out", their_block, False))
    modules.append(("final", reference.get_submodule(names.prefix) if prefixed else reference, False))
    return modules


@contextmanager
def _capture(modules: Sequence[tuple[str, nn.Module, bool]]) -> Iterator[dict[str, Tensor]]:
    """Capture inputs or outputs of the reference's modules by hooks while the block runs, by the names of our taps."""
    captured: dict[str, Tensor] = {}

    def capture(tap: str, entry: bool, module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        if entry:
            captured[tap] = args[0] if args else kwargs["hidden_states"]
        else:
            captured[tap] = output if isinstance(output, Tensor) else output[0]

    with ExitStack() as hooks:
        for tap, module, entry in modules:
            hook = module.register_forward_hook(partial(capture, tap, entry), with_kwargs=True)
            hooks.callback(hook.remove)
        yield captured


# ------------------------------------------------------------------------------------------------------- the inputs


def random_cases(
    vocabulary: int, longest: int | None, *, token_types: int = 0, hidden: int = 0, seed: int = 0
) -> list[ParityCase]:
    """Random ids: rows without padding, and rows of three lengths with padding on either side.

    Args:
        vocabulary: ids lie below it
        longest: maximum tokens of a row; None = any
        token_types: number of token types of the model; 0 = it takes no token_type_ids
        hidden: the padding id; it occurs in no text, since some heads of the reference look for it
    """
    generator = torch.Generator().manual_seed(seed)
    T, short = min(48, longest or 48), min(24, longest or 24)

    def ids(rows: int, tokens: int) -> Tensor:
        random_ids = torch.randint(0, max(vocabulary - 1, 1), (rows, tokens), generator=generator)
        return random_ids + (random_ids >= hidden) if vocabulary > 1 else random_ids  # any id but `hidden`

    def types(rows: int, tokens: int) -> Tensor | None:
        return torch.randint(0, token_types, (rows, tokens), generator=generator) if token_types else None

    lengths = torch.tensor([short, max(short * 2 // 3, 1), 1])
    keep = torch.arange(short)[None] < lengths[:, None]  # [3, short]
    padded: dict[str, Any] = {
        "ids": ids(3, short).where(keep, hidden),
        "keep": keep,
        "token_types": types(3, short),
    }
    whole: dict[str, Any] = {
        "ids": ids(2, T),
        "keep": torch.ones(2, T, dtype=torch.bool),
        "token_types": types(2, T),
    }
    return [
        ParityCase(name="random ids", **whole),
        ParityCase(name="padded right", **padded),
        ParityCase(name="padded left", **padded, left=True),
    ]


def text_case(rows: Sequence[Sequence[int]], *, hidden: int = 0) -> ParityCase:
    """A case of token ids of texts, padded on the right."""
    T = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[hidden] * (T - len(row))] for row in rows])
    keep = torch.arange(T)[None] < torch.tensor([len(row) for row in rows])[:, None]
    return ParityCase(name="text", ids=ids, keep=keep)


# ------------------------------------------------------------------------------------------------------ a folder

TEXTS = ("Time flies like an arrow.", "Fruit flies like a banana, and a banana flies like no arrow at all.")


def compare_folder(
    name: str | Path, *, seed: int = 0, revision: str | None = None, allow_pickle: bool = False, offline: bool = False
) -> ParityReport:
    """Load a model in both libraries and compare them on random ids, and on texts where there is a tokenizer.

    Args:
        name: of a folder, or on the Hub
        seed: of the ids
        revision, allow_pickle, offline: as in `load`
    Raises: MissingExtraError: the reference library is not installed. UnsupportedError: it reads more than token ids.
        Whatever `load` raises for a model that is damaged or not supported.
    """
    transformers = import_optional("transformers", "transformers", "reference", "glassformer parity")
    folder = resolve(name, revision=revision, offline=offline, allow_pickle=allow_pickle)
    model = load(folder, dtype=torch.float32, allow_pickle=allow_pickle, offline=True)
    architecture = (model.config.get("architectures") or [model.family.architecture(model.task)])[0]
    if hasattr(transformers, architecture):  # else the error below names it
        _check_reads_ids(model)
    notes = ["fp64: both libraries compute entirely in fp64, also steps that transformers keeps in fp32"]
    with open_checkpoint(folder, allow_pickle=allow_pickle) as checkpoint:
        tensors = {name: checkpoint.read(name) for name in checkpoint.tensors}
    tensors = {  # fp64 weights are rounded to fp32 for both libraries, so that rounding is no difference
        name: tensor.float() if tensor.dtype == torch.float64 else tensor for name, tensor in tensors.items()
    }

    def reference_of(dtype: torch.dtype) -> nn.Module:
        made, remarks = reference_model(architecture, model.config, tensors, dtype)
        notes.extend(remark for remark in remarks if remark not in notes)
        return made

    names = model.family.names(model.spec, model.task)
    report = compare_stages(model.network, reference_of, names, _cases(model, seed, notes), notes=notes)
    return replace(
        report,
        folder=str(folder),
        architecture=architecture,
        reference=f"transformers {transformers.__version__}",
    )


def _check_reads_ids(model: Model) -> None:
    """Raises: UnsupportedError: a model that reads something besides token ids, such as pictures or sound."""
    network, problem = model.network, ""
    if "input_ids" not in network.READS or "pixel_values" in network.READS or network.sizes.codebooks:
        problem = f"reads {'ids of codebooks' if network.sizes.codebooks else ' and '.join(network.READS)}"
    else:
        try:
            with torch.inference_mode():
                network(Batch(input_ids=torch.zeros(1, 2, dtype=torch.long)), Flow())
        except GlassformerError as error:
            problem = f"needs more: {error}"
    if problem:
        raise UnsupportedError(
            f"parity compares models on token ids alone, and this {model.family.model_type!r} model {problem}"
        )


def _cases(model: Model, seed: int, notes: list[str]) -> list[ParityCase]:
    embed = model.network.embedding.spec
    hidden = model.config.get("pad_token_id") or 0
    longest = None if embed.positions is None else embed.positions.count
    cases = random_cases(model.vocabulary, longest, token_types=embed.token_types, hidden=hidden, seed=seed)
    try:
        tokenizer = model.tokenizer
    except DataError:
        notes.append("the folder has no tokenizer, so no text was compared")
        return cases
    rows = [list(row)[:longest] for row in tokenizer(list(TEXTS))["input_ids"]]
    return [*cases, text_case(rows, hidden=hidden)]
