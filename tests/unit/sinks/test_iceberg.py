"""What the Iceberg sink refuses before anything starts."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame

from tenure.errors import StorageError, UsageError
from tenure.events import Events
from tenure.sinks import Batch, Iceberg
from tenure.sinks.iceberg.catalog import open_catalog
from tenure.sinks.sink import OutputMode
from tests.kit.waiting import NEVER_S
from tests.unit.sinks.iceberg_tables import Rows


def test_modes() -> None:
    with pytest.raises(UsageError, match=r"update mode into Iceberg table n\.t of catalog default needs a key"):
        Iceberg("n.t").check(output_mode="update")
    for mode in ("append", "complete"):
        with pytest.raises(UsageError, match=rf"{mode} mode into .* has the key k; leave key out"):
            Iceberg("n.t", key="k").check(output_mode=mode)
    Iceberg("n.t", key=["k"]).check(output_mode="update")
    sink = Iceberg("n.t")
    sink.check(output_mode="append")
    sink.check(output_mode="append")
    with pytest.raises(UsageError, match="one Iceberg sink for append and complete mode"):
        sink.check(output_mode="complete")


@pytest.mark.parametrize("name", ["t", ".t", "n.", ""])
def test_a_name_without_a_namespace_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"is not the name of a table; write NAMESPACE\.TABLE"):
        Iceberg(name).check(output_mode="append")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("s3.secret-access-key", "x"),
        ("credential", "a:b"),
        ("token", "x"),
        ("adls.account-key", "x"),
        ("uri", "postgresql://anna:geheim@db/iceberg"),
    ],
)
def test_a_secret_in_a_pipeline_file_is_refused(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"property '{key}' of catalog 'lake' is a secret") as raised:
        Iceberg("n.t", catalog="lake", properties={key: value}).check(output_mode="append")
    assert "geheim" not in str(raised.value)
    assert "PYICEBERG_CATALOG__LAKE__" in str(raised.value)
    Iceberg("n.t", properties={"s3.access-key-id": "x", "token-refresh-enabled": "true"}).check(output_mode="append")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bucket(n)", r"partition_by has 'bucket\(n\)'; write a column"),
        ("week(at)", r"partition_by has 'week\(at\)'; write a column"),
        ("truncate(n)", "partition_by has"),
        ("day(3, at)", "partition_by has"),
        ("truncate(0, n)", "give a width from 1"),
        ("bucket(2147483648, n)", "give a width from 1 to 2147483647"),
    ],
)
def test_a_partition_that_cannot_be_computed_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Iceberg("n.t", partition_by=[text]).check(output_mode="append")


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.sinks.iceberg.sink.find_spec", lambda name: None)
    assert importlib.util.find_spec("pyiceberg") is not None
    with pytest.raises(UsageError, match=r"pip install '\.\[iceberg\]'"):
        Iceberg("n.t").check(output_mode="append")


def test_a_sink_that_was_not_checked_writes_nothing() -> None:
    batch = Batch(scope="s", query="q", query_id="i", id=0, epoch=1)
    with pytest.raises(UsageError, match="was not checked"):
        Iceberg("n.t").write(cast(DataFrame, object()), batch, planned=lambda: None, events=Events.nobody)


def test_making_a_sink_touches_nothing(tmp_path: Path) -> None:
    Iceberg("n.t", properties={"uri": f"sqlite:///{tmp_path}/c.db"}).check(output_mode="append")
    assert list(tmp_path.iterdir()) == []


# --- the catalog ------------------------------------------------------------------------------------------------------


def test_a_catalog_comes_from_the_variables_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg itself reads them once, when it is imported."""
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/c.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__SECRET_ACCESS_KEY", "x")
    catalog = open_catalog("lake", {"warehouse": "w"})
    assert catalog.properties["uri"] == f"sqlite:///{tmp_path}/c.db"
    assert catalog.properties["s3.secret-access-key"] == "x"
    assert catalog.properties["warehouse"] == "w"


def test_s3_is_where_the_variables_of_aws_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/c.db")
    found = open_catalog("lake", {}).properties
    assert found["s3.endpoint"] == "http://127.0.0.1:9000"
    assert found["s3.region"] == "us-east-1"
    assert found["s3.force-virtual-addressing"] == "false"
    assert open_catalog("lake", {"s3.endpoint": "http://other"}).properties["s3.endpoint"] == "http://other"


@pytest.mark.parametrize(
    ("properties", "kind", "words"),
    [
        ({}, UsageError, "catalog 'nowhere' cannot be used: URI missing"),
        ({"uri": "sqlite:////no/such/folder/c.db"}, StorageError, "unable to open database file"),
        ({"uri": "http://127.0.0.1:1/"}, StorageError, "cannot open catalog 'nowhere'"),
        ({"type": "unheard"}, UsageError, "'unheard' is not a valid CatalogType"),
    ],
)
def test_a_catalog_that_cannot_be_opened(properties: dict[str, str], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        open_catalog("nowhere", properties)


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_rows_are_checked_where_the_catalog_is_away(mode: OutputMode) -> None:
    sink = Iceberg("n.t", properties={"uri": "http://127.0.0.1:1/"}, partition_by=["m"])
    sink.check(output_mode=mode)
    with pytest.raises(UsageError, match="partition_by names column 'm', which the rows lack"):
        sink.check_rows(cast(DataFrame, Rows(n=[1])))
    with pytest.raises(StorageError):
        sink.ask()
    sink = Iceberg("n.t", properties={"uri": "http://127.0.0.1:1/"})
    sink.check_rows(cast(DataFrame, Rows(n=[1])))


class Silent(BaseHTTPRequestHandler):
    """A server of a catalog that answers to nothing, or to the first request only."""

    released = threading.Event()
    answers_first = True

    def do_GET(self) -> None:  # the base class names it so
        if not self.answers_first or "/config" not in self.path:
            assert self.released.wait(NEVER_S)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"defaults": {}, "overrides": {}}')

    do_POST = do_GET  # noqa: N815 # the base class names it so

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 # the base class names it so


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URI of such a server."""
    monkeypatch.setattr(Silent, "released", threading.Event())
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        Silent.released.set()
        server.shutdown()


def test_a_server_that_says_nothing_is_away(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.sinks.iceberg.catalog._SILENT_S", 0.2)
    sink = Iceberg("n.t", properties={"uri": silent})
    with pytest.raises(StorageError, match=r"cannot read Iceberg table n\.t of catalog default: .*timed out"):
        sink.ask()


@pytest.mark.parametrize(
    "properties", [{}, {"credential": "id:word", "oauth2-server-uri": "URI"}], ids=["configuration", "token"]
)
def test_a_server_that_never_answers_at_all_is_away(
    silent: str, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]
) -> None:
    """pyiceberg waits for ever for these first answers."""
    monkeypatch.setattr("tenure.sinks.iceberg.catalog._OPENED_S", 0.2)
    monkeypatch.setattr(Silent, "answers_first", False)
    with pytest.raises(StorageError, match=r"cannot open catalog 'default': no answer for 0\.2 s"):
        open_catalog(
            "default", {"uri": silent, **{name: one.replace("URI", silent) for name, one in properties.items()}}
        )
