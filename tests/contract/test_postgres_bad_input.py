"""Store URLs of PostgreSQL that are wrong, and servers that are unfit: one line, soon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.errors import AccessDenied
from tests.contract.bad_input import NOBODY, ask, refused
from tests.draw import only_if_drawn
from tests.kit.conformance.fixture import put_new
from tests.kit.servers import PostgresServer, free_ports, installed
from tests.kit.servers.postgres import PASSWORD, USER

pytestmark = only_if_drawn("postgres")


@pytest.fixture
def admin(postgres: PostgresServer) -> Iterator[Any]:
    with postgres.connect() as connection:
        yield connection


def url_of(server: PostgresServer, user: str, password: str, *, database: str = "postgres", port: int = 0) -> str:
    return f"postgresql://{user}:{password}@127.0.0.1:{port or server.port}/{database}?schema=of_{user}"


def new_user(admin: Any, name: str, *more: str) -> None:
    admin.execute(f"drop schema if exists of_{name} cascade")
    admin.execute(f"drop role if exists {name}")
    admin.execute(f"create role {name} login password '{PASSWORD}'")
    for statement in more:
        admin.execute(statement)


def test_a_wrong_password(postgres: PostgresServer) -> None:
    line = refused(url_of(postgres, USER, "wrong-word"))
    assert "password authentication failed" in line
    assert line.endswith("TENURE_STORE_PASSWORD_FILE, or PGPASSWORD")
    assert "wrong-word" not in line


def test_a_database_that_is_not_there(postgres: PostgresServer) -> None:
    assert 'database "nowhere" does not exist' in refused(url_of(postgres, USER, PASSWORD, database="nowhere"))


def test_a_port_at_which_nobody_listens(postgres: PostgresServer) -> None:
    (port,) = free_ports(1)
    assert "Connection refused" in refused(url_of(postgres, USER, PASSWORD, port=port))


def test_a_host_that_is_not_known() -> None:
    line = refused(f"postgresql://{USER}:{PASSWORD}@{NOBODY}/postgres")
    assert line.startswith(f"PostgreSQL at {NOBODY}/postgres did not let this client in")


def test_a_user_that_may_not_make_the_store(postgres: PostgresServer, admin: Any) -> None:
    new_user(admin, "poor")
    with (
        closing(open_store(url_of(postgres, "poor", PASSWORD), clock=SystemClock())) as store,
        pytest.raises(AccessDenied, match=r"may not make the store in .*; create schema of_poor authorization USER"),
    ):
        put_new(store, "a", scope=Scope("somewhere"))


def test_a_user_with_a_schema_of_its_own_needs_no_further_right(postgres: PostgresServer, admin: Any) -> None:
    new_user(admin, "owner", "create schema of_owner authorization owner")
    with closing(open_store(url_of(postgres, "owner", PASSWORD), clock=SystemClock())) as store:
        put_new(store, "a", scope=Scope("somewhere"))
    assert ask(url_of(postgres, "owner", PASSWORD)).code == 0


def test_a_user_whose_commits_may_get_lost(postgres: PostgresServer, admin: Any) -> None:
    new_user(admin, "hasty", "alter role hasty set synchronous_commit = off")
    line = refused(url_of(postgres, "hasty", PASSWORD))
    assert "has synchronous_commit = off for this user, and may lose what it has committed" in line
    assert line.endswith("; alter role ... set synchronous_commit = on")


def test_a_user_that_only_reads(postgres: PostgresServer, admin: Any) -> None:
    new_user(admin, "reader", "alter role reader set default_transaction_read_only = on")
    assert "session is read-only" in refused(url_of(postgres, "reader", PASSWORD))


def test_a_server_without_fsync(tmp_path: Path) -> None:
    with installed(), PostgresServer(tmp_path / "hasty", settings={"fsync": "off"}) as server:
        line = refused(url_of(server, USER, PASSWORD))
        assert line == (
            f"PostgreSQL at 127.0.0.1:{server.port} has fsync = off, and may lose what it has committed; set fsync = on"
        )
