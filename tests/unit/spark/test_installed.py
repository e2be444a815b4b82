"""The Spark of a machine: a package of Python, a folder that SPARK_HOME names, or that of the spark-submit in PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest

from tenure import assembly
from tenure.assembly import Run, assemble
from tenure.errors import UsageError
from tenure.settings import Settings
from tenure.spark import installed
from tenure.spark.installed import InstalledSpark, find_spark, use_spark

INSTALL = "or run pip install '.[spark]' in the clone of Tenure, or pip install 'WHEEL[spark]' with its wheel"


def make_spark(
    folder: Path, version: str = "3.5.6-amzn-2", *, scala: str = "2.12", python: bool = True, jars: bool = True
) -> Path:
    """A folder as a vendor's image has it."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "spark-submit").write_text("#!/bin/sh\nexit 1\n")
    (folder / "bin" / "spark-submit").chmod(0o755)
    (folder / "jars").mkdir()
    if jars:
        (folder / "jars" / f"spark-core_{scala}-{version}.jar").touch()
    if python:
        (folder / "python" / "lib").mkdir(parents=True)
        (folder / "python" / "lib" / "py4j-0.10.9.7-src.zip").touch()
        (folder / "python" / "pyspark").mkdir()
        short = version.split("-", maxsplit=1)[0]
        (folder / "python" / "pyspark" / "version.py").write_text(f'__version__: str = "{short}"\n')
        (folder / "python" / "pyspark" / "__init__.py").touch()
    return folder


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Mapping[str, str]:
    """The environment of a machine whose Python has no PySpark."""
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    return {"PATH": str(tmp_path / "empty")}


def test_the_package_of_this_python_needs_no_path() -> None:
    found = find_spark({})
    jar = next(Path(pyspark.__file__).parent.glob("jars/spark-core_*.jar"))
    assert jar.name == f"spark-core_{found.scala}-{found.version}.jar"
    assert found.version == pyspark.__version__
    assert found.home == Path(pyspark.__file__).parent
    assert found.environment({"PYTHONPATH": "lib"}) == {}


def test_spark_home_gives_its_own_pyspark(nothing: Mapping[str, str], tmp_path: Path) -> None:
    home = make_spark(tmp_path / "spark")
    found = find_spark({**nothing, "SPARK_HOME": str(home)})
    path = (str(home / "python"), str(home / "python" / "lib" / "py4j-0.10.9.7-src.zip"))
    assert found == InstalledSpark(home, "3.5.6-amzn-2", "2.12", path)
    assert found.release == "3.5"
    assert found.environment({}) == {"SPARK_HOME": str(home), "PYTHONPATH": os.pathsep.join(path)}
    assert found.environment({"PYTHONPATH": "lib"})["PYTHONPATH"] == os.pathsep.join([*path, "lib"])


def test_a_spark_submit_in_path_names_the_folder(nothing: Mapping[str, str], tmp_path: Path) -> None:
    home = make_spark(tmp_path / "spark", "4.0.1", scala="2.13")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").symlink_to(home / "bin" / "spark-submit")
    found = find_spark({"PATH": str(tmp_path / "bin")})
    assert (found.home, found.version, found.scala) == (home, "4.0.1", "2.13")


@pytest.mark.parametrize(("version", "scala"), [("3.5.0", "2.12"), ("4.1.0", "2.13")])
def test_a_vendor_may_name_its_jars_otherwise(
    nothing: Mapping[str, str], tmp_path: Path, version: str, scala: str
) -> None:
    home = make_spark(tmp_path / "spark", version, jars=False)
    found = find_spark({**nothing, "SPARK_HOME": str(home)})
    assert (found.version, found.scala) == (version, scala)


def test_without_any_spark_one_line_says_where_it_was_looked_for(nothing: Mapping[str, str], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as nowhere:
        find_spark(nothing)
    assert str(nowhere.value) == (
        "there is no Spark: the Python package 'pyspark' is not installed, and SPARK_HOME is not set; "
        f"set SPARK_HOME to the folder of Spark, {INSTALL}"
    )
    with pytest.raises(UsageError) as wrong:
        find_spark({**nothing, "SPARK_HOME": "/srv/spark"})
    assert str(wrong.value).startswith(
        "there is no Spark: the Python package 'pyspark' is not installed, and SPARK_HOME '/srv/spark' has no "
        "bin/spark-submit; set SPARK_HOME"
    )
    home = make_spark(tmp_path / "spark", python=False)
    with pytest.raises(UsageError, match=rf"^Spark in '{home}' has no PySpark: its python/pyspark, or py4j's zip"):
        find_spark({**nothing, "SPARK_HOME": str(home)})


def test_two_releases_are_refused_in_one_line_that_names_both(tmp_path: Path) -> None:
    minor = ".".join(pyspark.__version__.split(".")[:2])
    other = "4.0" if minor == "3.5" else "3.5"
    home = make_spark(tmp_path / "spark", f"{other}.9")
    with pytest.raises(UsageError) as refused:
        find_spark({"SPARK_HOME": str(home)})
    assert str(refused.value) == (
        f"this Python has PySpark {pyspark.__version__}, and SPARK_HOME '{home}' is Spark {other}.9; "
        f"install PySpark {other}, or unset SPARK_HOME"
    )
    same = make_spark(tmp_path / "other", f"{minor}.99", scala="2.13")
    assert find_spark({"SPARK_HOME": str(same)}).version == f"{minor}.99"


def test_a_pyspark_in_the_path_knows_the_folder_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_spark(tmp_path / "spark")
    monkeypatch.setattr(installed, "_package", lambda: home / "python" / "pyspark")
    assert find_spark({}) == InstalledSpark(home, "3.5.6-amzn-2", "2.12")


def test_a_process_that_uses_spark_imports_it(
    nothing: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_spark(tmp_path / "spark")
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "lib")  # restored after the test
    use_spark()
    assert sys.path[0] == str(home / "python")
    assert os.environ["PYTHONPATH"].split(os.pathsep)[0] == str(home / "python")


def test_a_driver_gets_the_path(tmp_path: Path, nothing: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_spark(tmp_path / "spark")
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    told = tmp_path / "told"
    shows = f"import pyspark, sys; open({str(told)!r}, 'w').write(pyspark.__file__)"
    monkeypatch.setattr(assembly, "DRIVER", (sys.executable, "-c", shows))
    driver = assembly.start_spark_driver("anna")
    assert driver.wait() == "exit code 0"
    driver.reap()
    driver.clean_up()
    assert told.read_text() == str(home / "python" / "pyspark" / "__init__.py")


def test_a_member_without_spark_ends_before_anything_starts(
    tmp_path: Path, nothing: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PATH", nothing["PATH"])
    settings = Settings(store=f"sqlite:///{tmp_path}/ha.db", storage=f"file://{tmp_path}/storage", scope="rows")
    with pytest.raises(UsageError, match=r"^there is no Spark: "):
        assemble(settings, Run("no-such-file.py"))
    assert not (tmp_path / "ha.db").exists()


def test_an_agent_imports_no_pyspark() -> None:
    """Nor what is beside it: an agent runs on a Python that has Tenure alone."""
    modules = "tenure.assembly, tenure.cli.main, tenure.cli.verbs, tenure.agent.member, tenure.warden"
    hidden = "for name in ('pyspark', 'py4j', 'pyarrow', 'pandas', 'deltalake'): sys.modules[name] = None"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{hidden}\nimport {modules}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
