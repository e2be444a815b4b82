"""A start of Spark that fails says why, and what passes by itself ends no member for good.

Without Java the line was "JAVA_GATEWAY_EXITED" (exit code 8), and so was that of a JVM that was killed before Python
reached it. A package whose POM stands without its jar in Maven's cache on this machine could never be fetched, and a
repository that refused for a moment was asked once.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from tenure.errors import DriverDied, QueryFailed, TenureError, UsageError
from tenure.spark import session as session_module
from tenure.spark.session import start_session
from tenure.spark.submit import read_submit
from tests.kit.clock import ManualClock
from tests.kit.servers.jars import fetch
from tests.kit.waiting import NEVER_S
from tests.regressions.fake_spark import FakeSpark

UNRESOLVED = (
    """echo 'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: g#a;1: not found]'"""
)
NO_JAR = """echo 'Exception in thread "main" java.lang.RuntimeException: [download failed: g#a;1!a.jar]'"""
BUSY = "echo '	SERVER ERROR: Service Unavailable url=http://m/g/a/1/a-1.jar'; " + NO_JAR


class Clock(ManualClock):
    """Notes the pauses."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def starting(folder: Path, clock: Clock | None = None, submit: str | None = "--packages g:a:1") -> TenureError:
    with pytest.raises(TenureError) as failed:
        start_session(
            name="x",
            master="local[1]",
            conf={},
            log=str(folder / "log"),
            submit=read_submit(submit, conf={}),
            clock=clock or Clock(),
        )
    return failed.value


@pytest.mark.parametrize(
    ("script", "kind", "line"),
    [
        (
            "echo 'JAVA_HOME is not set' >&2; exit 1",
            UsageError,
            "JAVA_HOME is not set, and no java is in PATH; install",
        ),
        (
            "exec /no/such/bin/java -cp x",
            UsageError,
            "Spark finds no Java: /no/such/bin/java is not there; install Java",
        ),
        (
            "echo 'java.lang.UnsupportedClassVersionError: x (class file version 61.0)'; exit 1",
            UsageError,
            "Spark needs Java 17 or newer, and the installed Java is older; install Java 17 or newer (apt-get install",
        ),
        ("kill -9 $$", DriverDied, "Spark's JVM ended with exit code -9 while Spark started; see"),
        ("exit 137", DriverDied, "Spark's JVM ended with exit code 137 while Spark started; see"),
        (
            "echo '# There is insufficient memory for the Java Runtime Environment to continue.'; exit 1",
            DriverDied,
            "Spark's JVM ended with exit code 1 while Spark started; see",
        ),
        ("echo 'Error: no luck'; exit 1", QueryFailed, "Spark does not start on master 'local[1]': no luck; see"),
        ("exit 3", QueryFailed, "Spark does not start on master 'local[1]': spark-submit ended with exit code 3; see"),
    ],
)
def test_why(script: str, kind: type[TenureError], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeSpark(tmp_path, script, monkeypatch)
    error = starting(tmp_path)
    assert type(error) is kind
    assert line in str(error)


def ways(spark: FakeSpark) -> list[bool]:
    """For each start, whether it had settings of Ivy without Maven's cache."""
    return ["spark.jars.ivySettings=" in start for start in spark.starts]


def test_a_package_that_is_nowhere_is_asked_for_once_in_each_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, spark = Clock(), FakeSpark(tmp_path, f"{UNRESOLVED}; exit 1", monkeypatch)
    error = starting(tmp_path, clock)
    assert type(error) is QueryFailed
    assert str(error).startswith("Spark cannot fetch g:a:1; check the coordinates, and the repositories in")
    assert (ways(spark), clock.slept) == ([False, True], [])


def test_a_repository_that_refuses_is_asked_again_and_the_member_may_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, spark = Clock(), FakeSpark(tmp_path, f"{BUSY}; exit 1", monkeypatch)
    error = starting(tmp_path, clock)
    assert type(error) is DriverDied
    assert str(error).startswith("Spark cannot fetch g:a:1; see that the repository answers, or name a mirror")
    assert ways(spark) == [False, True] * 3
    assert [round(pause) for pause in clock.slept] == pytest.approx([1, 2, 4, 8, 16], abs=2)


def test_maven_s_cache_is_left_out_though_a_repository_refused_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f'case "$args" in *spark.jars.ivySettings=*) {BUSY};; *) {NO_JAR};; esac; exit 1'
    spark = FakeSpark(tmp_path, script, monkeypatch)
    starting(tmp_path)
    assert ways(spark) == [False, True, True, True, True, True]


@pytest.mark.parametrize("where", ["flag", "file"])
def test_settings_of_ivy_of_the_user_stay(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = FakeSpark(tmp_path, f"{UNRESOLVED}; exit 1", monkeypatch)
    submit = "--packages g:a:1"
    if where == "flag":
        submit += " --conf spark.jars.ivySettings=/mine.xml"
    else:
        (tmp_path / "spark" / "conf").mkdir()
        (tmp_path / "spark" / "conf" / "spark-defaults.conf").write_text("spark.jars.ivySettings /mine.xml\n")
    starting(tmp_path, submit=submit)
    assert len(spark.starts) == 1
    assert "tenure-ivy" not in spark.starts[0]


def test_without_packages_nothing_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = FakeSpark(tmp_path, f"{BUSY}; exit 1", monkeypatch)
    starting(tmp_path, submit=None)
    assert len(spark.starts) == 1


@pytest.mark.parametrize("helps", [True, False])
def test_the_jars_of_the_tests_are_fetched_the_same_way(
    helps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helped = "exit 0" if helps else "true"
    script = f'case "$args" in *spark.jars.ivySettings=*) {helped};; esac; {NO_JAR}; exit 1'
    spark = FakeSpark(tmp_path, script, monkeypatch)
    flags, program = ["--packages", "g:a:1"], f"{tmp_path}/spark/bin/spark-submit"
    why = fetch(tmp_path, flags, program=program, clock=Clock())
    assert why == (None if helps else "cannot fetch g:a:1")
    assert ways(spark) == [False, True]


@pytest.mark.long
def test_a_pom_without_its_jar_in_maven_s_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark itself, with a repository and a cache of this folder."""
    repository, cache = tmp_path / "repository", tmp_path / "home" / ".m2" / "repository"
    place = repository / "g" / "a" / "1"
    place.mkdir(parents=True)
    named = "<groupId>g</groupId><artifactId>a</artifactId><version>1</version>"
    (place / "a-1.pom").write_text(f"<project><modelVersion>4.0.0</modelVersion>{named}</project>")
    with zipfile.ZipFile(place / "a-1.jar", "w") as jar:
        jar.writestr("here.txt", "here")
    (cache / "g" / "a" / "1").mkdir(parents=True)
    shutil.copy(place / "a-1.pom", cache / "g" / "a" / "1")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"file://{repository}/")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.home={tmp_path / 'home'}")
    conf = {"spark.jars.ivy": str(tmp_path / "ivy")}
    submit = read_submit("--packages g:a:1", conf=conf)
    session = start_session(name="x", master="local[1]", conf=conf, log=str(tmp_path / "log"), submit=submit)
    try:
        assert (tmp_path / "ivy" / "jars" / "g_a-1.jar").exists()
        assert "[download failed: g#a;1!a.jar]" in (tmp_path / "log").read_text()
    finally:
        session_module.end_session(session, patience_s=NEVER_S)
