"""A real browser on a real page: any Chromium that is installed, and nothing else on the network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer.explorer.look import Look
from glassformer.model import Model
from tests.explorer.browser.samples import shaped, words
from tests.explorer.browser.tab import Tab

TEXTS = ["time flies like an arrow", "fruit flies like a banana"]
STORY = "Once upon a time there was a little girl"
TRANSLATION = ["time flies like an arrow", "fruit a banana ."]
# The shell has no window that could be shown, and opens a page in less than half of the time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Without these Chromium looks for its maker's hosts; as root it wants no sandbox.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",  # a tab opens a sixth faster without them, and with fewer processes
    "--process-per-site",
]

STANDARD = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
Check = Callable[[Any, str], None]
_running: list[Any] = []


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium; GLASSFORMER_CHROMIUM names one that is not on the path."""
    program = os.environ.get("GLASSFORMER_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(
            "there is no Chromium here: install one (Debian: apt-get install chromium-headless-shell), "
            "or name it in GLASSFORMER_CHROMIUM"
        )
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright to drive the browser: pip install playwright"
    )
    if _running:  # of tests in another folder, which import this fixture: a process has one
        yield _running[0]
        return
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        _running.append(browser)
        yield browser
        _running.clear()
        browser.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Callable[..., Tab]]:
    """Opens tabs, and looks at the end what they complained about."""
    opened: list[Tab] = []

    def make(**options: Any) -> Tab:
        opened.append(Tab(chromium, **options))
        return opened[-1]

    yield make
    complaints = [error for one in opened for error in one.errors]
    elsewhere = [url for one in opened for url in one.foreign_requests]
    for one in opened:
        one.close()
    assert not elsewhere, f"the page asked for something elsewhere: {elsewhere}"
    assert not complaints, f"the page's console has errors: {complaints}"


@pytest.fixture(scope="session")
def check() -> Check:
    """check(page, where): axe-core finds nothing, once all movement has ended."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="needs axe-core to check accessibility: pip install axe-playwright-python",
    ).Axe()

    def run(page: Any, where: str) -> None:
        moving = "each.playState === 'running' && each.timeline === document.timeline"  # and not along with scrolling
        page.wait_for_function(f"() => !document.getAnimations().some((each) => {moving})")
        options = {"resultTypes": ["violations"], "runOnly": {"type": "tag", "values": STANDARD}}
        result = axe.run(page, options=options).response["violations"]
        text = [
            f"{each['id']}: {node['html'][:160]}\n    {node['failureSummary'].splitlines()[-1].strip()}"
            for each in result
            for node in each["nodes"][:3]
        ]
        assert not result, f"{where}:\n" + "\n".join(text)

    return run


@pytest.fixture(scope="session")
def look() -> Iterator[Callable[..., Look]]:
    """look(model, *texts) → its page, served until the last test has ended."""
    served: list[Look] = []

    def serve(model: Model, *texts: str) -> Look:
        served.append(model.look(list(texts), browser=False, block=False))
        return served[-1]

    yield serve
    for each in served:
        each.close()


@pytest.fixture(scope="session")
def encoder(minilm: Path) -> Model:
    """The real pretrained encoder."""
    return glassformer.load(minilm)


@pytest.fixture(scope="session")
def served(encoder: Model, look: Callable[..., Look]) -> Look:
    """Its page, served, for two sentences."""
    return look(encoder, *TEXTS)


@pytest.fixture(scope="session")
def story(shared: Path, look: Callable[..., Look]) -> Look:
    """A real small Llama: causal, rotary, four heads to a key/value head."""
    folder = shared / "models" / "stories260k"
    if not folder.is_dir():
        pytest.skip("needs ../shared/models/stories260k (a small Llama) next to the repository")
    return look(glassformer.load(folder), STORY)


@pytest.fixture(scope="session")
def translation(models: dict[str, Model], look: Callable[..., Look]) -> Look:
    """An encoder and a decoder: three maps, queries and keys from two sides."""
    return look(models["transformer"], *TRANSLATION)


@pytest.fixture(scope="session")
def lecture(models: dict[str, Model], look: Callable[..., Look]) -> Look:
    """A few words made from many: a cross map more than three times as wide as it is high."""
    return look(models["transformer"], words(58), words(10))


@pytest.fixture(scope="session")
def scattered(tmp_path_factory: pytest.TempPathFactory, look: Callable[..., Look]) -> Look:
    """A random encoder that has something to show: two layers, four heads, thirty words."""
    return look(shaped(tmp_path_factory.mktemp("random")), words(30))


@pytest.fixture(scope="session")
def windowed(models: dict[str, Model], look: Callable[..., Look]) -> Look:
    """A decoder whose second layer sees four tokens back, and its first all of them."""
    return look(models["qwen2"], words(14))


@pytest.fixture(scope="session")
def tiny(models: dict[str, Model], look: Callable[..., Look]) -> Look:
    """A page that is there at once: two layers, two heads, two sentences."""
    return look(models["bert"], *TEXTS)
