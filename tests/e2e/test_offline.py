"""Promise R15: no network by default. Importing opens no socket, and with sockets blocked everything works that
needs local folders alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.tiny_models import make_folder

# Put before a program: from here on a connection is an error that no handler of `Exception` swallows. A socket that is
# made and bound on this machine connects nothing: urllib3, which packages of `make bench` import, looks for IPv6 so.
BLOCKED = """
import sys
class Connected(BaseException):
    pass
def refuse(event, arguments):
    if event.startswith("socket.") and event not in ("socket.__new__", "socket.bind"):
        raise Connected(f"{event} {arguments}")
sys.addaudithook(refuse)
"""

TEXT = "time flies like an arrow"


def run(program: str, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + program, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
        | {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", **environment},
        timeout=180,
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("offline")
    for family in ("bert", "gpt2", "llama", "transformer"):
        make_folder(home / family, family)
    (home / "texts.txt").write_text(f"{TEXT}\nfruit flies like a banana\n")
    (home / "rows.csv").write_text(f"article,highlights\n{TEXT},{TEXT}\n")
    return home


def test_the_block_blocks() -> None:
    """A block that blocks nothing would make the tests below worthless."""
    done = run("import socket; socket.create_connection(('127.0.0.1', 9))")
    assert done.returncode == 1 and "Connected: socket." in done.stderr


def test_importing_opens_no_socket() -> None:
    done = run(
        "import glassformer, glassformer.model, glassformer.core, glassformer.cli.app, glassformer.engine.encoder\n"
        "for name in glassformer.__all__: getattr(glassformer, name)\n"
        "print(glassformer.__version__)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_importing_the_package_alone_imports_no_torch_and_no_client() -> None:
    done = run(
        "import glassformer\n"
        "print([name for name in ('torch', 'numpy', 'huggingface_hub', 'tokenizers', 'httpx') if name in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


LOCAL = """
from pathlib import Path
import torch
import glassformer
home = Path(sys.argv[1])
ids = torch.tensor([[1, 4, 5, 2]])
for family in ("bert", "gpt2", "llama", "transformer"):
    model = glassformer.load(home / family)
    target = {"decoder_input_ids": ids} if family == "transformer" else {}
    assert model(input_ids=ids, **target).last_hidden_state.isfinite().all()
    if family != "transformer":
        assert model.encode(["time flies", ""]).shape == (2, 8)
    if model.task == "text-generation":
        assert isinstance(model.generate("time flies", max_new_tokens=3), str)
    model.save_pretrained(home / "saved" / family)
    assert glassformer.load(home / "saved" / family, offline=True).report.loaded
print("huggingface_hub" in sys.modules)
"""


def test_local_folders_need_no_network(folders: Path) -> None:
    done = run(LOCAL, folders)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"  # not even the client is imported


COMMANDS: dict[str, tuple[str, ...]] = {
    "version": ("--version",),
    "help": ("--help",),
    "info": ("info", "{bert}"),
    "info as data": ("info", "{llama}", "--json"),
    "tokens": ("tokens", "{gpt2}", TEXT),
    "tokens as data": ("tokens", "{bert}", TEXT, "--json"),
    "encode": ("encode", "{bert}", "{home}/texts.txt", "--output", "{home}/vectors.npy"),
    "demo": ("demo", TEXT, "fruit flies like a banana", "--model", "{bert}", "--html", "{home}/demo.html"),
    "look": ("look", "{bert}", TEXT, "--html", "{home}/look.html"),
    "trace": ("trace", "{llama}", TEXT),
    "predict": ("predict", "text-generation", "{gpt2}", "time flies", "-n", "3"),
    "compare": ("compare", "--data", "{home}/rows.csv", "lead-1", "{transformer}", "-n", "4"),
    "bench": ("bench", "{bert}", "--count", "4", "--repeats", "1"),
}


# One process for all of them: after the first command, what is left of each is its work. A command line ends with an
# exit; each one's output goes into a line of its own.
ALL_COMMANDS = """
import contextlib, io, json, traceback
from glassformer.cli.app import main
for name, arguments in json.loads(sys.argv[1]).items():
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code or 0
        except BaseException:
            traceback.print_exc()
    print(json.dumps([name, code, out.getvalue(), err.getvalue()]), file=sys.__stdout__)
"""


def test_commands_on_local_folders_need_no_network(folders: Path) -> None:
    places = {"home": folders, **{path.name: path for path in folders.iterdir() if path.is_dir()}}
    commands = {name: [part.format(**places) for part in parts] for name, parts in COMMANDS.items()}
    done = run(ALL_COMMANDS, json.dumps(commands))
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in answers] == list(COMMANDS)
    for name, code, out, err in answers:
        assert code == 0, f"{name}: {out}{err}"
        assert out.strip() and "Traceback" not in err, f"{name}: {out}{err}"
    assert np.load(folders / "vectors.npy").shape == (2, 8)


def test_a_command_that_connects_is_caught() -> None:
    """As the block blocks: a command of the program above that connects ends with no code, and says where."""
    connecting = "import glassformer.cli.app, socket\n" + (
        "glassformer.cli.app.main = lambda arguments: socket.create_connection(('127.0.0.1', 9))\n"
    )
    done = run(connecting + ALL_COMMANDS, json.dumps({"info": ["info"]}))
    name, code, _out, err = json.loads(done.stdout)
    assert (name, code) == ("info", None) and "Connected: socket." in err


def test_parity_on_a_local_folder_needs_no_network(folders: Path) -> None:
    pytest.importorskip("transformers", reason="needs the reference library: pip install 'glassformer[reference]'")
    program = "from glassformer.cli.app import main\nmain(sys.argv[1:])"
    done = run(program, "parity", folders / "bert")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_name_that_is_not_at_hand_is_one_clear_error_offline(tmp_path: Path, how: str) -> None:
    program = (
        "import glassformer\n"
        "try:\n"
        f"    glassformer.load('no-such-org/no-such-model', offline={how == 'option'})\n"
        "except glassformer.DataError as error:\n"
        "    print(error)\n"
    )
    environment = {"HF_HUB_OFFLINE": "1"} if how == "environment" else {}
    done = run(program, HF_HOME=str(tmp_path), **environment)
    assert done.returncode == 0, done.stderr
    assert "no-such-org/no-such-model" in done.stdout and done.stdout.count("\n") == 1
