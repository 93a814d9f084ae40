"""Attention explorer on a model of 32 layers × 32 heads: how long each action takes until the page is done with it.

    python benchmarks/many_heads.py                     64 tokens
    python benchmarks/many_heads.py --tokens 64 512 --rounds 5 --json
    python benchmarks/many_heads.py --minilm-shape      6 layers × 12 heads × 384 wide instead

Random weights, 512 wide; 1,024 heads. Headless Chromium opens the page after the pass. Opening is timed from the
request of the page; an action from its event (a key, a move of the pointer, a choice) to the frame that shows the last
thing that it changed, what it fetches included. Up to 100 ms it counts as fluid. *Busy* is processor time of the page's
main thread, which other work on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _measure import chromium, environment, installed_minilm, rows_as_dicts
from explorer import WATCH, text_of

FLUID = 100.0

TIMER = """
window.changed = 0;
const frame = () => requestAnimationFrame(() => { window.changed = performance.now(); });  // the frame that shows it
const all = { subtree: true, childList: true, characterData: true, attributes: true };
new MutationObserver(frame).observe(document, all);
new PerformanceObserver(frame).observe({ type: "resource" });
window.watch = (event) => {
  window.began = null;
  addEventListener(event, ({ timeStamp }) => { window.began = timeStamp; }, { capture: true, once: true });
};
"""
QUIET = "() => window.began !== null && window.changed > window.began && performance.now() - window.changed > 400"


@dataclass(frozen=True)
class Row:
    """One action at one length of text; milliseconds, medians over the rounds.

    elapsed: until the page is done
    busy: processor time of the page's main thread, which other work on the machine hardly changes
    """

    tokens: int
    action: str
    elapsed: float
    busy: float


def random_model(tokenizer_folder: Path, layers: int, heads: int, width: int) -> Any:
    """A random encoder that reads 4,096 tokens."""
    import torch

    import glassformer
    from glassformer.text import Tokenizer

    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": 30522,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
        "max_position_embeddings": 4096,
    }
    torch.manual_seed(0)
    return glassformer.Model.from_config(config, tokenizer=Tokenizer.from_folder(tokenizer_folder)).eval()


class Page:
    """The page of a model, and how long its actions took, by name: milliseconds until done, and of them busy."""

    def __init__(self, browser: Any, url: str, layers: int, heads: int) -> None:
        self.page = browser.new_page(viewport={"width": 1440, "height": 900})
        self.page.add_init_script(WATCH + TIMER)
        self.metrics = self.page.context.new_cdp_session(self.page)
        self.metrics.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = self.busy()
        self.page.goto(url)
        self.page.wait_for_function("(count) => window.painted.length >= count", arg=layers * heads, timeout=120_000)
        painted = self.page.evaluate("window.painted")
        self.taken = {"open: all heads": (painted[layers * heads - 1], self.busy() - before)}

    def busy(self) -> float:
        """Processor time of the page's main thread so far, in milliseconds."""
        metrics = self.metrics.send("Performance.getMetrics")["metrics"]
        return 1000 * next(one["value"] for one in metrics if one["name"] == "TaskDuration")

    def timed(self, action: str, event: str, act: Any) -> None:
        """Do something, and wait until the page has been still."""
        self.page.wait_for_timeout(300)
        self.page.evaluate("(event) => window.watch(event)", event)
        before = self.busy()
        act()
        self.page.wait_for_function(QUIET, timeout=30_000)
        self.taken[action] = (self.page.evaluate("window.changed - window.began"), self.busy() - before)

    def key(self, action: str, key: str) -> None:
        self.timed(action, "keydown", lambda: self.page.keyboard.press(key))

    def point(self, action: str, place: str) -> None:
        """The pointer onto the middle of an element, in one move."""
        box = self.page.locator(place).bounding_box()
        x, y = box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]
        self.timed(action, "pointermove", lambda: self.page.mouse.move(x, y))
        self.page.mouse.move(1, 1)

    def actions(self) -> dict[str, tuple[float, float]]:
        """Every action once; then the page is closed."""
        page = self.page
        page.keyboard.press("1")
        self.key("all heads: next head", ".")
        self.key("all heads: next layer", "]")
        self.point("all heads: another square", ".head-grid [role=row]:nth-child(6) [data-cell] >> nth=7")
        self.point("all heads: value of a cell", ".preview .map")
        self.timed("all heads: by what they do", "change", lambda: page.select_option("[aria-label=Order]", "kind"))
        self.timed("all heads: by layer again", "change", lambda: page.select_option("[aria-label=Order]", "layer"))
        for number, view in ((2, "one head"), (3, "matrix"), (4, "arithmetic")):
            self.key(f"{view}: open", str(number))
            self.key(f"{view}: next head", ".")
            self.key(f"{view}: next layer", "]")
            if view == "one head":
                self.point(f"{view}: point at a token", ".head-tokens.query [role=option] >> nth=3")
            if view == "matrix":
                self.point(f"{view}: point at a cell", ".matrix-figure canvas >> nth=0")
        page.close()
        return self.taken


def measure(browser: Any, model: Any, tokens: int, rounds: int) -> list[Row]:
    with model.look(text_of(model, tokens), browser=False, block=False) as look:
        (shape,) = look.session.maps.values()
        runs = [Page(browser, look.url, shape.layers, shape.heads).actions() for _ in range(rounds)]
    medians = {action: [statistics.median(run[action][n] for run in runs) for n in (0, 1)] for action in runs[0]}
    return [Row(tokens, action, *both) for action, both in medians.items()]


def show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("tokens", "action", "done, ms", "busy, ms", title="actions on the page")
    for row in rows:
        table.add_row(f"{row.tokens:,}", row.action, f"{row.elapsed:,.0f}", f"{row.busy:,.0f}")
    Console(width=100).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[64])
    parser.add_argument("--minilm-shape", action="store_true", help="6 layers × 12 heads × 384 wide")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minilm", type=Path, default=installed_minilm(), help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.minilm is None:
        sys.exit("name the folder of all-MiniLM-L6-v2, whose tokenizer is used: --minilm FOLDER")
    model = random_model(options.minilm, *((6, 12, 384) if options.minilm_shape else (32, 32, 512)))
    with chromium() as browser:
        rows = [row for tokens in options.tokens for row in measure(browser, model, tokens, options.rounds)]
    if options.json:
        print(json.dumps({"environment": environment("playwright"), "rows": rows_as_dicts(rows)}, indent=2))
    else:
        show(rows)
    for row in rows:
        if row.elapsed > FLUID and not row.action.startswith("open"):
            print(f"{row.tokens} tokens, {row.action}: {row.elapsed:.0f} ms, promised {FLUID:.0f}", file=sys.stderr)


if __name__ == "__main__":
    main()
