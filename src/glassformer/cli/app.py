"""Entry point of the command line: dispatches subcommands, and turns exceptions into one-line errors and exit codes.

Exit codes: 0 done · 1 a bug in Glassformer · 2 an error in options, files or a model · 3 training diverged ·
75 training interrupted and saved · 130 interrupted (Ctrl-C) · 141 broken pipe.
"""

from __future__ import annotations

import inspect
import io
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from glassformer import GlassformerError, progress
from glassformer.plugins import Registry
from glassformer.reports.page import made_by
from glassformer.version import __version__

EXAMPLES = re.compile(r"Examples?:\n")
EXAMPLE_WIDTH = 78
WORD = r"""(?:'[^']*'|"[^"]*"|[^\s'"])+"""
UNBROKEN = re.compile(rf"(?:-[\w-]+ )?{WORD}")  # an option stays with its value

COMMANDS: Registry[Any] = Registry(
    "commands",
    {
        "demo": "glassformer.cli.demo:demo",
        "lesson": "glassformer.cli.lesson:lesson",
        "look": "glassformer.cli.look:look",
        "shot": "glassformer.cli.shot:shot",
        "info": "glassformer.cli.info:info",
        "families": "glassformer.cli.models:families",
        "sizes": "glassformer.cli.models:sizes",
        "tokens": "glassformer.cli.tokenizer:tokens",
        "tokenizer": "glassformer.cli.tokenizer:tokenizer",
        "ngram": "glassformer.cli.ngram:ngram",
        "data": "glassformer.cli.data:data",
        "trace": "glassformer.cli.trace:trace",
        "lens": "glassformer.cli.lens:lens",
        "attribute": "glassformer.cli.lens:attribute",
        "patch": "glassformer.cli.patch:patch",
        "embed-map": "glassformer.cli.embed_map:embed_map",
        "encode": "glassformer.cli.encode:encode",
        "similar": "glassformer.cli.similar:similar",
        "index": "glassformer.cli.index:index",
        "find": "glassformer.cli.ask:find",
        "ask": "glassformer.cli.ask:ask",
        "corpus": "glassformer.cli.corpus:corpus",
        "generate": "glassformer.cli.generate:generate",
        "predict": "glassformer.cli.predict:predict",
        "transcribe": "glassformer.cli.transcribe:transcribe",
        "listen": "glassformer.cli.listen:listen",
        "export": "glassformer.cli.export:export",
        "push": "glassformer.cli.push:push",
        "compare": "glassformer.cli.compare:compare",
        "train": "glassformer.cli.train:train",
        "search": "glassformer.cli.search:search",
        "curves": "glassformer.cli.curves:curves",
        "evaluate": "glassformer.cli.evaluate:evaluate",
        "reproduce": "glassformer.cli.evaluate:reproduce",
        "study": "glassformer.cli.study:study",
        "shrink": "glassformer.cli.shrink:shrink",
        "advise": "glassformer.cli.advise:advise",
        "few-labels": "glassformer.cli.few_labels:few_labels",
        "errors": "glassformer.cli.errors:errors",
        "review": "glassformer.cli.errors:review",
        "parity": "glassformer.cli.parity:parity",
        "bench": "glassformer.cli.bench:bench",
        "plugins": "glassformer.cli.plugins:plugins",
    },
    fits=lambda name, part: callable(part),
    must="a function that typer can call, or a typer.Typer group",
)
"""Name → function or typer group, in the order of `--help`; those of plug-ins follow."""

DONE, BUG, USAGE_ERROR, STOPPED, BROKEN_PIPE = 0, 1, 2, 75, 141
SECONDS_A_LINE = 15  # of progress, where it goes to a log


class LazyCommands(TyperGroup):
    """The subcommands, each imported on first use, so that `--version` and completion import none of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    _listing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        # The list shows a line of each command, so their options need not be made from signatures.
        self._listing = True
        super().format_help(ctx, formatter)
        for problem in COMMANDS.problems():
            _note(problem)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self._listing:
            return _summary(cmd_name)
        if cmd_name in COMMANDS:
            self.commands[cmd_name] = _import_command(cmd_name)
        else:  # so that typer can suggest the nearest
            self.commands.update({name: _summary(name) for name in COMMANDS})
        return super().get_command(ctx, cmd_name)

    def make_context(self, *given: Any, **extra: Any) -> Any:
        with _visible_usage_errors():
            return super().make_context(*given, **extra)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _visible_usage_errors():
                return super().invoke(ctx)
        except BrokenPipeError:  # `glassformer … | head`: the reader closed the pipe, which is no error
            raise typer.Exit(_discard_output()) from None


@contextmanager
def _visible_usage_errors() -> Iterator[None]:
    """Escape control characters and bidi marks in typer's usage errors, which quote what was typed."""
    try:
        yield
    except Exception as error:
        # By its method: the class of usage errors has another module in each version of typer.
        if callable(written := getattr(error, "format_message", None)):
            from glassformer.cli.screen import visible_lines

            message = visible_lines(written())
            error.format_message = lambda: message  # type: ignore[attr-defined]
        raise


def _note(text: str) -> None:
    from glassformer.cli.screen import note

    note(text)


def _summary(name: str) -> TyperCommand:
    """A command without options, for its line in a list; that of a plug-in has the words of its package."""
    if plug_in := COMMANDS.plug_ins().get(name):  # not imported, which may take seconds, or fail
        return TyperCommand(name, help=plug_in.summary or f"Command of {plug_in.package}.", rich_help_panel="Plug-ins")
    function_or_group = COMMANDS[name]
    if isinstance(function_or_group, typer.Typer):
        return TyperCommand(name, help=str(function_or_group.info.help))
    return TyperCommand(name, help=_help(function_or_group.__doc__))


