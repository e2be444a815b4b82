"""What a driver's Spark gets through spark-submit: `--packages`, `--jars`, `--py-files`, and any other flag of it.

Promise: flags reach spark-submit as they were written. Those that would take the driver away from its agent, and
settings with which nobody could take over, are refused before anything is started. Not promised: that spark-submit
likes them; what it says is in the log of the JVM. Nor that a file of properties holds nothing that is refused:
`check_setting` is for what Spark made of it.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.errors import UsageError

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
"""How many batches Spark keeps its logs and its state for."""

_LEAST_RETAINED: Final = 2
"""A takeover at batch N needs the offsets, the commit and the state of N-1. With 1, Spark removes that state as soon as
it has uploaded the one of N, which may be before N is in the sink."""

_NO_VALUE = {"--verbose", "-v", "--supervise", "--help", "-h", "--usage-error", "--version"}
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_URL_OR_GLOB = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|[*?\[{]")


@dataclass(frozen=True, slots=True)
class Submit:
    """Flags for spark-submit, with their values (None: it has none). `python_files`: what the pipeline's own file can
    import."""

    flags: tuple[tuple[str, str | None], ...] = ()
    python_files: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """The words of its command line."""
        return [word for flag, value in self.flags for word in ((flag,) if value is None else (flag, value))]

    @property
    def settings(self) -> list[tuple[str, str]]:
        """The settings of Spark among the flags, in their order."""
        pairs = [(value or "").partition("=") for flag, value in self.flags if flag in ("--conf", "-c")]
        return [(name, value) for name, _, value in pairs]


def read_submit(
    text: str | None,
    *,
    packages: str | None = None,
    jars: str | None = None,
    py_files: str | None = None,
    conf: Mapping[str, str],
) -> Submit:
    """The flags in `text` (as a shell reads it), and those three as if they had been among them. `conf`: Spark's
    settings that are given otherwise. Raises UsageError."""
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
    for name, value in [*settings, *conf.items()]:
        check_setting(name, value)
    lists = [value for flag, value in flags if flag == "--py-files" and value]
    lists += [value for name, value in settings if name == "spark.submit.pyFiles"]
    lists += [conf["spark.submit.pyFiles"]] if "spark.submit.pyFiles" in conf else []
    files = tuple(file.strip() for each in lists for file in each.split(",") if file.strip())
    for file in files:
        if not _URL_OR_GLOB.search(file) and not os.path.exists(file):
            raise UsageError(f"--py-files {file!r} is not there", fix="give the path of a .py, .zip or .egg file")
    return Submit(tuple(flags), files)


def check_setting(name: str, value: str) -> None:
    """Raise UsageError when nobody could take over with this value of a setting of Spark's."""
    if name != RETAINED:
        return
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", value) or int(value) < _LEAST_RETAINED:
        raise UsageError(
            f"setting {name} cannot be {value!r}: a takeover needs what Spark kept of the batch before the newest one",
            fix=f"give {_LEAST_RETAINED} or more, or leave it out (100)",
        )


def importable(python_files: Sequence[str]) -> list[str]:
    """What of them has to be on Python's path: an archive itself, a module's folder."""
    local = [re.sub(r"^(?:file|local):(?://)?", "", file) for file in python_files]
    local = [found for file in local if not _URL.match(file) for found in sorted(glob.glob(file)) or [file]]
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
