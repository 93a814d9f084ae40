"""`glassformer patch MODEL CLEAN [CORRUPT]`: activation patching between two texts, and ablation in one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from glassformer.cli.inputs import check_texts, inputs, whole_texts
from glassformer.cli.options import Html, Json, ModelName, Options, Truncate, command, option
from glassformer.cli.screen import notes, progress_of, say, show
from glassformer.errors import ConfigError, DataError
from glassformer.files.schema import given as given_options
from glassformer.loading import HeadLoading
from glassformer.progress import spinner
from glassformer.reports.amounts import byte_amount
from glassformer.reports.page import check_html_path, command_line

if TYPE_CHECKING:
    from glassformer.inspect import PatchSweep, Session
    from glassformer.inspect.patching.effects import PatchOptions
    from glassformer.model import Model


@dataclass(frozen=True, kw_only=True)
class PatchingOptions(Options):
    """What is patched, what is put in its place, and what is measured."""

    sweep: str | None = option(
        None,
        "What is patched, one after another: residual, heads, attention or feed-forward. Default: residual with two "
        "texts, heads with one.",
    )
    component: list[str] | None = option(
        None,
        "Patch these alone, together: blocks.3.attn.z[5] is a head, blocks.3.ffn.neurons[7] a neuron, "
        "blocks.3.out@4 the residual stream at position 4; repeatable.",
        "--component",
        "-c",
    )
    mode: str | None = option(None, "zero, mean or swap. Default: swap with two texts, zero (switch off) with one.")
    mean_over: Path | None = option(None, "Mean over all positions of the texts of this file, instead of this text's.")
    map: str | None = option(None, "Attention map: encoder, decoder or cross. Default: the decoder's, or the only one.")
    second: str | None = option(None, "Second text of both: of a pair, or the target of an encoder-decoder.")
    target: str | None = option(None, "Token or class that is measured. Default: the clean text's top prediction.")
    against: str | None = option(None, "Token or class whose logit is subtracted. Default: the corrupt text's top one.")
    metric: str | None = option(None, "logit, 'logit difference', probability or log-probability.")
    position: int | None = option(None, "Position where the prediction is read, from 0. Default: the last, or the gap.")
    direction: str = option("denoising", "denoising: the corrupt text is patched; noising: the clean one is.")
    align: str = option("strict", "Texts of other lengths: align positions from the start, or from the end.")
    new_tokens: int = option(0, "Continue the text by this many tokens, without and with the patch.", min=0)

    def session_options(self) -> PatchOptions:
        """Those of `Session.patch`."""
        names = ("mode", "target", "against", "metric", "position", "direction", "align")
        return {name: value for name in names if (value := getattr(self, name)) is not None}  # type: ignore[return-value]

    def check(self, html: Path | None) -> None:
        """Raises: ConfigError: options that do not go together."""
        if self.component and self.sweep:
            raise ConfigError("--sweep patches many components one after another, --component a few together; give one")
        if self.new_tokens and not self.component:
            raise ConfigError("--new-tokens continues the text with one patch; name it with --component")
        if html is not None:
            check_html_path(html)
            if self.component:
                raise ConfigError("--html shows a sweep; leave --component out, and choose cells on the page")
            if self.mean_over is not None:
                raise ConfigError("--html computes means over this text; leave --mean-over out")


@command
def patch(
    model: ModelName,
    clean: Annotated[str, typer.Argument(help="The text with the prediction that you ask about, or its file.")],
    corrupt: Annotated[
        str | None, typer.Argument(help="The same text with another word, of as many tokens. None: ablation.")
    ] = None,
    *,
    options: PatchingOptions,
    html: Html = None,
    loading: HeadLoading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Activation patching: which heads, layers and positions make a prediction.

    Of two texts, the activations of one are put into the pass of the other, one component after another; 0 = the
    prediction stays that of the corrupt text, 1 = it becomes that of the clean one. Of one text, components are
    switched off (ablation).

    Examples:
      glassformer patch ./gpt2 'The keys to the cabinet' 'The key to the cabinet' --target ' are' --against ' is'
      glassformer patch ./gpt2 'When Mary and John went out, John spoke to' --sweep heads
      glassformer patch ./gpt2 'The capital of France is' -c 'blocks.3.attn.z[5]' --new-tokens 10
      glassformer patch ./emotion 'i feel furious' --html page.html
    """
    options.check(html)
    check_texts([clean] if corrupt is None else [clean, corrupt])
    with notes(repeats=False):
        with spinner("loading the model"):
            from glassformer.model import load

            loaded = load(model, **given_options(loading))
        clean, *others = whole_texts([clean] if corrupt is None else [clean, corrupt], loaded)
        corrupt = others[0] if others else None
        patched, given = _opened(loaded, clean, corrupt, options, truncate)
        if options.component:
            _one(patched, options, given, json)
            return
        kind = options.sweep or ("heads" if corrupt is None else "residual")
        with progress_of("patched passes") as bar:
            given["progress"] = bar
            sweep = patched.sweep(kind, options.map, **given)
    if html is not None:
        _write(loaded, patched, sweep, given, html)
    show(sweep, json, indent=None, clean=clean, corrupt=corrupt, out=html and str(html))
    if html is not None and not json:
        say(f"\nsaved in {html}: {byte_amount(html.stat().st_size)}; open it in any browser, no network needed")


