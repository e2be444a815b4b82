"""The Java of this machine, as spark-submit finds it.

Promise: `JAVA_HOME`, else the `java` in PATH, as Spark's own scripts look. The Java is started once, to name its
version. Not promised: that Spark starts on it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tenure.errors import UsageError
from tenure.spark.not_started import INSTALL_JAVA

_HOME: Final = "JAVA_HOME"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')
_ANSWERS_S: Final = 30.0


def find_java(environment: Mapping[str, str]) -> Path:
    """The program. Raises UsageError: there is none."""
    home = environment.get(_HOME)
    found = shutil.which("java", path=f"{home}/bin" if home else environment.get("PATH", os.defpath))
    if found is None:
        named = f"{home}/bin/java is not there" if home else f"{_HOME} is not set, and no java is in PATH"
        raise UsageError(f"Spark finds no Java: {named}", fix=INSTALL_JAVA)
    return Path(found)


def major_of(said: str) -> int | None:
    """The major version in the output of `java -version`; None: the output names none."""
    found = _VERSION.search(said)
    return None if found is None else int(found[1])


def java_version(java: Path) -> int:
    """The major version of a Java. Raises UsageError: it does not start, or does not name its version."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ANSWERS_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{java} does not start: {error}", fix=INSTALL_JAVA) from error
    found = major_of(done.stderr + done.stdout)
    if found is None:
        raise UsageError(f"{java} does not name its version (exit code {done.returncode})", fix=INSTALL_JAVA)
    return found
