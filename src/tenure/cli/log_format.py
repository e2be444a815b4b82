"""`--log-format json`: each line that the agent writes to stderr is one JSON object.

Promise: that holds from the first line on where a flag or the environment asks for it, else from the reading of the
settings on; for events, warnings, the log of a library and the error that ends the run; and for an exception that
nobody caught, whose stack is in `exception`. Not promised: the output of the pipeline and of Spark, which have their
own; nor a crash of the interpreter.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final

from tenure.cli.output import Json, say, write_json
from tenure.clock import Clock

_VARIABLE: Final = "TENURE_LOG_FORMAT"


def asks_for_json(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a command line asks for JSON, by its flag or else by the environment. `words`: without the program."""
    if words[:1] != ["run"]:
        return False
    flags = [value for word, value in zip(words, [*words[1:], ""], strict=True) if word == "--log-format"]
    flags += [word.partition("=")[2] for word in words if word.startswith("--log-format=")]
    return (flags[-1] if flags else environment.get(_VARIABLE)) == "json"


def use_json(clock: Clock) -> None:
    """From now on, write JSON. May be called twice."""
    write_json(clock)
    sys.excepthook = _uncaught
    threading.excepthook = lambda hook: _uncaught(hook.exc_type, hook.exc_value, hook.exc_traceback)
    root = logging.getLogger()
    if not any(isinstance(one, _OfLibraries) for one in root.handlers):
        root.addHandler(_OfLibraries(logging.WARNING))


class _OfLibraries(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        fields = {"message": record.getMessage(), "logger": record.name}
        if record.exc_info is not None:
            fields["exception"] = logging.Formatter().formatException(record.exc_info)
        level = "error" if record.levelno >= logging.ERROR else "warning"
        _say_json((level, "log", fields))


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    stack = "".join(traceback.format_exception(kind, error, trace))
    name = kind.__name__
    _say_json(("error", "exception", {"message": f"{name}: {error}" if str(error) else name, "exception": stack}))


def _say_json(as_json: Json) -> None:
    say("", as_json=as_json)
