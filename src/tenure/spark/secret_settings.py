"""Hands settings with secrets to spark-submit in a file, as everybody who lists processes can read a command line.

Promise: only this user can read the file, which is removed with the block. The properties that spark-submit would read
without it, `spark-defaults.conf` or the file of `--properties-file`, are read as before. Not promised: anything for a
setting in `--submit`, which reaches spark-submit as it was written.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_SECRET: Final = re.compile(r"secret|password|token|access[.]?key|account[.]?key|jaas", flags=re.IGNORECASE)
"""The names that Spark itself redacts (`spark.redaction.regex`), with those of Azure and Kafka."""

_FILE: Final = "--properties-file"


def is_secret(setting: str) -> bool:
    """Whether the name of a setting says that its value is a secret."""
    return _SECRET.search(setting) is not None


@contextmanager
def by_file(settings: Mapping[str, str], arguments: Sequence[str]) -> Iterator[list[str]]:
    """The arguments of spark-submit, with a file of these settings. Raises OSError: the user's own file of properties
    cannot be read."""
    if not settings:
        yield list(arguments)
        return
    rest, own = list(arguments), ""
    if _FILE in rest[:-1]:
        place = rest.index(_FILE)
        own = Path(rest[place + 1]).read_text(encoding="utf-8")
        del rest[place : place + 2]
    else:
        rest.append("--load-spark-defaults")
    descriptor, path = tempfile.mkstemp(prefix="tenure-settings-", suffix=".conf")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join([own, *(f"{name}={_escaped(value)}" for name, value in settings.items()), ""]))
        yield [*rest, _FILE, path]
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _escaped(value: str) -> str:
    """The value as a file of Java's properties has it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
