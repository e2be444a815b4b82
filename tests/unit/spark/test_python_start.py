"""What a Python process of a driver's JVM imports: PySpark from its folder, where that is the same as the zip."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tenure.spark.python_start import FOLDER, python_path

ASKS = "import pyspark; print(pyspark.WHERE)"


def pyspark_in(folder: Path) -> Path:
    """A PySpark in `folder` with a zip of its own, which is returned; each says where it is."""
    package = folder / "pyspark"
    (package / "python" / "lib").mkdir(parents=True)
    (package / "__init__.py").write_text("WHERE = 'folder'\n")
    zipped = package / "python" / "lib" / "pyspark.zip"
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr("pyspark/__init__.py", "WHERE = 'zip'\n")
    return zipped


def printed(*path: Path, code: str = ASKS) -> list[str]:
    """The lines of a Python that has this folder and then `path` on its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return ran.stdout.splitlines()


def test_pyspark_comes_from_the_folder_around_its_zip(tmp_path: Path) -> None:
    zipped = pyspark_in(tmp_path)
    assert printed(zipped, tmp_path) == ["zip"]
    assert printed(zipped, FOLDER, tmp_path) == ["folder"]


def test_a_folder_by_another_name_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    zipped = pyspark_in(tmp_path / "real")
    assert printed(zipped, FOLDER, tmp_path / "link") == ["folder"]


def test_pyspark_comes_from_the_folder_of_spark_s_archive(tmp_path: Path) -> None:
    """`SPARK_HOME/python` has `pyspark`, and the zip in `lib`."""
    (tmp_path / "lib").mkdir()
    zipped = pyspark_in(tmp_path).rename(tmp_path / "lib" / "pyspark.zip")
    assert printed(zipped, tmp_path) == ["zip"]
    assert printed(zipped, FOLDER, tmp_path) == ["folder"]


def test_the_zip_of_another_pyspark_stays(tmp_path: Path) -> None:
    """Spark of `SPARK_HOME` has a zip; the Python of the workers may have a PySpark of another release."""
    zipped = pyspark_in(tmp_path / "spark_home")
    pyspark_in(tmp_path / "python")
    assert printed(zipped, FOLDER, tmp_path / "python") == ["zip"]
    assert printed(zipped, FOLDER, tmp_path / "python", tmp_path / "spark_home") == ["zip"]


def test_a_zip_without_a_folder_stays(tmp_path: Path) -> None:
    zipped = pyspark_in(tmp_path / "spark_home")
    assert printed(zipped, FOLDER, tmp_path)[-1] == "zip"


def test_the_hidden_sitecustomize_runs_and_the_folder_leaves_the_path(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('yours')\n")
    asks = "import sys, sitecustomize; print(*sys.path, sitecustomize.__file__, sep='\\n')"
    yours, *path, module = printed(FOLDER, tmp_path, code=asks)
    assert yours == "yours"
    assert str(FOLDER) not in path
    assert module == str(tmp_path / "sitecustomize.py")


def test_an_error_of_the_hidden_sitecustomize_is_shown_as_before(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import of_no_package\n")
    with pytest.raises(AssertionError, match="No module named 'of_no_package'"):
        printed(FOLDER, tmp_path, code="")


@pytest.mark.parametrize("before", [None, "a:b"])
def test_the_path_of_the_jvm_has_yours_behind_this_folder(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONPATH", before)
    assert python_path().split(os.pathsep) == [str(FOLDER), *([] if before is None else ["a", "b"])]


def test_an_older_python_evaluates_no_annotation() -> None:
    """A function of yours may start one as a process: Python 3.8 cannot evaluate `list[str]`."""
    tree = ast.parse((FOLDER / "sitecustomize.py").read_text(), feature_version=(3, 7))
    assert any(isinstance(line, ast.ImportFrom) and line.module == "__future__" for line in tree.body)
