"""The command `glassformer`: finds the subcommand, runs it, and turns every failure into one clear line.

Exit codes: 0 done · 1 a bug of ours · 2 something in the request (options, files, a model) to put right ·
3 training went astray · 75 training was stopped, and saved · 130 interrupted · 141 the reader of our output went away.
"""

from __future__ import annotations

import inspect
import io
import logging
import os
import sys
import traceback
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from glassformer import GlassformerError, __version__

# Each is the function, or group of commands, of the same name in `glassformer.cli.NAME`; `--help` keeps this order.
COMMANDS = (
    "demo",
    "look",
    "info",
    "families",
    "sizes",
    "tokens",
    "tokenizer",
    "data",
    "trace",
    "encode",
    "generate",
    "predict",
    "compare",
    "train",
    "search",
    "curves",
    "evaluate",
    "reproduce",
    "study",
    "errors",
    "review",
    "parity",
    "bench",
)

DONE, BUG, REQUEST, PIPE_CLOSED = 0, 1, 2, 141


class Commands(TyperGroup):
    """The subcommands, each imported when it is asked for, so that `--version` waits for none of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # An unknown name needs all of them, for "did you mean".
        for name in (cmd_name,) if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.commands[name] = _import_command(name)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `glassformer … | head`: the reader has had enough, no more
            raise typer.Exit(_forget_output()) from None


def _import_command(name: str) -> Any:
    found = getattr(import_module(f"glassformer.cli.{name}"), name)
    if isinstance(found, typer.Typer):  # a group with commands of its own
        group: Any = typer.main.get_command(found)
        for command in group.commands.values():
            command.help = _flowing(command.help)
        return group
    single = typer.Typer(add_completion=False)
    single.command(name, help=_flowing(found.__doc__))(found)
    return typer.main.get_command(single)


def _flowing(doc: str) -> str:
    """A docstring whose paragraphs break where the terminal ends, not where our lines do; what is indented stays."""
    paragraphs = inspect.cleandoc(doc).split("\n\n")
    return "\n\n".join(text if "\n " in text else text.replace("\n", " ") for text in paragraphs)


app = typer.Typer(
    name="glassformer",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # `main` below has the last word on errors
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"glassformer {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Examples:\n\n"
    "[cyan]glassformer demo[/]  what happens to a word inside a model\n\n"
    "[cyan]glassformer look MODEL 'time flies' 'fruit flies'[/]  every attention head, in your browser\n\n"
    "[cyan]glassformer info MODEL[/]  the parts of a model, their shapes and sizes\n\n"
    "[cyan]glassformer info gpt3-175b[/]  the same of a published model, without its weights\n\n"
    "[cyan]glassformer sizes[/]  what published models measure\n\n"
    "[cyan]glassformer tokens MODEL 'fruit flies like a banana'[/]  from text to ids\n\n"
    "[cyan]glassformer encode MODEL sentences.txt --out vectors.npy[/]  sentences to vectors\n\n"
    "[cyan]glassformer generate MODEL 'Once upon a time'[/]  what it writes, as it writes it\n\n"
    "[cyan]glassformer predict classify MODEL 'so glad to see you'[/]  a task, from text to answer\n\n"
    "[cyan]glassformer compare --data rows.csv lead-3 MODEL[/]  systems side by side, judged\n\n"
    "[cyan]glassformer train --task classify --model MODEL --data rows.csv[/]  a model of your own\n\n"
    "[cyan]glassformer curves RUN --html page.html[/]  how a training went\n\n"
    "MODEL is a folder, or a name on the Hugging Face Hub; for [cyan]info[/] also one that [cyan]sizes[/] lists."
)
def glassformer(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Transformers in clear glass: load a checkpoint, look at every tensor, use it fast."""
    # Nothing to do: `--version` has its callback, and `main` takes `--debug` before it comes here.


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; the entry point of the `glassformer` script."""
    # Where π cannot be printed, \u03c0 is, and all goes on.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    debug, asked = _take_debug(sys.argv[1:] if arguments is None else arguments)
    if debug:  # what a server's threads have to say of an error
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("glassformer").setLevel(logging.DEBUG)
    code = _run(asked, debug)
    try:
        sys.stdout.flush()  # now, while a closed pipe is still ours to handle
    except BrokenPipeError:
        code = _forget_output()
    sys.exit(code)


def _take_debug(arguments: list[str]) -> tuple[bool, list[str]]:
    """Take `--debug` out, wherever it stands: who wants to see more adds it to the end of the line."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [argument for argument in arguments[:end] if argument != "--debug"]
    return len(options) < end, options + arguments[end:]


def _run(arguments: list[str], debug: bool) -> int:
    """The exit code of one command line, with its failure printed."""
    try:
        typer.main.get_command(app).main(args=arguments, prog_name="glassformer")
    except SystemExit as done:  # how Typer ends: well, or after a usage error that it has shown
        if not isinstance(done.code, int):
            raise
        return done.code
    except GlassformerError as error:
        return _fail(str(error), error.exit_code, debug)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        return _fail(what, REQUEST, debug)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        return _fail(f"{what}\nthis is a bug in glassformer; run again with --debug to see where", BUG, debug)
    return DONE


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    typer.secho("error: ", fg="red", nl=False, err=True)
    typer.echo(message, err=True)
    return code


def _forget_output() -> int:
    """Send what is still unwritten nowhere, so that the interpreter does not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
