"""Frames a second of the map of embeddings while it is moved: 100,000 points by WebGL2, 10,000 by Canvas2D.

    python benchmarks/embedding_map.py --model FOLDER [--points 100000] [--renderer WebGL2]

Headless Chromium without a GPU: WebGL2 is SwiftShader, which draws on the processor.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from _measure import chromium

import glassformer
from glassformer.explorer.embedding_page import PageMap
from glassformer.explorer.look import InitialView, Look
from glassformer.explorer.session_runs import SessionRuns
from glassformer.inspect.embeddings.embedding_map import EmbeddingMap

FRAMES = 90
PAN = f"""() => new Promise((done) => {{
    const stage = document.querySelector(".map-stage").stage, times = [];
    const step = (now) => {{
        times.push(now);
        stage.pan(times.length % 20 < 10 ? 6 : -6, 0);
        if (times.length <= {FRAMES}) requestAnimationFrame(step);
        else {{
            const gaps = times.slice(1).map((time, at) => time - times[at]).sort((a, b) => a - b);
            done([gaps.length * 1000 / (times.at(-1) - times[0]), gaps[Math.floor(gaps.length * 0.95)]]);
        }}
    }};
    requestAnimationFrame(step);
}})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--renderer", default="WebGL2", choices=("WebGL2", "Canvas2D"))
    options = parser.parse_args()
    draw = np.random.default_rng(0)
    groups = draw.integers(0, 6, options.points)
    vectors = (draw.normal(size=(options.points, 8)) + 3 * draw.normal(size=(6, 8))[groups]).astype(np.float32)
    embedding_map = EmbeddingMap.of_vectors(vectors, labels=[f"class {group}" for group in groups])
    runs = SessionRuns(glassformer.load(options.model).session_factory())
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        with Look(runs, ["a text"], InitialView(view="embedding"), corpus=PageMap.of(embedding_map, "points")) as look:
            look.save(page)
        print(f"{options.points:,} points: a file of {page.stat().st_size / 1e6:.1f} MB")
        with chromium() as browser:
            tab = browser.new_page(viewport={"width": 1440, "height": 900})
            tab.goto(f"{page.as_uri()}?renderer={options.renderer}#v=1&view=embedding")
            tab.wait_for_selector(".map[data-ready]", timeout=120_000)
            tab.wait_for_timeout(2_000)
            renderer = tab.locator(".map-stage").get_attribute("data-renderer")
            for _ in range(3):
                rate, slow = tab.evaluate(PAN)
                print(f"{renderer}: {rate:.0f} frames a second, 95th percentile {slow:.0f} ms")


if __name__ == "__main__":
    main()
