"""Attention explorer benchmark, compared with bertviz: transfer sizes, and time until the page is painted.

    python benchmarks/explorer.py                       12 layers × 12 heads × 768 wide: 32, 128, 512 and 4,096 tokens
    python benchmarks/explorer.py --tokens 32 128       shorter
    python benchmarks/explorer.py --real                MiniLM next to it
    python benchmarks/explorer.py --json

The model is random with its queries scaled until each layer's scores have a spread of 3: a plain random one looks at
everything equally and has nothing to show. Its text is this project's own documentation.

Ours runs as people use it: the page is served, headless Chromium opens it after the pass, and the clock runs from
there to the painted thumbnails; bytes are those the browser received (compressed), and what they unpack to. bertviz
makes its page in Python: bytes and seconds are those of `model_view(…, html_action="return")`, the attention not
counted. It fetches its scripts from elsewhere, so what a browser then needs for it is not in the figures. Above 512
tokens it would need more memory than there is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _measure import chromium, environment, installed_minilm, rows_as_dicts

ROOT = Path(__file__).parents[1]
LAYERS, HEADS, WIDTH = 12, 12, 768
SPREAD = 3.0
MAX_BERTVIZ_TOKENS = 512
LIMITS = {
    512: {
        "first_paint_seconds": 1.0,
        "all_layers_seconds": 1.5,
        "shell_and_view_bytes": 800_000,
        "focus_bytes": 300_000,
        "focus_milliseconds": 150.0,
        "hover_milliseconds": 60.0,
        "zoom_frame_milliseconds": 34.0,  # two frames of a screen of 60 Hz
        "neuron_bytes": 64_000,
        "neuron_milliseconds": 100.0,
    },
    4096: {
        "first_layer_seconds": 1.0,
        "all_layers_seconds": 6.0,
        "shell_and_view_bytes": 800_000,
        "focus_bytes": 1_000_000,
        "focus_milliseconds": 300.0,
        "hover_milliseconds": 60.0,
        "zoom_frame_milliseconds": 34.0,  # two frames of a screen of 60 Hz
        "neuron_bytes": 64_000,
        "neuron_milliseconds": 100.0,
    },
}
"""What the page promises for texts of up to so many tokens, on a quiet machine; tests hold it to the bytes only."""

BERTVIZ = """
import sys, time, torch
from bertviz import model_view
layers, heads, tokens = map(int, sys.argv[1:])
attention = [torch.softmax(torch.randn(1, heads, tokens, tokens) * 3, -1) for _ in range(layers)]
names = [f"token{i}" for i in range(tokens)]
start = time.perf_counter()
page = model_view(attention, names, html_action="return").data
print(time.perf_counter() - start, len(page.encode()))
"""


@dataclass(frozen=True)
class Row:
    """One length of text. Seconds after the pass, bytes over HTTP; None = not measured."""

    model: str
    tokens: int
    pass_seconds: float
    session_megabytes: float
    shell_and_view_bytes: int
    shell_and_view_unpacked_bytes: int
    first_paint_seconds: float  # of the shell
    first_layer_seconds: float
    all_layers_seconds: float
    focus_bytes: int
    focus_milliseconds: float
    hover_milliseconds: float
    zoom_frame_milliseconds: float  # between two frames, 95th percentile
    neuron_bytes: int
    neuron_milliseconds: float
    file_bytes: int
    bertviz_bytes: int | None
    bertviz_seconds: float | None


def bertviz(layers: int, heads: int, tokens: int) -> tuple[float, int]:
    """Seconds and bytes of bertviz's model view, in a process of its own: it needs up to 10 GB."""
    arguments = [sys.executable, "-c", BERTVIZ, *map(str, (layers, heads, tokens))]
    seconds, size = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), int(size)


# -------------------------------------------------------------------------------------------------- the model


def shaped_model(tokenizer_folder: Path) -> Any:
    """A random encoder of 12 × 12 × 768 that reads 4,096 tokens, its attention given shape."""
    import torch

    import glassformer
    from glassformer.text import Tokenizer

    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": 30522,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 4 * WIDTH,
        "max_position_embeddings": 4096,
    }
    torch.manual_seed(0)
    model = glassformer.Model.from_config(config, tokenizer=Tokenizer.from_folder(tokenizer_folder)).eval()
    for layer, block in enumerate(model.network.blocks):
        session = model.inspect(text_of(model, 128))
        spread = torch.stack([session.head(layer, head).scores() for head in range(HEADS)]).std()
        with torch.no_grad():
            block.attn.qkv.weight[:WIDTH] *= SPREAD / spread
            block.attn.qkv.bias[:WIDTH] *= SPREAD / spread
    return model


