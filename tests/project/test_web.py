"""The page that the package carries is what web/ builds, and is small."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from glassformer.explorer.registry import TABS
from glassformer.explorer.standalone_page import page_around
from glassformer.reports.page import packed, packed_program, report_files

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "glassformer" / "explorer" / "static"
REPORTS = ROOT / "src" / "glassformer" / "reports" / "static"


def manifest(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return found


def source_hash() -> str:
    """As web/build.mjs computes it, so that a change without a build is found where there is no Node too."""
    inside = [path.relative_to(WEB).as_posix() for path in (WEB / "src").rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for path in sorted([*inside, "index.html", "package-lock.json", "tsconfig.json", "build.mjs", "views-plugin.mjs"]):
        digest.update(path.encode() + b"\0" + (WEB / path).read_bytes() + b"\0")
    return digest.hexdigest()


def npm(*arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here: install Node 20 or newer to check the sources of the page")
    if not (WEB / "node_modules").is_dir():
        pytest.skip("web/node_modules is not there: run `make test`, or `npm ci` in web/")
    command = ["npm", "run", "--silent", *arguments]
    return subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("folder", [STATIC, REPORTS], ids=["explorer", "reports"])
def test_the_page_was_built_from_these_sources(folder: Path) -> None:
    assert manifest(folder)["source"] == source_hash(), "web/ has changed since the page was built: run `make web`"


@pytest.mark.parametrize("folder", [STATIC, REPORTS], ids=["explorer", "reports"])
def test_the_built_files_are_whole(folder: Path) -> None:
    files = manifest(folder)["files"]
    assert isinstance(files, dict)
    assert {path.name for path in folder.iterdir()} == {*files, "manifest.json"}
    for name, digest in files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


def test_a_build_gives_the_same_bytes() -> None:
    done = npm("build", "--", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_sources_have_the_types_they_say() -> None:
    done = npm("check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_parts_of_the_page_do_what_they_say() -> None:
    done = npm("test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout or "fail 0" in done.stdout


def test_no_source_imports_the_layer_for_react() -> None:
    # It weighs 1.3 kB, and changes every element of the page: `onChange` of a slider would come while it is dragged.
    sources = [path for path in (WEB / "src").rglob("*.ts*") if "preact/compat" in path.read_text(encoding="utf-8")]
    assert not sources


def test_what_one_points_at_can_be_tapped_too() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (WEB / "src" / "views").rglob("*.tsx")]
    hints = re.findall(r"[^.;>\"]*\bPoint at \w+|[Tt]ap or point at \w+", "\n".join(sources))
    assert len(hints) >= 10 and all("ap or point at" in hint for hint in hints), hints


def compressed(*names: str) -> int:
    return sum(len(gzip.compress((STATIC / name).read_bytes())) for name in names)


def test_the_shell_is_light() -> None:
    size = compressed("index.html", "app.js", "app.css")
    assert size <= 78_600, f"{size:,} bytes compressed"


def test_each_view_is_a_file_of_its_own_and_light() -> None:
    views = {path.stem: compressed(path.name) for path in STATIC.glob("view-*.js")}
    sources = {path.stem: path.read_text("utf-8") for path in (WEB / "src" / "views").glob("*.tsx")}
    assert sorted(views) == sorted(f"view-{name}" for name, text in sources.items() if "\nexport const view:" in text)
    assert max(views.values()) <= 16_500, views
    shell = (STATIC / "app.js").read_text("utf-8")
    assert all(f'import("./{name}.js")' in shell for name in views)


def in_a_file(*views: str) -> int:
    """Bytes that the program takes in a saved page: compressed, in base64, with the loader and the frame."""
    return sum(map(len, page_around(views=views)))


def test_a_saved_page_of_one_view_carries_that_view_alone() -> None:
    sizes = {name: in_a_file(name) for name in TABS}
    assert max(sizes.values()) <= 150_000, sizes
    assert in_a_file(*TABS) <= 260_000


def test_the_file_of_any_report_is_small_beside_its_data() -> None:
    def size(reports: tuple[()] | None) -> int:
        style, script = report_files(reports)
        return len(packed(style)) + len(packed_program(script))

    assert size(None) <= 90_000, "all parts"
    assert size(()) <= 20_000, "tables and texts alone"
    assert sum(map(len, page_around("listen"))) <= 50_000


def test_the_page_of_sounds_carries_no_explorer() -> None:
    size = compressed("listen.js", "listen.css")
    assert size <= 40_000, f"{size:,} bytes compressed"


def test_the_page_of_documents_carries_no_explorer() -> None:
    size = compressed("ask.js", "ask.css")
    assert size <= 31_000, f"{size:,} bytes compressed"


def test_a_report_is_light_and_carries_charts_only_where_it_has_some() -> None:
    def size(*names: str) -> int:
        return sum(len(gzip.compress((REPORTS / name).read_bytes())) for name in names)

    assert size("report.js", "report.css", "page.css") <= 11_700
    assert size("trade-off.js", "trade-off.css") <= 5_000
    assert size("matrix.js", "matrix.css") <= 5_300
    assert size("rows.js", "rows.css") <= 8_400
    assert size("steps.js", "steps.css") <= 1_500
    assert size("review.js", "review.css") <= 2_750
    assert size("served.js", "served.css") <= 3_000
    assert size("live.js") <= 1_200
    assert size("browse.js", "browse.css") <= 7_200
    assert size("series.js", "series.css") <= 33_600
    assert size("save.js", "save.css") <= 4_800
    assert "uplot" not in (REPORTS / "report.js").read_text(encoding="utf-8")
    assert "preact" not in (REPORTS / "THIRD_PARTY.txt").read_text(encoding="utf-8")


def test_nothing_in_the_page_comes_from_elsewhere() -> None:
    files = [*STATIC.iterdir(), *REPORTS.iterdir()]
    for file in (file for file in files if file.suffix in (".html", ".css", ".js")):
        name, text = file.name, file.read_text(encoding="utf-8")
        addresses = {
            part.split(quote)[0]
            for quote in ('"', "'", "`", ")")
            for part in text.replace("https://", "http://").split("http://")[1:]
        }
        allowed = ("www.w3.org/", "127.0.0.1", "localhost")
        assert all(address.startswith(allowed) for address in addresses), (name, addresses)


def test_each_colour_is_written_once_and_scripts_read_it_as_a_colour() -> None:
    sheets = "\n".join(path.read_text(encoding="utf-8") for path in (WEB / "src").rglob("*.css"))
    assert "prefers-color-scheme" not in sheets, "write light-dark(a, b), which follows the system and the choice"
    of_both_themes = set(re.findall(r"(--[\w-]+): light-dark\(", sheets))
    registered = set(re.findall(r"@property (--[\w-]+)", sheets))
    scripts = [path for path in (WEB / "src").rglob("*.ts*") if path.parent.name != "report"]
    read = {name for path in scripts for name in re.findall(r'"(--[\w-]+)"', path.read_text(encoding="utf-8"))}
    read &= of_both_themes
    assert {"--ink", "--panel"} <= read <= registered, sorted(read - registered)
