"""Bad input without Spark: one line, an exit code of its own, nothing made."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.cli.support import COPY, Place, tenure
from tests.kit.members import MAIN
from tests.kit.waiting import NEVER_S


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TENURE_STORE", "TENURE_STORAGE", "TENURE_SCOPE", "TENURE_TTL", "TENURE_PARAMS"):
        monkeypatch.delenv(name, raising=False)


BOTH = ["--store", "{store}", "--storage", "{storage}"]


def retained(value: str) -> list[str]:
    return ["--conf", f"spark.sql.streaming.minBatchesToRetain={value}"]


def the_error(printed: str) -> str:
    """The error of a run that ends while Spark starts: the last line, after the wait for Spark, which is repeated on a
    slow machine."""
    *waits, error = printed.splitlines()
    assert waits
    assert all(" waits for Spark to start" in line for line in waits)
    assert error.startswith("tenure: error: ")
    return error.removeprefix("tenure: error: ")


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        ([], 2, "no command is given"),
        (["checkpoints"], 2, "no command is given"),
        (["bogus"], 2, "No such command 'bogus'"),
        (["status", "--bogus"], 2, "No such option: --bogus"),
        (["run"], 2, "Missing argument 'PIPELINE.py'"),
        (["status", "--output", "xml"], 2, "'xml' is not one of 'table', 'json'"),
        (["status", "--store", "{store}"], 2, "no scope is set; give --scope, set TENURE_SCOPE, or"),
        (["status", "--scope", "rows"], 2, "no store is set; give --store"),
        (["status", "--scope", "a b", "--store", "{store}"], 2, "scope 'a b' is not a name; use letters"),
        (["status", "--scope", "rows", "--store", "foo:///x"], 2, "'foo:///x' has no known scheme; use one of: sqlite"),
        (["status", "--scope", "rows", "--store", "x.db"], 2, "'x.db' has no known scheme"),
        (["status", "--scope", "rows", "--store", "sqlite://x.db"], 2, "absolute path; write three slashes"),
        (
            ["status", "--scope", "rows", "--store", "sqlite:///no/such/x.db"],
            4,
            "does not exist, nor does its directory /no/such; check the path, and that its volume is",
        ),
        (
            ["history", "--scope", "rows", "--store", "{missing}"],
            4,
            "does not exist, but its directory does; check the path, and that its volume is mounted",
        ),
        (["checkpoints", "show", "a/../b", *BOTH, "--scope", "x"], 2, "is not a path of names"),
        (
            ["run", "{file}", "--connector", "kafak", *BOTH],
            2,
            "no connector 'kafak'; known: kafka, s3, delta, iceberg; or",
        ),
        (["run", "{file}", "--param", "input"], 2, "--param 'input' has no value; write --param NAME=VALUE"),
        (["run", "{file}", "--param", "=x"], 2, "--param '=x' has no value"),
        (["run", "{file}", "--conf", "spark.x"], 2, "--conf 'spark.x' has no value; write --conf NAME=VALUE"),
        (
            ["run", "{file}", *retained("0"), *BOTH],
            2,
            "spark.sql.streaming.minBatchesToRetain cannot be '0': a takeover",
        ),
        (
            ["run", "{file}", *retained("-1"), *BOTH],
            2,
            "cannot be '-1': a takeover needs the logs and state",
        ),
        (["run", "{file}", *retained("1"), *BOTH], 2, "cannot be '1': a takeover needs"),
        (["run", "{file}", *retained("two"), *BOTH], 2, "give 2 or more, or leave it out (100)"),
        (["run", "{file}", "--submit", " ".join(retained("1")), *BOTH], 2, "minBatchesToRetain cannot be '1'"),
        (["run", "{file}", "--event-log", "/no/such/log"], 2, "--event-log '/no/such/log' cannot be written: No such"),
        (["run", "{file}", "--spark-log", "/"], 2, "--spark-log '/' cannot be written: Is a directory; name a file"),
        (["run", "{file}", "--ttl", "5"], 2, "setting 'ttl' cannot be '5'; a duration is a number with a unit"),
        (["run", "{file}", "--ttl", "10ms"], 2, "setting 'ttl' cannot be '10ms'; it is at least 500ms"),
        (["run", "none.py", "--store", "{store}", "--storage", "file:///x"], 7, "'none.py' is not there"),
        (["run", "{file}", "--store", "{store}"], 2, "no storage is set"),
        (["run", "{file}", "--store", "{store}", "--storage", "nix://x"], 2, "storage 'nix://x/rows' cannot be used"),
        (["run", "{file}", "--store", "nix:///x", "--storage", "{storage}"], 2, "'nix:///x' has no known scheme"),
        (["run", "{file}", "--store", "sqlite:///no/such/x.db", "--storage", "{storage}"], 4, "mkdir -p /no/such"),
    ],
)
def test_one_line_and_a_code(place: Place, arguments: list[str], code: int, line: str) -> None:
    known = {"{store}": f"sqlite://{place.store}", "{storage}": f"file://{place.storage}"}
    known |= {"{file}": place.pipeline(COPY), "{missing}": f"sqlite://{place.folder}/missing.db"}
    place.make_store()
    told = tenure(*[known.get(argument, argument) for argument in arguments])
    assert told.code == code
    assert line in told.error


@pytest.mark.parametrize(("there", "why"), [(False, "No such file or directory"), (True, "Not a directory")])
def test_a_temporary_folder_that_cannot_be_used(
    place: Place, monkeypatch: pytest.MonkeyPatch, there: bool, why: str
) -> None:
    if there:
        (place.folder / "temporary").touch()
    monkeypatch.setenv("TMPDIR", str(place.folder / "temporary"))
    told = tenure("run", place.pipeline(COPY), *place.flags())
    assert told.code == 2
    assert told.error == (
        f"the temporary folder '{place.folder}/temporary' cannot be used: {why}; "
        "make room in it, or set TMPDIR to a folder that can be written to"
    )


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("foo=bar", "setting 'foo' is not a setting of Spark's; write --conf spark.NAME=VALUE"),
        (
            "spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true",
            "is refused: nobody could ask the broker which records it still has; leave it out",
        ),
        (
            "spark.x.asyncProgressTrackingEnabled=true",
            "is refused: it writes offsets late, so no batch could",
        ),
    ],
)
def test_a_setting_of_spark_that_is_refused_before_spark_starts(place: Place, setting: str, line: str) -> None:
    told = tenure("run", place.pipeline(COPY), *place.flags(), "--conf", setting)
    assert told.code == 2
    assert line in told.error
    assert place.look("history") == []


@pytest.mark.parametrize("default", [False, True])
def test_a_run_that_is_refused_before_spark_starts_leaves_no_log(
    place: Place, monkeypatch: pytest.MonkeyPatch, default: bool
) -> None:
    (place.folder / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(place.folder / "temporary"))
    flags = place.flags()
    if default:
        at = flags.index("--spark-log")
        del flags[at : at + 2]
    flags += ["--event-log", str(place.folder / "events")]
    broken = place.folder / "broken.py"
    broken.write_text("raise ValueError('no luck')\n")
    assert tenure("run", str(broken), *flags).code == 7
    assert not (place.folder / "events").exists()
    for more in (["--conf", "foo=bar"], ["--http", "here"]):
        assert tenure("run", place.pipeline(COPY), *flags, *more).code == 2
    assert not (place.folder / "spark.log").exists()
    assert list((place.folder / "temporary").iterdir()) == []


def test_an_address_for_probes_that_is_none(place: Place) -> None:
    told = tenure("run", place.pipeline(COPY), *place.flags(), "--http", "here")
    assert told.code == 2
    assert told.error == "--http 'here' is no address; write HOST:PORT, for example 127.0.0.1:8008"


def test_a_master_that_spark_does_not_know(place: Place) -> None:
    command = [*MAIN, "run", place.pipeline(COPY), *place.flags(), "--master", "lokal[2]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=NEVER_S, check=False)
    assert done.returncode == 8
    assert the_error(done.stderr).startswith("Spark does not start on master 'lokal[2]': Master must")
    assert "Master must" in (place.folder / "spark.log").read_text()


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        (
            "spark.sql.streaming.minBatchesToRetain 0",
            2,
            "setting spark.sql.streaming.minBatchesToRetain cannot be '0': ",
        ),
        ("spark.sql.codegen.maxFields many", 8, "Spark does not start on master 'local[2]': [INVALID_CONF_VALUE"),
    ],
)
def test_a_value_in_spark_s_own_file_that_cannot_be_used(place: Place, line: str, code: int, told: str) -> None:
    """Spark reads it when the session is used for the first time; that was the end of the driver, and of its words."""
    (place.folder / "spark-defaults.conf").write_text(f"{line}\n")
    command = [*MAIN, "run", place.pipeline(COPY), *place.flags()]
    environment = {**os.environ, "SPARK_CONF_DIR": str(place.folder)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=NEVER_S, check=False, env=environment)
    assert done.returncode == code, done.stderr
    assert the_error(done.stderr).startswith(told)


def test_a_cluster_that_cannot_be_reached(place: Place) -> None:
    master = "k8s://https://127.0.0.1:1"
    command = [*MAIN, "run", place.pipeline(COPY), *place.flags(), "--master", master]
    command += ["--conf", "spark.kubernetes.container.image=none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=NEVER_S, check=False)
    assert done.returncode == 8
    assert the_error(done.stderr).startswith(f"Spark does not start on master '{master}': Connection refused; see ")


def test_yarn_without_its_configuration(place: Place) -> None:
    command = [*MAIN, "run", place.pipeline(COPY), *place.flags(), "--master", "yarn"]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=NEVER_S, check=False, env=environment)
    assert done.returncode == 8
    assert "master 'yarn': When running with master 'yarn' either HADOOP_CONF_DIR or" in the_error(done.stderr)


def test_a_setting_of_the_environment_and_of_the_file(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.make_store()
    (tmp_path / "tenure.toml").write_text(f'store = "sqlite://{place.store}"\nscope = "rows"\nttl = "soon"\n')
    told = tenure("status")
    assert (told.code, "setting 'ttl' cannot be 'soon'" in told.error) == (2, True)
    monkeypatch.setenv("TENURE_TTL", "5s")
    assert tenure("status", "--output", "json").json["scope"] == "rows"
    monkeypatch.setenv("TENURE_SCOPE", "of-the-environment")
    assert tenure("status", "--output", "json").json["scope"] == "of-the-environment"
    assert tenure("status", "--scope", "flag", "--output", "json").json["scope"] == "flag"
    monkeypatch.setenv("TENURE_PARAMS", "no json")
    assert "TENURE_*" in tenure("status").error


def test_a_store_file_that_is_no_database(place: Place) -> None:
    place.store.write_text("this is a text, and a long one too " * 100)
    for command in (["run", place.pipeline(COPY), *place.flags()], ["status", *place.flags()[:2], "--scope", "rows"]):
        told = tenure(*command)
        assert told.code == 5
        assert "is not a SQLite database; give another path" in told.error
    assert place.store.read_text().startswith("this is a text")


def test_a_checkpoint_that_names_a_blob_outside_of_the_storage(place: Place) -> None:
    place.make_store()
    secret = place.folder / "secret"
    secret.write_bytes(b"{}")
    pointer = {"address": "../../../secret", "size": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    record = json.dumps({"v": 1, "uid": "u", "epoch": 1, "blob": pointer})
    place.sql("INSERT INTO records VALUES ('rows', 'checkpoints/copy/000000000000', ?, 1, NULL)", (record.encode(),))
    for command in (["checkpoints", "show", "copy"], ["checkpoints", "list"], ["status"]):
        storage = ["--storage", f"file://{place.storage}"] if command[0] == "checkpoints" else []
        told = tenure(*command, "--store", f"sqlite://{place.store}", *storage, "--scope", "rows")
        assert told.code == 5
        assert told.error == (
            "handle 'checkpoints/copy/000000000000' does not decode: it names blob '../../../secret', "
            "which is not a relative path of names"
        )
    assert secret.read_bytes() == b"{}"


def test_a_database_of_something_else(place: Place) -> None:
    with sqlite3.connect(place.store) as other:
        other.execute("CREATE TABLE bills (id INTEGER)")
    told = tenure("run", place.pipeline(COPY), *place.flags())
    assert told.code == 2
    assert "is a database of something else; give the store a file of its own" in told.error


def test_a_scope_that_never_ran_is_empty(place: Place) -> None:
    place.make_store()
    empty: dict[str, object] = {
        "scope": "rows",
        "store": "sqlite",
        "leader": None,
        "epoch": 0,
        "paused": False,
        "pause": None,
        "failing": None,
        "switchover": None,
        "members": [],
        "queries": [],
        "unread": [],
        "leads_since": None,
        "gone": [],
    }
    status = place.look("status")
    assert status.pop("verdict")["level"] == "warn"
    assert status == empty
    assert place.look("history") == []
    assert place.look("checkpoints", "list") == []
    told = tenure("checkpoints", "show", "copy", *place.flags()[:4], "--scope", "rows")
    assert told.code == 2
    assert "query 'copy' has no checkpoint in scope 'rows'; see tenure checkpoints list" in told.error


def test_the_command_itself_has_no_traceback(place: Place) -> None:
    command = [*MAIN, "status", "--store", "sqlite:///no/such/x.db", "--scope", "rows"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=NEVER_S, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (4, "", 1)


def test_an_output_that_cannot_be_written(place: Place) -> None:
    place.make_store()
    command = [*MAIN, "status", *place.flags()[:2], "--scope", "rows", "--output", "json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=NEVER_S, check=False)
    assert (done.returncode, done.stderr) == (6, "tenure: error: [Errno 28] No space left on device\n")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=NEVER_S, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
