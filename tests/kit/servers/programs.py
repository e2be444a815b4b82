"""The programs of the servers: where they are installed, and an error that names the fix where they are not."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


class NotInstalled(Exception):
    """A server, or a program that the server needs, is not installed."""


@contextmanager
def installed() -> Iterator[None]:
    """Skip the test where a server is not installed. In CI, which has every server, fail the test."""
    try:
        yield
    except NotInstalled as missing:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(missing))


def need(value: T | None, what: str, *, fix: str) -> T:
    """The value. Raises NotInstalled: the value is None, false or empty."""
    if not value:
        raise NotInstalled(f"{what} is not installed; {fix}")
    return value


def program(name: str, what: str, *, fix: str, built: str | None = None) -> str:
    """The path of a program: from `TENURE_TEST_NAME`, else the program that was built here, else from the PATH. Raises
    NotInstalled."""
    variable = f"TENURE_TEST_{name.upper().replace('-', '_')}"
    return need(os.environ.get(variable) or built or shutil.which(name), what, fix=f"{fix}, or set {variable}")


def jvm(main: str, *arguments: str, jars: str = "", flags: tuple[str, ...] = ()) -> list[str]:
    """The command of a small JVM that runs `main` with PySpark's jars, and `jars` before them. Raises NotInstalled.
    The servers' Scala is that of the installed PySpark, also where an older one stands before it in the path."""
    java = need(shutil.which("java"), "Java", fix="install openjdk-17-jre-headless")
    small = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    installed = Path(sysconfig.get_path("purelib"), "pyspark")
    home = installed if installed.is_dir() else spark_home()
    path = ":".join(filter(None, (jars, str(home / "jars" / "*"))))
    return [java, *small, *flags, "-cp", path, main, *arguments]


def spark_home() -> Path:
    """The folder of PySpark. Raises NotInstalled."""
    spark = need(find_spec("pyspark"), "PySpark", fix=f"{sys.executable} -m pip install pyspark")
    assert spark.origin is not None
    return Path(spark.origin).parent
