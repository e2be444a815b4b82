"""No password is printed, and none has to stand where others can read it. `tenure list` printed the whole URL of a
store whose client was not installed; the only place for a password of ZooKeeper or etcd was that URL, on a command line
that everybody reads with `ps`; and a secret in `[conf]` of tenure.toml was on the command line of the JVM."""

from __future__ import annotations

import io
import os
import stat
import warnings
from contextlib import redirect_stderr
from pathlib import Path
from urllib.parse import SplitResult

import pytest

from tenure.agent.child import ChildProcess
from tenure.backends import registry
from tenure.backends.etcd import cluster_of
from tenure.backends.shared.server_url import StoreUrl
from tenure.backends.zookeeper import ensemble_of
from tenure.cli.output import say
from tenure.clock import Clock
from tenure.coordination.store import CoordinationStore
from tenure.coordination.store_url import split_url
from tenure.errors import QueryFailed, StorageError, TenureError, UsageError
from tenure.event_log import JsonLines
from tenure.events import StoreAway
from tenure.settings import PasswordInUrl, Settings, load_settings
from tenure.sinks import MySQL, Postgres
from tenure.sinks.sql.sink import SqlSink
from tenure.spark.session import start_session
from tenure.spark.submit import read_submit
from tenure.storage.reach import reach
from tests.cli.support import tenure
from tests.kit.clock import ManualClock
from tests.regressions.fake_spark import FakeSpark

SECRET = "pass-of-ann"


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TENURE_STORE", "TENURE_STORE_PASSWORD", "TENURE_STORE_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_the_url_of_a_store_without_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_missing(url: SplitResult, clock: Clock, existing: bool) -> CoordinationStore:
        raise ModuleNotFoundError("No module named 'grpc'", name="grpc")

    backend = registry.Backend(form="etcds://h", open=open_missing, extra="etcd", package="grpc")
    monkeypatch.setitem(registry.BACKENDS, "etcds", backend)
    told = tenure("list", "--store", f"etcds://ann:{SECRET}@host/x", "--scope", "rows")
    assert told.code == 2
    assert SECRET not in told.err + told.out
    assert told.error.startswith("store URL 'etcds://ann:***@host/x' needs the Python package 'grpc'")
    warning, _ = told.err.splitlines()
    assert warning.startswith("tenure: warning: store URL 'etcds://ann:***@host/x' has a password, which lists of")
    assert "set TENURE_STORE_PASSWORD" in warning


@pytest.mark.parametrize(
    "store",
    [
        f"etcd://ann:{SECRET}@h:x",
        f"etcds://ann:{SECRET}/a@h:2379",
        f"etcds://ann:{SECRET}?a@h:2379",
        f"etcd://ann:{SECRET}#a@h:2379",
        f"etcds://ann:a@{SECRET}@h:0",
        f"etcds://ann:a {SECRET}@h:2379?no=such",
        f"nix://ann:{SECRET}@h",
        f"nix://ann:a {SECRET}'@h",
        f"sqlite://ann:{SECRET}@h/x",
        f"memory://ann:{SECRET}@h",
        f"kubernetes://ann:{SECRET}@h/x",
        f"zookeeper://ann:{SECRET}@h?sasl=NONE",
    ],
)
def test_a_url_that_cannot_be_used(store: str) -> None:
    told = tenure("list", "--store", store, "--scope", "rows")
    assert told.code == 2
    assert told.error
    assert SECRET not in told.err + told.out