def text_of(model: Any, tokens: int) -> str:
    """As much of the documentation as makes exactly this many tokens, special ones included."""
    words = " ".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))).split()
    words *= 1 + 8 * tokens // len(words)
    low, high = 0, len(words)
    while low < high:  # the most words that are not too many tokens
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if len(model.tokenizer.encode(" ".join(words[:middle]))) <= tokens else (low, middle - 1)
        )
    text = " ".join(words[:low])
    return text + " a" * (tokens - len(model.tokenizer.encode(text)))


# ------------------------------------------------------------------------------------------------ the browser

WATCH = """
window.painted = [];      // when the n-th thumbnail had its picture, in ms since the page was asked for
const look = () => {
  const there = Number(document.querySelector(".head-canvas")?.dataset.painted ?? 0);
  while (window.painted.length < there) window.painted.push(performance.now());
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""

HOVER = """
window.began = window.shown = null;
addEventListener("pointermove", () => { window.began ??= performance.now(); }, { capture: true });
new MutationObserver(() => {
  if (window.began !== null && window.shown === null && document.querySelector(".matrix-score")) {
    requestAnimationFrame(() => { window.shown ??= performance.now(); });
  }
}).observe(document.body, { subtree: true, childList: true, characterData: true });
"""

FETCHED = """([path, since]) => {
  const mine = (entry) => entry.name.includes(path) && entry.startTime >= since;
  const answers = performance.getEntriesByType("resource").filter(mine);
  if (!answers.length) return null;
  return [Math.max(...answers.map((one) => one.responseEnd)), answers.reduce((n, one) => n + one.encodedBodySize, 0)];
}"""

FRAMES = """
window.frames_taken = [];
let last = performance.now();
const next = (now) => { window.frames_taken.push(now - last); last = now; requestAnimationFrame(next); };
requestAnimationFrame(next);
"""


def in_browser(browser: Any, url: str, heads: int, layers: int) -> dict[str, Any]:
    """Open the page, wait for every thumbnail, look at one head as a matrix, and point at a cell."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    network = context.new_cdp_session(page)
    network.send("Network.enable")
    received: list[float] = []
    unpacked: list[int] = []
    network.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    network.on("Network.dataReceived", lambda event: unpacked.append(event["dataLength"]))
    page.add_init_script(WATCH)
    page.goto(url)
    page.wait_for_function("(count) => window.painted.length >= count", arg=heads * layers, timeout=120_000)
    painted = page.evaluate("window.painted")
    first = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    view = int(sum(received)), int(sum(unpacked))
    page.keyboard.press("3")
    page.wait_for_function(FETCHED, arg=["/api/view/tile", 0], timeout=30_000)
    page.wait_for_timeout(500)
    before = page.evaluate("performance.now()")
    page.keyboard.press(".")  # the next head
    page.wait_for_function(FETCHED, arg=["/api/view/tile", before], timeout=30_000)
    page.wait_for_timeout(500)
    arrived, focus_bytes = page.evaluate(FETCHED, ["/api/view/tile", before])
    page.evaluate(HOVER)
    box = page.locator(".matrix-figure canvas").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.4)  # above the line at the foot
    page.wait_for_function("() => window.shown !== null", timeout=30_000)
    hover = page.evaluate("window.shown - window.began")
    page.evaluate(FRAMES)
    for turn in range(40):  # in and out again
        page.mouse.wheel(0, -80 if turn < 20 else 80)
        page.wait_for_timeout(20)
    frames = sorted(page.evaluate("window.frames_taken"))
    page.keyboard.press("4")
    page.wait_for_selector(".neuron")
    page.wait_for_timeout(500)
    before_next = page.evaluate("performance.now()")
    page.keyboard.press(".")
    page.wait_for_function(FETCHED, arg=["/api/view/neuron", before_next], timeout=30_000)
    page.wait_for_timeout(500)
    worked_out, neuron_bytes = page.evaluate(FETCHED, ["/api/view/neuron", before_next])
    context.close()
    return {
        "shell_and_view_bytes": view[0],
        "shell_and_view_unpacked_bytes": view[1],
        "first_paint_seconds": first / 1000,
        "first_layer_seconds": painted[heads - 1] / 1000,
        "all_layers_seconds": painted[heads * layers - 1] / 1000,
        "focus_bytes": int(focus_bytes),
        "focus_milliseconds": arrived - before,
        "hover_milliseconds": hover,
        "zoom_frame_milliseconds": frames[int(0.95 * len(frames))],
        "neuron_bytes": int(neuron_bytes),
        "neuron_milliseconds": worked_out - before_next,
    }


