"""Store URLs of etcd that are wrong: one line, soon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.bad_input import NOBODY, ask, nowhere, refused
from tests.draw import only_if_drawn
from tests.kit.servers import Authority, EtcdCluster, TlsFiles, ZooKeeperEnsemble, free_ports, installed

pytestmark = only_if_drawn("etcd")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """What the server shows, and who signed it."""
    with installed():
        return Authority(tmp_path_factory.mktemp("theirs"), "theirs").server()


@pytest.fixture(scope="module")
def secured(theirs: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with installed(), EtcdCluster(tmp_path_factory.mktemp("secured"), nodes=1, tls=theirs) as cluster:
        yield cluster


def test_over_tls(secured: EtcdCluster, theirs: TlsFiles) -> None:
    assert ask(f"etcds://{secured.endpoints[0]}/x?ca={theirs.authority}").code == 0


def test_an_authority_that_did_not_sign_the_server(secured: EtcdCluster, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").certificate
    line = refused(f"etcds://{secured.endpoints[0]}/x?ca={other}")
    assert line.startswith(f"etcd at {secured.endpoints[0]} cannot be reached")
    assert line.endswith("; check the hosts, ports and certificates")
    assert "CERTIFICATE_VERIFY_FAILED" in line


def test_no_authority_is_the_systems(secured: EtcdCluster) -> None:
    assert "CERTIFICATE_VERIFY_FAILED" in refused(f"etcds://{secured.endpoints[0]}/x")


def test_a_file_that_is_no_certificate(secured: EtcdCluster, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")
    refused(f"etcds://{secured.endpoints[0]}/x?ca={tmp_path}/text")


def test_a_name_that_the_certificate_does_not_have(secured: EtcdCluster, theirs: TlsFiles) -> None:
    line = refused(f"etcds://localhost:{secured.ports[0]}/x?ca={theirs.authority}")
    assert line.startswith(f"etcd at localhost:{secured.ports[0]} cannot be reached: ")


def test_no_tls_where_etcd_wants_it(secured: EtcdCluster) -> None:
    assert "cannot be reached" in refused(f"etcd://{secured.endpoints[0]}/x")


def test_tls_where_etcd_has_none(etcd: EtcdCluster, theirs: TlsFiles) -> None:
    assert "cannot be reached" in refused(f"etcds://{etcd.endpoints[0]}/x?ca={theirs.authority}")


def test_a_port_at_which_nobody_listens() -> None:
    (port,) = free_ports(1)
    line = refused(f"etcd://127.0.0.1:{port}/x")
    assert line.startswith(f"etcd at 127.0.0.1:{port} cannot be reached")
    assert "Connection refused" in line


def test_a_host_that_is_not_known() -> None:
    line = refused(f"etcd://{NOBODY}/x")
    assert line.startswith(f"etcd at {NOBODY}:2379 cannot be reached")


def test_a_server_of_something_else(zookeeper: ZooKeeperEnsemble) -> None:
    assert "cannot be reached" in refused(f"etcd://127.0.0.1:{zookeeper.ports[0]}/x")


@pytest.mark.parametrize("wrong", ["the name", "the port"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_endpoint_of_three_may_be_wrong(etcd: EtcdCluster, wrong: str, place: int) -> None:
    endpoints = list(etcd.endpoints)
    endpoints[place] = f"{NOBODY}:2379" if wrong == "the name" else f"127.0.0.1:{free_ports(1)[0]}"
    assert ask(f"etcd://{','.join(endpoints)}/x").code == 0


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_endpoint_of_three_may_be_gone(etcd: EtcdCluster, place: int) -> None:
    endpoints = list(etcd.endpoints)
    with nowhere() as endpoints[place]:
        assert ask(f"etcd://{','.join(endpoints)}/x").code == 0


def test_one_member_of_three_may_be_silent(etcd: EtcdCluster) -> None:
    """It takes the connection, as the kernel of a machine does whose processes hang, and never says a word."""
    follower = (etcd.leader() + 1) % 3
    etcd.nodes[follower].pause()
    first = [etcd.endpoints[follower], *etcd.endpoints]
    try:
        assert ask(f"etcd://{','.join(dict.fromkeys(first))}/x").code == 0
    finally:
        etcd.nodes[follower].wake()
        etcd.wait_for(follower)
