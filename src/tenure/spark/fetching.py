"""Lets drivers fetch packages: one after the other on a machine, and again where the first try failed.

Ivy, by which spark-submit fetches packages, keeps them in one folder, without locks: of two drivers that start with an
empty folder, each destroys the downloads of the other, and both fail. Promise: a driver that fetches holds the kernel's
lock, which ends with its process, until its Spark is up. A start that fails for want of packages is tried again, every
second time without Maven's cache: after growing delays where a server refused or did not answer, else once in each way.
Settings of Ivy of your own stay. Not promised: a lock where its folder cannot be written to; nor between Tenure and
other programs.

Ivy asks Maven's cache on this machine (`~/.m2`) first, and takes a module from where its POM is. Maven leaves POMs
there whose jars it never fetched. Such a module cannot be fetched at all, until Ivy does not ask that cache. The
settings without it ask the repository that Spark asks (`DEFAULT_ARTIFACT_REPOSITORY`, else the central repository).
Spark adds those of `spark.jars.repositories`.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar
from xml.sax.saxutils import quoteattr

from tenure.clock import Clock
from tenure.retry import RetryPolicy, exponential_delay
from tenure.spark.connectors import PACKAGES

T = TypeVar("T")

_IVY: Final = "spark.jars.ivy"
_IVY_SETTINGS: Final = "spark.jars.ivySettings"

RETRY: Final = exponential_delay(initial=timedelta(seconds=1), maximum=timedelta(seconds=16), attempts=6)
"""About half a minute."""


@contextmanager
def fetching_alone(arguments: Collection[str], settings: Mapping[str, str]) -> Iterator[None]:
    """Wait until no other driver fetches, and let none fetch in the block. Does nothing without packages. `arguments`:
    of spark-submit. `settings`: of Spark, which may name Ivy's folder."""
    with ExitStack() as held:
        if _fetches(arguments, settings):
            with suppress(OSError):  # spark-submit has its own words for a folder that cannot be written to
                held.callback(os.close, _locked(Path(settings.get(_IVY) or _cache())))
        yield


def fetched(
    start: Callable[[Sequence[str]], T],
    arguments: Sequence[str],
    settings: Mapping[str, str],
    *,
    log: str,
    clock: Clock,
    policy: RetryPolicy = RETRY,
) -> T:
    """The result of `start`, which gets the arguments of spark-submit and raises an error where spark-submit fails.
    `settings`: of Spark. `log`: the file with the output of spark-submit. Raises the error of the last try."""
    if not _fetches(arguments, settings):
        return start(arguments)
    own = _IVY_SETTINGS in settings or _IVY_SETTINGS in _of_files(arguments)
    with ExitStack() as kept:
        ways: list[Sequence[str]] = [(), *(() if own else (kept.enter_context(_without_maven()),))]
        for delay_s in (*policy.delays_s(), None):
            way = ways.pop(0)
            written = os.path.getsize(log) if os.path.exists(log) else 0
            try:
                return start([*arguments, *way])
            except Exception:
                lacking = _lacking(log, after=written)
                if lacking is not None and lacking.in_passing:
                    ways.append(way)
                if lacking is None or delay_s is None or not ways:
                    raise
                if lacking.in_passing:
                    clock.sleep(delay_s)
    raise AssertionError("the last try returns or raises")


def fix_of_fetching(lacking: MissingPackages) -> str:
    """What a person can do about packages that could not be fetched."""
    if lacking.in_passing:
        return "see that the repository answers, or name a mirror: --conf spark.jars.repositories=URL"
    return "check the coordinates, and the repositories in --conf spark.jars.repositories=URL"


def _fetches(arguments: Collection[str], settings: Mapping[str, str]) -> bool:
    flag, setting = PACKAGES
    return flag in arguments or setting in settings


def _of_files(arguments: Sequence[str]) -> str:
    """The text of the file from which spark-submit takes settings; empty: there is none, or it cannot be read."""
    home = os.environ.get("SPARK_HOME", "")
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf")
    files = [os.path.join(folder, "spark-defaults.conf")]
    files += [value for flag, value in pairwise(arguments) if flag == "--properties-file"]
    texts = []
    for file in files:
        with suppress(OSError, UnicodeDecodeError):
            texts.append(Path(file).read_text(encoding="utf-8"))
    return "\n".join(texts)


@contextmanager
def _without_maven() -> Iterator[tuple[str, str]]:
    """The flag for a file of settings, which is removed with the block."""
    descriptor, path = tempfile.mkstemp(prefix="tenure-ivy-", suffix=".xml")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(settings_without_maven(os.environ))
        yield "--conf", f"{_IVY_SETTINGS}={path}"
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _lacking(log: str, *, after: int) -> MissingPackages | None:
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            file.seek(after)
            return lacking_in(file.read())
    except FileNotFoundError:
        return None


def _cache() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "tenure")


def _locked(folder: Path) -> int:
    """The descriptor of the locked file. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / "tenure-packages.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        os.close(lock)
        raise
    return lock


_LACKING: Final = re.compile(r"(?:unresolved dependency|download failed): ([\w.-]+)#([\w.-]+);([^\s:!,\]]+)")
_IN_PASSING: Final = re.compile(
    r"SERVER ERROR|Server access error|Read timed out|Connection (?:reset|refused|timed out)"
)
"""How Ivy speaks of a server that may answer later. A module that is nowhere is only "not found"."""


@dataclass(frozen=True, slots=True)
class MissingPackages:
    """The packages that Ivy could not fetch (`group:name:version`). `in_passing`: a server refused, or was silent."""

    packages: tuple[str, ...]
    in_passing: bool


def lacking_in(log: str) -> MissingPackages | None:
    """The missing packages in the output of a spark-submit; None: it did not fail for want of packages."""
    found = dict.fromkeys(":".join(match) for match in _LACKING.findall(log))
    return MissingPackages(tuple(found), _IN_PASSING.search(log) is not None) if found else None


def settings_without_maven(environment: Mapping[str, str]) -> str:
    """The text of a file for `spark.jars.ivySettings`."""
    repository = environment.get("DEFAULT_ARTIFACT_REPOSITORY")
    root = "" if not repository else f" root={quoteattr(repository)}"
    return f"""<ivysettings>
  <settings defaultResolver="default"/>
  <resolvers>
    <chain name="default">
      <ibiblio name="central" m2compatible="true" usepoms="true"{root}/>
    </chain>
  </resolvers>
</ivysettings>
"""