# ------------------------------------------------------------------------------------------------- the figures


def measure(browser: Any, name: str, model: Any, tokens: int, rounds: int, alone: bool) -> Row:
    """One length of text, medians over the rounds."""
    import statistics

    text = text_of(model, tokens)
    with model.look(text, browser=False, block=False) as look, tempfile.TemporaryDirectory() as folder:
        (shape,) = look.session.maps.values()
        seconds = look.session.seconds
        runs = [in_browser(browser, look.url, shape.heads, shape.layers) for _ in range(rounds)]
        medians = {key: type(runs[0][key])(statistics.median(run[key] for run in runs)) for key in runs[0]}
        place = Path(folder) / "page.html"
        look.save(place)
        compared = not alone and tokens <= MAX_BERTVIZ_TOKENS
        theirs = bertviz(shape.layers, shape.heads, tokens) if compared else (None, None)
        return Row(
            model=name,
            tokens=tokens,
            pass_seconds=seconds,
            session_megabytes=look.session.nbytes / 1e6,
            **medians,
            file_bytes=place.stat().st_size,
            bertviz_seconds=theirs[0],
            bertviz_bytes=theirs[1],
        )


def show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="the explorer's page, and bertviz's")
    titles = "model tokens pass memory view unpacked paint first all focus hover zoom neuron file bertviz bertviz"
    for title in titles.split():
        table.add_column(title, justify="left" if title == "model" else "right")
    for row in rows:
        table.add_row(
            row.model,
            f"{row.tokens:,}",
            f"{row.pass_seconds:.2f} s",
            f"{row.session_megabytes:.0f} MB",
            f"{row.shell_and_view_bytes / 1e6:.3f} MB",
            f"{row.shell_and_view_unpacked_bytes / 1e6:.2f} MB",
            f"{row.first_paint_seconds:.2f} s",
            f"{row.first_layer_seconds:.2f} s",
            f"{row.all_layers_seconds:.2f} s",
            f"{row.focus_bytes / 1e3:.0f} kB, {row.focus_milliseconds:.0f} ms",
            f"{row.hover_milliseconds:.0f} ms",
            f"{row.zoom_frame_milliseconds:.0f} ms",
            f"{row.neuron_bytes / 1e3:.0f} kB, {row.neuron_milliseconds:.0f} ms",
            f"{row.file_bytes / 1e6:.1f} MB",
            "–" if row.bertviz_bytes is None else f"{row.bertviz_bytes / 1e6:,.1f} MB",
            "–" if row.bertviz_seconds is None else f"{row.bertviz_seconds:.1f} s",
        )
    Console(width=210).print(table)


def exceeded(rows: list[Row]) -> list[str]:
    """The limits that a measured row exceeds."""
    return [
        f"{row.model}, {row.tokens} tokens: {name} {getattr(row, name):,.4g}, promised {limit:,.4g}"
        for row in rows
        for name, limit in next((x for most, x in LIMITS.items() if row.tokens <= most), {}).items()
        if getattr(row, name) > limit
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[32, 128, 512, 4096])
    parser.add_argument("--real", action="store_true", help="MiniLM too, up to its 512 tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="leave bertviz out")
    parser.add_argument("--minilm", type=Path, default=installed_minilm())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.minilm is None:
        sys.exit("name the folder of all-MiniLM-L6-v2, whose tokenizer is used: --minilm FOLDER")
    import glassformer

    models = {"12 × 12 × 768, random": shaped_model(options.minilm)}
    if options.real:
        models["MiniLM"] = glassformer.load(options.minilm)
    rows = []
    with chromium() as browser:
        for name, model in models.items():
            for tokens in options.tokens:
                if tokens <= model.network.max_tokens:
                    rows.append(measure(browser, name, model, tokens, options.rounds, options.alone))
                    print(f"{name}, {tokens:,} tokens: done", file=sys.stderr)
    if options.json:
        about = environment(*([] if options.alone else ["bertviz"]), "playwright")
        print(json.dumps({"environment": about, "rows": rows_as_dicts(rows)}, indent=2))
    else:
        show(rows)
    for line in exceeded(rows):
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
