"""The command line: ``maxmargin COMMAND ...``, or ``python -m maxmargin COMMAND ...``.

A command is a module here with two functions, `add_arguments(parser)` and `run(arguments) -> int`. It imports what is
heavy (NumPy, Numba, scikit-learn) inside `run`, so that help costs no more than the start of Python.

Exit codes: 0 done, 1 bad input, 2 bad usage, 130 interrupted; 141 when nobody reads the output any more.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from maxmargin import __version__
from maxmargin._names import suggestion
from maxmargin.cli._console import BAD_INPUT, BAD_USAGE, BROKEN_PIPE, INTERRUPTED, UsageError, complain

_COMMANDS = {
    "train": "train a classifier or a regression on text, a table or a store",
    "select": "choose C by cross validation, for little more than one training",
    "predict": "write the predicted label of every row",
    "evaluate": "accuracy, precision, recall and ROC AUC of a model",
    "info": "what is in a data or model file, or in a store",
    "pack": "put data of any size into a store on disk, to train from it",
    "convert": "write a model in LIBLINEAR's or LIBSVM's format",
    "export": "write a model as ONNX or C source, to predict without Python",
    "solvers": "the solvers, and the losses they take",
    "warmup": "compile beforehand what first trainings would wait for",
    "demo": "see it work on built-in data, in a few seconds",
}
_EPILOG = "commands:\n" + "\n".join(f"  {name:<10}{purpose}" for name, purpose in _COMMANDS.items())
_EPILOG += '\n\n"maxmargin COMMAND --help" tells more. New here? Try "maxmargin demo".'

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments, by default those of the process.

    Returns
    -------
    int
        The exit code; see the module's docstring.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    code = _guarded(arguments)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        _forget_stdout()
        code = code or _explain(error)
    return code


def _guarded(argv: list[str]) -> int:
    """Run the command; what goes wrong becomes a message and an exit code, never a traceback."""
    try:
        return _run(argv)
    except SystemExit as end:  # argparse has said all there is to say
        return end.code if isinstance(end.code, int) else BAD_USAGE
    except UsageError as error:
        complain(f'{error}\n"maxmargin {argv[0]} --help" lists the options')
        return BAD_USAGE
    except KeyboardInterrupt:
        complain("interrupted before there was a result", kind="")
        return INTERRUPTED
    except (ValueError, OSError, MemoryError) as error:
        return _explain(error)
    except ImportError as error:  # a library that is not there, or for which memory does not suffice
        complain(f"cannot load what is needed: {error}")
        return BAD_INPUT


def _run(argv: list[str]) -> int:
    top = argparse.ArgumentParser(
        prog="maxmargin",
        usage="maxmargin COMMAND ...",
        description="Support vector machines for large data, each answer with a certificate.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"maxmargin {__version__}")
    if not argv:
        top.print_help(sys.stderr)
        return BAD_USAGE
    top.add_argument("command", choices=_COMMANDS, help=argparse.SUPPRESS)
    name = top.parse_args(argv[:1]).command
    command = importlib.import_module(f"maxmargin.cli.{name}")
    parser = _Parser(
        prog=f"maxmargin {name}",
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return command.run(parser.parse_intermixed_args(_with_long_weights(argv[1:])))


class _Parser(argparse.ArgumentParser):
    """Says which option may have been meant by one that there is not."""

    def error(self, message: str) -> NoReturn:
        stranger = re.match(r"unrecognized arguments: (--[^\s=]+)", message)
        super().error(message + (suggestion(stranger[1], self._option_string_actions) if stranger else ""))


def _with_long_weights(argv: list[str]) -> list[str]:
    """Write LIBLINEAR's ``-w-1 2`` as ``--class-weight=-1=2``: argparse has no options with a number in their name."""
    rewritten: list[str] = []
    pending = iter(argv)
    for argument in pending:
        match = re.fullmatch(r"-w([+-]?[0-9.]+)", argument)
        weight = next(pending, None) if match else None
        rewritten.append(argument if not match or weight is None else f"--class-weight={match[1]}={weight}")
    return rewritten


def _explain(error: Exception) -> int:
    """Say what went wrong in terms of the user's files; the exit code."""
    if isinstance(error, BrokenPipeError):
        _forget_stdout()
        return BROKEN_PIPE
    if isinstance(error, MemoryError):
        complain(f"not enough memory: {error}" if str(error) else "not enough memory")
    elif isinstance(error, OSError) and error.strerror:
        complain(f"{error.filename or 'output'}: {error.strerror}")
    else:
        complain(str(error))
    return BAD_INPUT


def _forget_stdout() -> None:
    """What stdout still holds cannot be written: keep Python from trying once more, and complaining, at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
