"""Flink's own handle store as a contender of `bench.handles`: `FlinkHandles.java` in a JVM of its own.

Flink's jar comes from the package index once, with pip, into `flink-VERSION` below the virtual environment (`make
clean` removes it). The class is compiled for each run, into a folder that is thrown away.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

from bench.handles_side import WrongResult

VERSION = "2.3.0"
PACKAGE = f"apache-flink-libraries=={VERSION}"  # Apache-2.0; pip has no package of the jars alone (2026-06)
CACHE = Path(sys.prefix) / f"flink-{VERSION}"
PATIENCE_S = 300
SOURCE = Path(__file__).with_name("FlinkHandles.java")


class NoFlink(Exception):
    """Flink cannot be measured here."""


def prepare(folder: Path) -> str:
    """Fetch and compile what is needed; return the class path. Raises NoFlink."""
    javac = _java("javac")
    if javac is None:
        raise NoFlink("there is no javac; install openjdk-17-jdk-headless")
    jar = _jar()
    classes = folder / "classes"
    classes.mkdir()
    command = [javac, "--release", "17", "-cp", str(jar), "-d", str(classes), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoFlink(f"{SOURCE.name} does not compile: {done.stderr.strip()}")
    return f"{classes}{os.pathsep}{jar}"


def _java(program: str) -> str | None:
    home = os.environ.get("JAVA_HOME")
    beside = Path(home or "/nowhere") / "bin" / program
    return str(beside) if beside.exists() else shutil.which(program)


def _jar() -> Path:
    """The one jar with all of Flink's runtime, its ZooKeeper client and curator included."""
    jar = CACHE / f"flink-dist-{VERSION}.jar"
    if jar.exists():
        return jar
    print(f"fetching {PACKAGE} (330 MB) into {CACHE}", file=sys.stderr)
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
        done = subprocess.run(
            [*command, "--only-binary=:all:", "--dest", folder, PACKAGE], capture_output=True, text=True, check=False
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise NoFlink(f"pip could not fetch {PACKAGE}: {done.stderr.strip()}")
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(f"pyflink/lib/{jar.name}") as packed:
            unpacked = Path(folder) / jar.name
            with unpacked.open("wb") as file:
                shutil.copyfileobj(packed, file)
        unpacked.rename(jar)
    return jar


class Flink:
    """One JVM. `synced`: each file is forced to the disk before its pointer is written, which Flink itself does not."""

    def __init__(self, hosts: str, files: Path, *, class_path: str, synced: bool) -> None:
        self._log = files.with_suffix(".log")
        command = [_java("java") or "java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", class_path, "FlinkHandles"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, hosts, str(files), "synced" if synced else "plain"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._answer()

    def add(self, count: int) -> float:
        """See `Side`: `addAndLock`."""
        return self._ask("add", count)

    def replace(self, count: int) -> float:
        """See `Side`; the version that Flink's users ask for first is given to it."""
        return self._ask("replace", count)

    def add_drop(self, count: int) -> float:
        """See `Side`: `addAndLock`, then `releaseAndTryRemove`."""
        return self._ask("add_drop", count)

    def get_all(self) -> float:
        """See `Side`: `getAllAndLock`, which is the only one that Flink has, and `retrieveState` of each."""
        return self._ask("get_all", 0)

    def remove_all(self) -> float:
        """See `Side`: `releaseAndTryRemove` of each."""
        return self._ask("remove_all", 0)

    def close(self) -> None:
        """End it."""
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _ask(self, word: str, count: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word} {count}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> float:
        assert self._process.stdout is not None
        too_late = threading.Timer(PATIENCE_S, self._process.kill)
        too_late.start()
        try:
            while line := self._process.stdout.readline():
                if line.startswith("ok "):
                    return int(line.split()[1]) / 1e9
        finally:
            too_late.cancel()
        raise WrongResult(f"Flink's process has ended: {self._log.read_text(errors='replace')[-3000:]}")
