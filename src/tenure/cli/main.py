"""`tenure`: the entry of the command line.

Promise: bad input gives one line on stderr and its own exit code, never a stack trace. Exit codes: 0 success; 2 usage;
130 interrupted; else the `exit_code` of the error's class.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import typer

from tenure.cli.commands import app_for
from tenure.cli.log_format import asks_for_json, use_json
from tenure.cli.output import complain, warn, writes_json
from tenure.clock import SystemClock
from tenure.errors import StorageError, TenureError
from tenure.settings import PasswordInUrl


def _shows(others: Callable[..., object]) -> Callable[..., None]:
    """What shows a warning: ours as a line, by `others` those of libraries."""

    def show_warning(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, PasswordInUrl) or writes_json():
            warn(str(message))
        else:
            others(message, category, *place)

    return show_warning


def _drop_output() -> None:
    """Discard the buffered output, which the interpreter would try to write again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main() -> None:
    """The entry point of `tenure`."""
    warnings.showwarning = _shows(warnings.showwarning)
    if asks_for_json(sys.argv[1:], os.environ):
        use_json(SystemClock())
    try:
        result = app_for(sys.argv[1:])(prog_name="tenure", standalone_mode=False)
        code = result if isinstance(result, int) else 0
        sys.stdout.flush()
    except TenureError as error:
        complain(str(error))
        code = error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:  # the reader has closed the pipe
        _drop_output()
        code = 1
    except OSError as error:  # the output or a log cannot be written
        complain(str(error))
        _drop_output()
        code = StorageError.exit_code
    except typer.TyperException as error:
        words = error.format_message().replace("Value error, ", "")  # a word of the parser's own
        complain(words or "no command is given; choose one of those above")
        code = 2
    sys.exit(code)
