"""`glassformer patch MODEL CLEAN [CORRUPT]`: activation patching between two texts, and ablation in one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.inputs import check_texts, whole_texts
from glassformer.cli.lens import say_saved, write_page
from glassformer.cli.options import Html, Json, ModelName, Truncate, command
from glassformer.cli.screen import notes, progress_of, say, show
from glassformer.errors import ConfigError
from glassformer.files.schema import given
from glassformer.inspect.options import PatchTextsRequest
from glassformer.loading import HeadLoading
from glassformer.progress import spinner
from glassformer.reports.page import check_html_path

if TYPE_CHECKING:
    from glassformer.inspect import PatchResult


@command
def patch(
    model: ModelName,
    clean: Annotated[str, typer.Argument(help="The text with the prediction that you ask about, or its file.")],
    corrupt: Annotated[
        str | None, typer.Argument(help="The same text with another word, of as many tokens. None: ablation.")
    ] = None,
    *,
    request: PatchTextsRequest,
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
    if html is not None:
        _check_page(html, request)
    texts = [clean] if corrupt is None else [clean, corrupt]
    check_texts(texts)
    with notes(repeats=False):
        with spinner("loading the model"):
            from glassformer.inspect.patching.effects import PatchResult
            from glassformer.inspect.patching.sweep import patch_texts
            from glassformer.model import load

            loaded = load(model, **given(loading))
        loaded.report.require_head(model, loaded.task)
        clean, *others = whole_texts(texts, loaded)
        corrupt = others[0] if others else None
        with progress_of("patched passes") as bar:
            result = patch_texts(loaded, clean, corrupt, request, truncation=truncate, progress=bar)
    if isinstance(result, PatchResult):
        _show_patch(result, request.new_tokens, json)
        return
    if html is not None:
        from glassformer.explorer.patches import reading_of

        write_page(loaded, result.patching.session, reading_of(result, request), html)
    show(result, json, indent=None, clean=clean, corrupt=corrupt, out=html and str(html))
    say_saved(html, json)


def _check_page(html: Path, request: PatchTextsRequest) -> None:
    """Raises: ConfigError: options that do not go with a page. DataError: no place for it."""
    check_html_path(html)
    if request.components:
        raise ConfigError("--html shows a sweep; leave --component out, and choose cells on the page")
    if request.mean_over is not None:
        raise ConfigError("--html computes means over this text; leave --mean-over out")


def _show_patch(result: PatchResult, new_tokens: int, json: bool) -> None:
    """Print the prediction before and after a patch, and the text after it."""
    texts = dict(zip(("before", "after"), result.text(new_tokens), strict=True)) if new_tokens else {}
    more = {f"text_{name}": text for name, text in texts.items()}
    show(result, json, indent=None, texts=list(result.patching.session.texts), **more)
    for name, text in texts.items():
        if not json:
            say(f"{name}: {text}")
