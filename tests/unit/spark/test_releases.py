"""The releases of Spark that Tenure runs on, and what differs between them.

What a table says of a release is compared with the jars of the installed one; `make test-other-spark` installs each.
"""

from __future__ import annotations

import re
import tomllib
import zipfile
from contextlib import nullcontext
from functools import cache, partial
from importlib.metadata import distributions
from pathlib import Path
from unittest.mock import MagicMock

import pyspark
import pytest

from tenure.errors import UsageError
from tenure.spark import releases
from tenure.spark.coordinates import OF_RELEASE
from tenure.spark.releases import (
    CHECKPOINTS_BY_FILE_SYSTEM,
    RELEASES,
    STATEFUL,
    aws_sdk,
    before,
    check_java,
    check_release,
    in_its_words,
    known_settings,
    own_sources,
    settings_to_go_on,
)
from tests.house import tree

SPARK = Path(pyspark.__file__).parent
OPERATORS = "org/apache/spark/sql/catalyst/plans/logical/"
LOGICAL = {
    "FlatMapGroupsInPandasWithStateExec": "FlatMapGroupsInPandasWithState",
    "FlatMapGroupsWithStateExec": "FlatMapGroupsWithState",
    "SessionWindowStateStoreRestoreExec": "Aggregate",
    "SessionWindowStateStoreSaveExec": "Aggregate",
    "StatefulStreamlineAggregateExec": "Aggregate",
    "StateStoreRestoreExec": "Aggregate",
    "StateStoreSaveExec": "Aggregate",
    "StreamingDeduplicateExec": "Deduplicate",
    "StreamingDeduplicateWithinWatermarkExec": "DeduplicateWithinWatermark",
    "StreamingGlobalLimitExec": "GlobalLimit",
    "StreamingSymmetricHashJoinExec": "Join",
    "TransformWithStateExec": "TransformWithState",
    "TransformWithStateInPandasExec": "TransformWithStateInPandas",
    "TransformWithStateInPySparkExec": "TransformWithStateInPySpark",
}
"""Spark's physical operators that read or write a state store, and the logical ones that they execute."""


@cache
def classes(jar: str) -> dict[str, bytes]:
    """The classes of a jar of the installed Spark, but those within others."""
    (path,) = SPARK.glob(f"jars/{jar}_*.jar")
    with zipfile.ZipFile(path) as found:
        names = [name for name in found.namelist() if name.endswith(".class") and "$" not in name]
        return {name.removesuffix(".class"): found.read(name) for name in names}


def test_the_table_has_each_operator_that_writes_state_in_the_installed_release() -> None:
    found = {
        Path(name).name
        for name, code in classes("spark-sql").items()
        if re.search(r"/(?!Base)\w+Exec\Z", name) and b"stateInfo" in code
        if b"StatefulOperator" in code or b"StateStoreWriter" in code
    }
    assert found <= set(LOGICAL), "a physical operator of this release is not known here"
    logical = {Path(name).name for name in classes("spark-catalyst") if name.startswith(OPERATORS)}
    executed = {LOGICAL[name] for name in found}
    assert executed <= logical
    assert executed <= STATEFUL
    assert STATEFUL & logical == executed | {"Distinct"}, "Spark rewrites Distinct as Aggregate"


def test_the_table_has_each_operator_of_which_spark_says_that_it_keeps_state() -> None:
    """Spark overrides `isStateful` in them, since 4.3."""
    found = {Path(name).name for name, code in classes("spark-catalyst").items() if b"isStateful" in code}
    found = {name for name in found if name in STATEFUL} if found else set()
    assert bool(found) is not before("4.3")
    logical = {Path(name).name for name in classes("spark-catalyst") if name.startswith(OPERATORS)}
    assert found == (set() if before("4.3") else STATEFUL & logical)


@pytest.mark.parametrize(
    "source", [path for path in tree.files() if path.suffix == ".java"], ids=lambda path: path.name
)
def test_each_class_of_spark_that_a_source_of_ours_names_is_in_the_installed_release(source: Path) -> None:
    if not own_sources([source.name]):
        pytest.skip("the installed release has no use for it")
    text = in_its_words(source.read_text(encoding="utf-8"))
    named = {name.replace(".", "/") for name in re.findall(r"\borg\.apache\.spark\.[\w.]+\.[A-Z]\w*", text)}
    jars = ("spark-core", "spark-sql", "spark-catalyst", "spark-unsafe")
    known = {name for jar in jars for name in classes(jar)}
    assert named <= known


def test_the_class_for_files_of_a_checkpoint_is_in_the_installed_release() -> None:
    assert CHECKPOINTS_BY_FILE_SYSTEM.replace(".", "/") in classes("spark-sql")


def test_a_driver_sets_only_what_the_installed_release_knows() -> None:
    (jar,) = SPARK.glob("jars/spark-catalyst_*.jar")
    with zipfile.ZipFile(jar) as found:
        code = found.read("org/apache/spark/sql/internal/SQLConf$.class")
    for name in releases._SINCE:
        assert (name.encode() in code) is (name in known_settings({name: ""}))


@pytest.mark.parametrize(
    "version",
    [*(f"{release}.1" for release in RELEASES), "4.3.0.dev0", "4.3.0-amzn-1"],
)
def test_a_tested_release_is_accepted(version: str) -> None:
    check_release(version)


@pytest.mark.parametrize("version", ["3.4.4", "4.4.0", "4.20.0", "5.0.0"])
def test_another_release_is_refused_in_one_line(version: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_release(version)
    assert str(refused.value) == f"PySpark {version} is not supported; install PySpark {releases.IN_WORDS}"


def test_a_python_with_which_the_release_does_not_run_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError) as refused:
        check_release("4.1.4", python=(3, 15))
    assert str(refused.value) == "PySpark 4.1.4 runs on Python 3.10 to 3.14, and this is 3.15; use another Python"


