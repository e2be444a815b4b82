"""The flags of a driver's spark-submit: `--packages`, `--jars`, `--py-files`, any other; and settings with secrets.

Promise: flags reach spark-submit as you wrote them. Two kinds are refused before anything starts: flags that would take
the driver away from its agent, and settings with which no member could take over. Not promised: that spark-submit
accepts the flags; its own errors are in the log of the JVM. A file of properties is not read here: the driver calls
`check_setting` on the value that Spark made of it.

Settings with secrets reach spark-submit in a file (`by_file`), as everybody who lists processes can read a command
line. Only this user can read the file, which is removed with the block. The properties that spark-submit would read
without it, `spark-defaults.conf` or the file of `--properties-file`, are read as before. Not promised: anything for a
setting in `--submit`, which reaches spark-submit as it was written.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenure.errors import UsageError
from tenure.spark.connectors import connectors_of, with_connectors
from tenure.spark.coordinates import Connector

_REFUSED: Mapping[str, str] = {
    "--master": "give it to tenure run",
    "--deploy-mode": "the driver runs beside its agent; leave it out",
    "--class": "the driver is Tenure's; leave it out",
    "--name": "the application is named after the scope; leave it out",
    "--remote": "a Spark Connect server would be the driver; leave it out",
    "--supervise": "members watch over each other; leave it out",
    "--kill": "leave it out",
    "--status": "leave it out",
    "--help": "see spark-submit --help",
    "-h": "see spark-submit --help",
    "--usage-error": "see spark-submit --help",
    "--version": "see spark-submit --version",
}
_REFUSED_SETTINGS: Mapping[str, str] = {
    "spark.master": "give --master to tenure run",
    "spark.app.name": "the application is named after the scope; leave it out",
    "spark.submit.deployMode": "the driver runs beside its agent; leave it out",
}
RETAINED: Final = "spark.sql.streaming.minBatchesToRetain"
"""For how many batches Spark keeps its logs and its state."""

_LEAST_RETAINED: Final = 2
"""A takeover at batch N needs the offsets, the commit and the state of N-1. With 1, Spark removes the state of N-1 as
soon as it has uploaded that of N, which may be before N is in the sink."""

_NO_VALUE = {"--verbose", "-v", "--supervise", "--help", "-h", "--usage-error", "--version"}
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_URL_OR_GLOB = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|[*?\[{]")


@dataclass(frozen=True, slots=True)
class Submit:
    """Flags for spark-submit, with their values (None: the flag has none). `python_files`: the files that the
    pipeline's own file can import. `connectors`: those whose packages are among the flags."""

    flags: tuple[tuple[str, str | None], ...] = ()
    python_files: tuple[str, ...] = ()
    connectors: tuple[Connector, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """The flags as words of a command line."""
        return [word for flag, value in self.flags for word in ((flag,) if value is None else (flag, value))]

    @property
    def settings(self) -> list[tuple[str, str]]:
        """Spark's settings among the flags (`--conf`), in their order."""
        pairs = [(value or "").partition("=") for flag, value in self.flags if flag in ("--conf", "-c")]
        return [(name, value) for name, _, value in pairs]


def read_submit(
    text: str | None,
    *,
    connectors: Sequence[str] = (),
    packages: str | None = None,
    jars: str | None = None,
    py_files: str | None = None,
    conf: Mapping[str, str],
) -> Submit:
    """The flags of `text`, split as a shell does, the packages of the named connectors, and the three named flags.
    `conf`: Spark's settings from elsewhere, which are checked too. Raises UsageError."""
    try:
        words = shlex.split(text or "")
    except ValueError as error:
        raise UsageError(f"--submit {text!r} cannot be read: {error}", fix="quote it as in a shell") from error
    flags = list(_flags(words))
    named = {"--packages": packages, "--jars": jars, "--py-files": py_files}
    for flag, value in named.items():
        if value is not None and any(flag == given for given, _ in flags):
            raise UsageError(f"{flag} is given twice, also in --submit", fix="join them with a comma")
        if value is not None:
            flags.append((flag, value))
    for flag, value in flags:
        if flag in _REFUSED:
            raise UsageError(f"{flag} in --submit is refused", fix=_REFUSED[flag])
        if flag in ("--conf", "-c") and not (value or "").startswith("spark."):
            raise UsageError(f"{flag} {value!r} in --submit is not a setting of Spark's", fix="write spark.NAME=VALUE")
    settings = Submit(tuple(flags)).settings
    for name, _ in settings:
        if name in _REFUSED_SETTINGS:
            raise UsageError(f"--conf {name} in --submit is refused", fix=_REFUSED_SETTINGS[name])
    settings += conf.items()
    for name, value in settings:
        check_setting(name, value)
    lists = [value for flag, value in flags if flag == "--py-files" and value]
    lists += [value for name, value in settings if name == "spark.submit.pyFiles"]
    files = tuple(file.strip() for each in lists for file in each.split(",") if file.strip())
    for file in files:
        if not _URL_OR_GLOB.search(file) and not os.path.exists(file):
            raise UsageError(f"--py-files {file!r} is not there", fix="give the path of a .py, .zip or .egg file")
    named_connectors = tuple(connectors_of(connectors))
    return Submit(tuple(with_connectors(flags, settings, named_connectors)), files, named_connectors)


def check_setting(name: str, value: str) -> None:
    """Raise UsageError when no member could take over with this value of a Spark setting."""
    if name != RETAINED:
        return
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", value) or int(value) < _LEAST_RETAINED:
        raise UsageError(
            f"setting {name} cannot be {value!r}: a takeover needs the logs and state of the batch before the newest",
            fix=f"give {_LEAST_RETAINED} or more, or leave it out (100)",
        )


def importable(python_files: Sequence[str]) -> list[str]:
    """The entries for Python's path: each archive itself, and the folder of each module."""
    local = [re.sub(r"^(?:file|local):(?://)?", "", file) for file in python_files]
    local = [match for file in local if not _URL.match(file) for match in sorted(glob.glob(file)) or [file]]
    return [os.path.dirname(os.path.abspath(file)) if file.endswith(".py") else os.path.abspath(file) for file in local]


def _flags(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    rest = list(words)
    while rest:
        flag = rest.pop(0)
        if not flag.startswith("-"):
            raise UsageError(f"--submit has {flag!r} where a flag of spark-submit is expected", fix="leave it out")
        name, equals, value = flag.partition("=")
        if equals and name.startswith("--"):
            yield name, value
        elif flag in _NO_VALUE:
            yield flag, None
        elif not rest:
            raise UsageError(f"{flag} in --submit has no value", fix="write it after the flag")
        else:
            yield flag, rest.pop(0)


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
