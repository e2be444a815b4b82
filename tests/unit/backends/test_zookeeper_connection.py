"""What the ZooKeeper store needs of kazoo beyond its documentation is there, and is all that it needs."""

from __future__ import annotations

import ast
import inspect

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler

from tenure.backends.zookeeper import connection

OVERRIDDEN = ("_connect_attempt", "_expand_client_hosts", "_invoke", "_read_watch_event", "_send_ping")
REPLACED = ("_read_watch_event",)
"""Overridden without a call of kazoo's own."""
OF_THE_CLIENT = ("_conn_retry", "_connection", "_safe_close", "_session_id", "_stopped")
OF_THE_CONNECTION = ("_socket", "connection_stopped")


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_kazoos_connection_has_the_method_that_is_overridden(name: str) -> None:
    found = getattr(ConnectionHandler, name, None)
    assert found is not None, f"this kazoo has no ConnectionHandler.{name}: see what became of it, then move the pin"
    ours = inspect.signature(getattr(connection._Handler, name))
    count = len(inspect.signature(found).parameters) - 1
    ours.bind(None, *range(count))


@pytest.mark.parametrize("name", OF_THE_CLIENT)
def test_kazoos_client_has_the_attribute_that_is_used(name: str) -> None:
    client = KazooClient(hosts="127.0.0.1:1")
    assert hasattr(client, name), f"this kazoo has no KazooClient.{name}: see what became of it, then move the pin"


@pytest.mark.parametrize("name", OF_THE_CONNECTION)
def test_kazoos_connection_has_the_attribute_that_is_used(name: str) -> None:
    handler = KazooClient(hosts="127.0.0.1:1")._connection
    assert hasattr(handler, name), f"this kazoo has no ConnectionHandler.{name}: see what became of it, move the pin"


def test_kazoos_client_sends_a_request_of_ours() -> None:
    """For `reading.py`, which names the rest in its imports."""
    found = getattr(KazooClient, "_call", None)
    assert found is not None, "this kazoo has no KazooClient._call: see what became of it, then move the pin"
    assert list(inspect.signature(found).parameters) == ["self", "request", "async_object"]


def test_no_other_private_attribute_of_kazoo_is_used() -> None:
    tree = ast.parse(inspect.getsource(connection))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_")]
    of_self = {node.attr for node in nodes if ast.unparse(node.value) == "self"}
    of_others = {node.attr for node in nodes if ast.unparse(node.value) != "self"} - {"__init__"}
    made = {node.attr for node in nodes if ast.unparse(node.value) == "self" and isinstance(node.ctx, ast.Store)}
    made |= {function.name for function in ast.walk(tree) if isinstance(function, ast.FunctionDef)}
    known = {*OVERRIDDEN, *OF_THE_CLIENT, *OF_THE_CONNECTION} - {
        "connection_stopped",
        *REPLACED,
    }  # not private; not called
    assert of_others | (of_self - made) == known


@pytest.mark.parametrize("name", [*OVERRIDDEN, *OF_THE_CLIENT, "_socket"])
def test_the_docstring_names_it(name: str) -> None:
    assert f"`{name}`" in (connection.__doc__ or "")


@pytest.mark.parametrize("failed", [ConnectionResetError, BrokenPipeError])
def test_a_server_that_is_faster_than_the_line_has_closed_it(
    failed: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the server closes a line while `connect` returns, Linux says EPIPE."""

    def refuse(*args: object, **named: object) -> object:
        raise failed

    monkeypatch.setattr("socket.create_connection", refuse)
    assert connection._closes_at_once("127.0.0.1:2181")
