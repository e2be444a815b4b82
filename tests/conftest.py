"""What every test gets: Hypothesis profiles, the servers that tests share, and a guard that fails the session when
processes are left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests import draw, groups, leftovers, properties
from tests.kit.servers import (
    Azurite,
    EtcdCluster,
    FakeGcs,
    Hdfs,
    KafkaServer,
    KubernetesServer,
    MariaDbServer,
    PostgresServer,
    SeaweedFs,
    ZooKeeperEnsemble,
    installed,
)

# The contract's cases are rewritten by pytest, so that a failure says what differs.
pytest.register_assert_rewrite("tests.kit.conformance")

properties.register()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts a job in the background with SIGINT ignored, and so would each command that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

S = TypeVar("S")

_mark = pytest.StashKey[str]()
_left = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--group", action="append", choices=groups.GROUPS, help="only the tests of this group, or these")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = config.getoption("--group")
    if not chosen:
        return
    missing = groups.stale([*groups.GATE, *groups.BESIDE_THE_GATE, *groups.LONG_CASES], [item.nodeid for item in items])
    if missing:
        raise pytest.UsageError(f"tests/groups.py names tests that are not there: {missing}")
    left_out = [item for item in items if _group_of(item) not in chosen]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if _group_of(item) in chosen]


def _group_of(item: pytest.Item) -> str:
    needs = {*getattr(item, "fixturenames", ())}
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        needs |= {value for value in item.callspec.params.values() if isinstance(value, str)}
    is_long = item.get_closest_marker("long") is not None
    marks, drawn = list(item.iter_markers("drawn")), draw.drawn()
    return groups.group_of(
        item.nodeid,
        is_long=is_long,
        is_drawn=all(drawn & {*mark.args} for mark in marks),
        starts=bool(needs & groups.STARTERS),
        in_part=draw.parts_of(item.nodeid, {name for mark in marks for name in mark.args}) <= drawn,
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_mark] = leftovers.mark_session()
    os.environ.setdefault(draw.NUMBER, str(draw.number_of_commit()))  # the workers of pytest-xdist draw the same


def pytest_report_header(config: pytest.Config) -> str | None:
    chosen = config.getoption("--group")
    return f"drawn of this commit (tests/draw.py): {', '.join(sorted(draw.drawn()))}" if chosen else None


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    is_worker = hasattr(session.config, "workeroutput")
    if not is_worker:
        yield  # pytest-xdist waits for its workers here
    leftovers.end_own_jvm()
    found = leftovers.end(leftovers.find_leftovers(session.config.stash[_mark]))
    left = session.config.stash[_left] = [*session.config.stash.get(_left, []), *found]
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if is_worker:
        session.config.workeroutput["left"] = left  # type: ignore[attr-defined] # pytest-xdist puts it there
        yield  # pytest-xdist sends that


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker of pytest-xdist has ended: what it left is what the session left."""
    stash = node.config.stash
    stash[_left] = [*stash.get(_left, []), *getattr(node, "workeroutput", {}).get("left", [])]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(_left, [])
    if lines:
        terminalreporter.section("processes that the tests left running (killed now); the session fails", red=True)
        for line in lines:
            terminalreporter.write_line(line)


def _not_for_pure_tests(request: pytest.FixtureRequest) -> None:
    """`make check` starts no server: the group of a test is known by its fixtures and parameters, and may be wrong."""
    if request.config.getoption("--group") == [groups.PURE]:
        pytest.fail(
            f"{request.fixturename} for a pure test: say so in a parameter or fixture that tests/groups.py knows"
        )


def _shared(name: str, start: Callable[[Path], AbstractContextManager[S]]) -> Callable[..., Iterator[S]]:
    """A fixture of this name: servers that the tests of a process share."""

    @pytest.fixture(scope="session", name=name)
    def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S]:
        _not_for_pure_tests(request)
        with installed(), start(tmp_path_factory.mktemp(name)) as started:
            yield started

    return servers


zookeeper = _shared("zookeeper", ZooKeeperEnsemble)
etcd = _shared("etcd", EtcdCluster)
kubernetes = _shared("kubernetes", KubernetesServer)
seaweedfs = _shared("seaweedfs", SeaweedFs)
fake_gcs = _shared("fake_gcs", FakeGcs)
azurite = _shared("azurite", Azurite)
hdfs = _shared("hdfs", Hdfs)
kafka = _shared("kafka", KafkaServer)
mariadb = _shared("mariadb", MariaDbServer)
postgres = _shared("postgres", PostgresServer)


@pytest.fixture(scope="session")
def jvm(request: pytest.FixtureRequest) -> Iterator[Any]:
    """See `tests.jvm`, which needs PySpark."""
    _not_for_pure_tests(request)
    from tests.jvm import SharedJvm

    shared = SharedJvm()
    yield shared
    shared.end()
