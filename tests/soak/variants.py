"""Which product the members run: this tree's, another package, or a copy without one of its protections.

Promise: `environment` has shown, in a process of its own, that members will import that very package.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import jvm_start
from tests.house.tree import ROOT
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import PACKAGE, apply


class VariantError(Exception):
    """The package that was asked for cannot be run."""


@contextmanager
def package_of(*, without: str | None, package: Path | None) -> Iterator[Path]:
    """The folder that holds the package `tenure` to run: of a copy without what the mutant takes away, the one that
    was named, or this tree's. Raises VariantError, DoesNotApply."""
    if without is None:
        yield PACKAGE.parent if package is None else _holder(package)
        return
    known = {mutant.name: mutant for mutant in MUTANTS}
    if without not in known:
        raise VariantError(f"no mutant is named {without!r}; there are: {', '.join(known)}")
    source = PACKAGE if package is None else _holder(package) / "tenure"
    with TemporaryDirectory(prefix="tenure-soak-") as folder:
        copy = Path(folder) / "tenure"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for path, text in apply(known[without], copy).items():
            path.write_text(text, encoding="utf-8")
        yield copy.parent


def _holder(package: Path) -> Path:
    """The folder above `tenure`, whichever of the two was named, or a checkout."""
    for holder in (package, package.parent, package / "src"):
        if (holder / "tenure" / "__init__.py").is_file():
            return holder.resolve()
    raise VariantError(f"{package} holds no package `tenure`")


def environment(holder: Path, *, archive: Path | None) -> dict[str, str]:
    """What members get beside this process's environment, to import the package in this folder. `archive`: for their
    JVMs. Raises VariantError."""
    options = jvm_start.with_archive(jvm_options(), archive)
    path = os.pathsep.join(map(str, filter(None, [holder, ROOT, os.environ.get("PYTHONPATH")])))
    found = {"PYTHONPATH": path, jvm_start.OPTIONS: options}
    asked = [sys.executable, "-c", "import tenure; print(tenure.__file__)"]
    run = subprocess.run(asked, env={**os.environ, **found}, capture_output=True, text=True, check=False)
    if Path(run.stdout.strip()).parent != holder / "tenure":
        raise VariantError(f"members would not run {holder}/tenure, but {run.stdout.strip() or run.stderr.strip()}")
    return found


def jvm_options() -> str:
    """The options of the members' JVMs, but for the archive."""
    return os.environ.get(jvm_start.OPTIONS, jvm_start.LIGHTLY)


def other_spark() -> str | None:
    """The release of the PySpark that `scripts/setup.sh spark` put beside the installed one; None: this is that."""
    package = importlib.util.find_spec("pyspark")
    folder = Path(package.origin).parents[1].name if package is not None and package.origin is not None else ""
    return folder.removeprefix("spark-") if folder.startswith("spark-") else None