@pytest.mark.parametrize(
    "words",
    [
        ["--submit", f"--conf fs.s3a.secret.key={SECRET}"],
        ["--submit", f"--packages 'a password={SECRET}"],
        ["--param", f"=password={SECRET}"],
        ["--storage", f"ftp://ann:{SECRET}@h/x"],
        ["--storage", f"s3://ann:{SECRET}@bucket/x"],
    ],
)
def test_a_flag_that_cannot_be_used(words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "rows.py"
    file.write_text("import tenure\n@tenure.pipeline\ndef rows(job): pass\n")
    rest = [] if words[0] == "--storage" else ["--storage", f"file://{tmp_path}/storage"]
    told = tenure("run", str(file), "--store", f"sqlite://{tmp_path}/ha.db", *rest, *words)
    assert told.code == 2
    assert SECRET not in told.err + told.out


def test_a_setting_of_another_type(tmp_path: Path) -> None:
    (tmp_path / "tenure.toml").write_text("store_password = 47114711\n")
    told = tenure("list", "--store", f"sqlite://{tmp_path}/ha.db", "--scope", "rows")
    assert told.error.startswith("setting 'store_password' cannot be what is given")
    assert "4711" not in told.err


def test_errors_events_and_lines(tmp_path: Path) -> None:
    cited = f"no route to zookeeper://ann:{SECRET}@h1:2181,h2:2181/x, user ann, password='{SECRET}'"
    error = TenureError(cited, fix=f"see postgresql://ann:{SECRET}@h/db")
    event = StoreAway(scope="rows", member="ann", why=cited, again_s=1)
    with redirect_stderr(io.StringIO()) as printed:
        say(cited)
    JsonLines(str(tmp_path / "events"), clock=ManualClock())(event)
    for text in (str(error), repr(error.fix), repr(event), printed.getvalue(), (tmp_path / "events").read_text()):
        assert SECRET not in text
        assert "ann:***@h" in text


def test_nothing_that_connects_shows_it_when_it_is_printed() -> None:
    url = StoreUrl(split_url(f"etcd://ann:{SECRET}@h"), port=1, options=())
    sasl = StoreUrl(split_url(f"zookeeper://ann:{SECRET}@h?sasl=DIGEST-MD5"), port=1, options=("sasl",))
    settings = Settings(store="etcd://ann@h", store_password=SECRET)
    shown = [repr(cluster_of(url, tls=False)), repr(ensemble_of(url)), repr(ensemble_of(sasl)), repr(settings)]
    assert not [text for text in shown if SECRET in text]


@pytest.mark.parametrize(("sink", "scheme"), [(Postgres, "postgresql"), (MySQL, "mysql")])
@pytest.mark.parametrize("url", [f"ann:{SECRET}@h/db", f"SCHEME://ann:{SECRET}@h:x/db", f"ann:{SECRET}"])
def test_the_sinks_for_databases(sink: type[SqlSink], scheme: str, url: str) -> None:
    with pytest.raises(UsageError) as refused:
        sink(url.replace("SCHEME", scheme), "t").check(output_mode="append")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("url", [f"ftp://ann:{SECRET}@h/x", f"hdfs://ann:{SECRET}@nn:8020/x"])
def test_a_storage_takes_no_password_from_its_url(url: str) -> None:
    """Its URL is in run directories, and so in records, events and file names of plans."""
    with pytest.raises(UsageError, match="has a password, which lists of processes and records would show") as refused:
        reach(url)
    assert SECRET not in str(refused.value)


# --- other places for it --------------------------------------------------------------------------------------


def test_the_password_of_a_store_comes_from_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text("of/the file@\n")
    monkeypatch.setenv("TENURE_STORE_PASSWORD_FILE", str(file))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings = load_settings(store="etcd://ann@h1:1,h2:2/x")
    url = StoreUrl(split_url(settings.store_url()), port=1, options=())
    assert (url.user, url.password, url.hosts) == ("ann", "of/the file@", ("h1:1", "h2:2"))
    monkeypatch.setenv("TENURE_STORE_PASSWORD", SECRET)
    assert load_settings(store="etcd://ann@h").store_url() == f"etcd://ann:{SECRET}@h"
    with pytest.warns(PasswordInUrl):
        assert load_settings(store="etcd://ann:own@h").store_url() == "etcd://ann:own@h"
    for nobody in ("sqlite:///x.db", "etcd://h:1/x", "kubernetes:///x"):
        assert load_settings(store=nobody).store_url() == nobody


def test_a_user_without_a_password_and_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["list", "--store", "etcd://ann@h", "--scope", "rows"]
    assert "names a user, and no password is set; set TENURE_STORE_PASSWORD or" in tenure(*words).error
    monkeypatch.setenv("TENURE_STORE_PASSWORD_FILE", "/no/such/file")
    told = tenure(*words)
    assert told.code == 2
    assert told.error.startswith("store_password_file '/no/such/file' cannot be read")


def test_a_driver_gets_it_with_the_settings_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is that of the JVM, of Spark's workers, and of the pipeline's code."""
    monkeypatch.setenv("TENURE_STORE_PASSWORD", SECRET)
    monkeypatch.setenv("TENURE_STORE", f"etcd://ann:{SECRET}@h")
    monkeypatch.setenv("TENURE_TTL", "5s")
    child = ChildProcess(["/bin/sh", "-c", f"env > {tmp_path}/environment"], member="ann")
    child.wait()
    child.reap()
    child.clean_up()
    environment = (tmp_path / "environment").read_text()
    assert "TENURE_TTL=5s" in environment
    assert SECRET not in environment
    data = Settings(store="etcd://ann@h", store_password=SECRET).to_data()
    assert Settings.from_data(data).store_url() == f"etcd://ann:{SECRET}@h"


# --- Spark's JVM ----------------------------------------------------------------------------------------------

KEY = "spark.hadoop.fs.s3a.secret.key"


@pytest.mark.parametrize("own", [None, "spark.app.x one\n"], ids=["without", "with a file of the user"])
def test_settings_with_secrets_are_not_on_the_command_line_of_the_jvm(
    own: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = FakeSpark(tmp_path, "exit 1", monkeypatch)
    (tmp_path / "own.conf").write_text(own or "")
    conf = {KEY: f"{SECRET}\\n", "spark.app.y": "two"}
    submit = read_submit(None if own is None else f"--properties-file {tmp_path}/own.conf", conf=conf)
    with pytest.raises(QueryFailed):
        start_session(name="x", master="local[1]", conf=conf, log=str(tmp_path / "log"), submit=submit)
    assert not [word for word in spark.arguments if SECRET in word]
    assert "spark.app.y=two" in spark.arguments
    assert ("--load-spark-defaults" in spark.arguments) == (own is None)
    assert spark.arguments.count("--properties-file") == 1
    assert spark.properties.read_text() == f"{own or ''}\n{KEY}={SECRET}\\\\n\n"
    assert stat.S_IMODE(spark.properties.stat().st_mode) == 0o600
    assert not os.path.exists(spark.arguments[spark.arguments.index("--properties-file") + 1])


def test_a_storage_error_that_cites_a_request() -> None:
    cited = f"GET https://ann:{SECRET}@h/x?sig=1&token={SECRET} answered 500"
    assert SECRET not in str(StorageError(cited))