def _import_command(name: str) -> Any:
    function_or_group = COMMANDS[name]
    if isinstance(function_or_group, typer.Typer):
        group: Any = typer.main.get_command(function_or_group)
        for command in group.commands.values():
            command.help = _help(command.help)
            _name_no_types_of_flags(command)
        return _name_no_types_of_flags(group)
    single = typer.Typer(add_completion=False)
    single.command(name, help=_help(function_or_group.__doc__))(function_or_group)
    return _name_no_types_of_flags(typer.main.get_command(single))


def _name_no_types_of_flags(command: Any) -> Any:
    """Help shows no `<bool>` behind a flag, which takes no value."""
    get_params = command.get_params

    def params(ctx: Any) -> Any:
        listed = get_params(ctx)
        for parameter in listed:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return listed

    command.get_params = params
    return command


def _help(doc: str | None) -> str:
    """A docstring as help: paragraphs that wrap at the terminal, and examples, each comment above its command."""
    paragraphs = inspect.cleandoc(doc or "").split("\n\n")
    return "\n\n".join(_paragraph(text) for text in paragraphs)


def _paragraph(text: str) -> str:
    if EXAMPLES.match(text):
        return _example(text)
    return text if "\n " in text else text.replace("\n", " ")


def _example(section: str) -> str:
    """A section of examples in colours, its commands broken where they can be copied with their breaks."""
    heading, *lines = section.split("\n")
    shown = [f"[dim]{line}[/]" if line.lstrip().startswith("#") else _broken(line.strip()) for line in lines]
    return "\n".join([heading, *shown])


def _broken(command: str) -> str:
    """A command in lines that end in a backslash; never within quotes."""
    lines = [" "]
    for word in UNBROKEN.findall(command):
        if len(f"{lines[-1]} {word} \\") > EXAMPLE_WIDTH:
            lines.append("     ")
        lines[-1] += f" {word}"
    return "[cyan]" + " \\\n".join(lines).replace("[", r"\[") + "[/]"


app = typer.Typer(
    name="glassformer",
    cls=LazyCommands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # `main` below reports errors
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"glassformer {__version__}")
        raise typer.Exit


@app.callback(
    epilog=_help("""Examples:
  # tour of a forward pass
  glassformer demo
  # attention visualisation in your browser
  glassformer look MODEL 'time flies' 'fruit flies'
  # model summary: modules, parameters, FLOPs
  glassformer info MODEL
  # the same for a published model, without its weights
  glassformer info gpt3-175b
  # sizes of published models
  glassformer sizes
  # tokenization, step by step
  glassformer tokens MODEL 'fruit flies like a banana'
  # sentence embeddings
  glassformer encode MODEL sentences.txt --output vectors.npy
  # text generation
  glassformer generate MODEL 'Once upon a time'
  # inference for a task
  glassformer predict classify MODEL 'so glad to see you'
  # compare systems on test data
  glassformer compare --data rows.csv lead-3 MODEL
  # fine-tuning
  glassformer train --task classify --model MODEL --data rows.csv
  # training curves
  glassformer curves RUN --html page.html

MODEL is a folder, or a name on the Hugging Face Hub; for [cyan]info[/] also a name that [cyan]sizes[/] lists.
""")
)
def glassformer(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Debug mode: show the traceback of an error.")] = False,
) -> None:
    """Transformers in clear glass: load checkpoints, inspect every tensor, run, train and evaluate models."""
    # Nothing to do: `--version` has a callback, and `main` removes `--debug` before typer parses.


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; the entry point of the `glassformer` script."""
    # Characters that the terminal's encoding lacks are printed as escapes (\u03c0), instead of an exception.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    progress.log_seconds = SECONDS_A_LINE
    debug, remaining = _take_debug(sys.argv[1:] if arguments is None else arguments)
    if debug:  # the web server's threads log their errors
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("glassformer").setLevel(logging.DEBUG)
    with made_by(["glassformer", *remaining]):
        code = _run(remaining, debug)
    try:
        sys.stdout.flush()  # now, because at exit the interpreter would report a broken pipe
    except BrokenPipeError:
        code = _discard_output()
    sys.exit(code)


def _take_debug(arguments: list[str]) -> tuple[bool, list[str]]:
    """Remove `--debug` from any position before `--`, since people append it to a failed command."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [argument for argument in arguments[:end] if argument != "--debug"]
    return len(options) < end, options + arguments[end:]


def _run(arguments: list[str], debug: bool) -> int:
    """Run one command line; prints its error, and returns the exit code."""
    try:
        _name_no_types_of_flags(typer.main.get_command(app)).main(args=arguments, prog_name="glassformer")
    except SystemExit as ended:  # how typer ends, also after a usage error that it has printed
        if not isinstance(ended.code, int):
            raise
        return ended.code
    except GlassformerError as error:
        return _fail(str(error), error.exit_code, debug)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        return _fail(message, USAGE_ERROR, debug)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        plug_in = COMMANDS.plug_ins().get(arguments[0]) if arguments else None
        where = f"the plug-in {plug_in.package}" if plug_in else "glassformer"
        return _fail(f"{message}\nthis is a bug in {where}; run again with --debug to see where", BUG, debug)
    return DONE


def _fail(message: str, code: int, debug: bool) -> int:
    from glassformer.cli.screen import folded, visible_lines

    if debug:
        typer.echo(visible_lines(traceback.format_exc()), err=True)
    heading = "" if code == STOPPED else "error: "  # stopping a training is no error
    typer.secho(heading, fg="red", nl=False, err=True)
    typer.echo(folded(heading + visible_lines(message)).removeprefix(heading), err=True)
    return code


def _discard_output() -> int:
    """Redirect unwritten output to /dev/null, so that the interpreter reports no broken pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