def _opened(
    model: Model, clean: str, corrupt: str | None, options: PatchingOptions, truncate: bool
) -> tuple[Session, PatchOptions]:
    """The session that is patched, and the options of patches, with the other session as their source."""
    given, more = options.session_options(), [] if options.second is None else [options.second]
    patched = model.inspect(clean, *more, truncation=truncate)
    if corrupt is not None:
        source, patched = patched, model.inspect(corrupt, *more, truncation=truncate)
        if options.direction == "noising":
            source, patched = patched, source
        given["source"] = source
    if options.mean_over is not None:
        given.setdefault("mode", "mean")
        given["mean_of"] = _references(model, options.mean_over)
    return patched, given


def _references(model: Model, path: Path) -> Iterator[Session]:
    """The passes whose activations are averaged, one at a time."""
    if not path.is_file():
        raise DataError(f"{path}: --mean-over names no file; give one with a text per line")
    return (model.inspect(str(text)) for text in inputs([str(path)]))


# ── one patch ────────────────────────────────────────────────────────────────────────────────────────────


def _one(session: Session, options: PatchingOptions, given: PatchOptions, json: bool) -> None:
    """Patch some components together, and print the prediction before and after."""
    result = session.patch(*(options.component or ()), **given)
    texts = result.text(options.new_tokens) if options.new_tokens else None
    continued: dict[str, Any] = {} if texts is None else {"text_before": texts[0], "text_after": texts[1]}
    show(result, json, indent=None, texts=list(session.texts), **continued)
    for name, text in zip(("before", "after"), texts or (), strict=False):
        if not json:
            say(f"{name}: {text}")


def _write(model: Model, session: Session, sweep: PatchSweep, given: PatchOptions, path: Path) -> None:
    """Write the page of a sweep as an HTML file."""
    from glassformer.explorer.describe import model_facts
    from glassformer.explorer.patches import sweep_reading
    from glassformer.explorer.requests import SweepRequest
    from glassformer.explorer.standalone_page import StandalonePage

    source = given.get("source")
    swapped = sweep.patching.mode == "swap"
    request: dict[str, Any] = {
        "kind": sweep.component_kind,
        "map": sweep.map,
        "mode": sweep.patching.mode,
        "direction": sweep.patching.direction,
        "align": sweep.patching.align,
        "other": source.texts[0] if source is not None and swapped else None,
        "target": given.get("target"),
        "against": given.get("against"),
        "position": given.get("position"),
    }
    state = {
        f"p.{name}": request[name] for name in ("kind", "mode", "other", "direction", "align", "target", "against")
    }
    start = {"v": 1, "view": "patch", "map": sweep.map, "q": request["position"], **state}
    fragment = urlencode({name: value for name, value in start.items() if value is not None})
    readings = [sweep_reading(sweep, SweepRequest(**request))]
    page = StandalonePage(
        session, model_facts(model), session.texts, start=fragment, readings=readings, command=command_line()
    )
    with progress_of("page") as bar:
        page.save(path, bar)