@pytest.mark.parametrize("release", RELEASES)
def test_the_table_of_pythons_allows_what_the_package_of_the_installed_release_allows(release: str) -> None:
    if not pyspark.__version__.startswith(f"{release}."):
        pytest.skip("another release is installed")
    (package,) = distributions(name="pyspark", path=[str(SPARK.parent)])  # an older pip makes no dist-info of it
    told = "\n".join(package.metadata.get_all("Classifier", ()))
    named = re.findall(r"^Programming Language :: Python :: 3\.(\d+)$", told, re.MULTILINE)
    assert releases.RUNS_ON[release].python == ((3, min(map(int, named))), (3, max(map(int, named))))


@pytest.mark.parametrize(
    ("hadoop", "major"), [("3.3.4", 1), ("3.3.6-amzn-5", 1), ("3.4.0", 2), ("3.4.1", 2), ("3.5.0", 2)]
)
def test_the_sdk_is_that_of_hadoop(hadoop: str, major: int) -> None:
    spark = MagicMock()
    spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion.return_value = hadoop
    assert aws_sdk(spark) == major


@pytest.mark.parametrize("release", ["3.5.9", "4.0.5", "4.1.4", "4.2.1"])
def test_which_releases_must_be_told_to_keep_to_the_format(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", release)
    told = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"} if release[:3] in ("4.0", "4.1") else {}
    assert [settings_to_go_on(partial(int, found)) for found in ("1", "2")] == [told, {}]
    assert settings_to_go_on(lambda: None) == {}


def test_pip_takes_the_same_releases() -> None:
    project = tomllib.loads((tree.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bounds,) = [one for one in project["optional-dependencies"]["spark"] if one.startswith("pyspark")]
    major, minor = RELEASES[-1].split(".")
    assert bounds == f"pyspark>={RELEASES[0]},<{major}.{int(minor) + 1}"


@pytest.mark.parametrize(
    ("release", "version", "older"),
    [
        ("4.1", "4.0.5", True),
        ("4.1", "4.1.0.dev0", False),
        ("4.1", "4.10.0", False),
        ("4.1", "3.5.9-amzn-2", True),
    ],
)
def test_releases_are_compared_as_numbers(release: str, version: str, older: bool) -> None:
    assert before(release, version) is older


def test_each_release_has_its_connectors() -> None:
    assert {release for release, _ in OF_RELEASE} >= set(RELEASES)


@pytest.mark.parametrize(
    ("java", "line"),
    [
        ("1.8", "PySpark 4.1.4 runs on Java 17 to 21, and this is Java 8; set JAVA_HOME to Java 17 to 21"),
        ("25", "PySpark 4.1.4 runs on Java 17 to 21, and this is Java 25; set JAVA_HOME to Java 17 to 21"),
        ("21", None),
    ],
)
def test_a_java_on_which_the_release_does_not_run_is_refused_in_one_line(
    java: str, line: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    spark = MagicMock()
    spark._jvm.java.lang.System.getProperty.return_value = java
    with nullcontext() if line is None else pytest.raises(UsageError) as refused:
        check_java(spark)
    assert (None if refused is None else str(refused.value)) == line


@pytest.mark.parametrize(
    ("text", "of_3_5"),
    [
        ("1 hour", "1 hours"),
        ("90 minutes", "1 hours 30 minutes"),
        ("  INTERVAL 2 Weeks 1 day", "15 days"),
        ("1 year 1 month", "1 years 1 months"),
        ("1.5 seconds", "1.5 seconds"),
        ("1500 milliseconds", "1.5 seconds"),
    ],
)
def test_an_interval_is_one_whatever_the_words(text: str, of_3_5: str) -> None:
    assert releases.interval(text) == releases.interval(of_3_5)


def test_the_gap_of_a_session_is_alike_in_all_releases() -> None:
    cast = {"class": "org.apache.spark.sql.catalyst.expressions.Cast", "dataType": "interval"}
    literal = {"class": "org.apache.spark.sql.catalyst.expressions.Literal"}
    newest = [cast, {**literal, "value": "90 minutes", "dataType": "string"}]
    of_3_5 = [cast, {**literal, "value": "1 hours 30 minutes", "dataType": "interval"}]
    assert releases.nodes_now(newest) == releases.nodes_now(of_3_5)
    alone = [{**literal, "value": "90 minutes", "dataType": "string"}]
    assert releases.nodes_now(alone) == alone, "a text that is cast to nothing"


@pytest.mark.parametrize("text", ["", "an hour", "1 fortnight", "5 minutes ago", "1 hour, 2 minutes"])
def test_a_text_that_is_no_interval_stays(text: str) -> None:
    assert releases.interval(text) == text


@pytest.mark.parametrize(
    ("spark", "arrow", "refused"), [("3.5.9", "26.0.1", True), ("3.5.9", "25.0.0", False), ("4.0.5", "26.0.1", False)]
)
def test_a_pyarrow_with_which_each_batch_would_fail_is_refused(
    monkeypatch: pytest.MonkeyPatch, spark: str, arrow: str, refused: bool
) -> None:
    monkeypatch.setattr(pyspark, "__version__", spark)
    words = f"applyInPandasWithState of PySpark {spark} fails with pyarrow {arrow}; pip install 'pyarrow<26'"
    with pytest.raises(UsageError, match=re.escape(words)) if refused else nullcontext():
        releases.refuse_arrow("FlatMapGroupsInPandasWithState", version=lambda package: arrow)
    releases.refuse_arrow("Aggregate", version=lambda package: "30")
