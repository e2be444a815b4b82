"""Fetches jars for the tests by Spark's own way: `python -m tests.kit.servers.jars FOLDER FLAG...`, which
`scripts/setup.sh` calls. The flags are those of spark-submit that name packages.

Promise: the jars are in FOLDER/jars, or one line names the packages that could not be fetched, with exit code 1, and
FOLDER/fetch.log says why. A start that fails is tried again as that of a driver is (`spark/fetching.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tenure.clock import Clock, SystemClock
from tenure.spark.fetching import fetched, lacking_in


def fetch(folder: Path, flags: Sequence[str], *, program: str, clock: Clock) -> str | None:
    """Fetch the packages. Return why that failed; None: it did not."""
    log = folder / "fetch.log"
    log.unlink(missing_ok=True)

    def start(words: Sequence[str]) -> None:
        command = [program, "--conf", f"spark.jars.ivy={folder}", *words]
        command += ["--class", "org.apache.hadoop.util.VersionInfo", "spark-internal"]
        with log.open("ab") as output:
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    try:
        fetched(start, flags, {}, log=str(log), clock=clock)
    except (OSError, subprocess.CalledProcessError) as error:
        lacking = lacking_in(log.read_text(encoding="utf-8", errors="replace")) if log.exists() else None
        return str(error) if lacking is None else f"cannot fetch {', '.join(lacking.packages)}"
    return None


def main() -> None:
    """The entry point: the folder, then the flags."""
    folder = Path(os.path.abspath(sys.argv[1]))
    folder.mkdir(parents=True, exist_ok=True)
    beside = str(Path(sys.executable).with_name("spark-submit"))
    why = fetch(folder, sys.argv[2:], program=beside, clock=SystemClock())
    if why is not None:
        sys.stdout.write(f"{why}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
