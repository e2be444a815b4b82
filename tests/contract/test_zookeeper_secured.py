"""A ZooKeeper that is spoken to over TLS, or asks by SASL who we are: who may, works; who may not, is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.bad_input import ask, pause_at, refused
from tests.draw import only_if_drawn
from tests.kit.servers import Authority, TlsFiles, ZooKeeperEnsemble, installed

pytestmark = only_if_drawn("zookeeper")


CHECK = "cannot be reached; check the hosts, ports and certificates"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """What the server shows, and who signed it. A client may show the same."""
    with installed():
        return Authority(tmp_path_factory.mktemp("authority"), "ours").server()


@pytest.fixture(scope="module")
def over_tls(files: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """It wants a certificate of its clients, as ZooKeeper does unless it is told otherwise."""
    with installed(), ZooKeeperEnsemble(tmp_path_factory.mktemp("tls"), nodes=1, tls=files) as server:
        server.create("/x")
        yield server


def url(server: ZooKeeperEnsemble, *options: str, host: str = "127.0.0.1") -> str:
    return f"zookeeper://{host}:{server.tls_ports[0]}/x?{'&'.join(options)}"


def shown(files: TlsFiles) -> tuple[str, str]:
    """Who the client is, by its certificate."""
    return f"cert={files.certificate}", f"key={files.key}"


def test_over_tls(over_tls: ZooKeeperEnsemble, files: TlsFiles) -> None:
    there = url(over_tls, f"ca={files.authority}", *shown(files))
    pause_at(there)
    told = ask(there)
    assert told.code == 0
    assert "paused" in told.err
    assert ask(there, "resume").code == 0


def test_a_client_without_a_certificate(over_tls: ZooKeeperEnsemble, files: TlsFiles) -> None:
    assert CHECK in refused(url(over_tls, f"ca={files.authority}"))


def test_an_authority_that_did_not_sign_the_server(
    over_tls: ZooKeeperEnsemble, files: TlsFiles, tmp_path: Path
) -> None:
    assert CHECK in refused(url(over_tls, f"ca={Authority(tmp_path, 'other').certificate}", *shown(files)))


def test_no_authority_is_the_systems(over_tls: ZooKeeperEnsemble, files: TlsFiles) -> None:
    assert CHECK in refused(url(over_tls, "tls=true", *shown(files)))


def test_a_file_that_is_no_certificate(over_tls: ZooKeeperEnsemble, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")
    assert CHECK in refused(url(over_tls, f"ca={tmp_path}/text"))


def test_a_name_that_the_certificate_does_not_have(over_tls: ZooKeeperEnsemble, files: TlsFiles) -> None:
    assert CHECK in refused(url(over_tls, f"ca={files.authority}", *shown(files), host="localhost"))


def test_no_tls_where_the_server_wants_it(over_tls: ZooKeeperEnsemble) -> None:
    line = refused(f"zookeeper://127.0.0.1:{over_tls.tls_ports[0]}/x")
    assert line.endswith("cannot be reached; check the hosts and ports")


def test_tls_where_the_server_has_none(over_tls: ZooKeeperEnsemble, files: TlsFiles) -> None:
    assert CHECK in refused(f"zookeeper://127.0.0.1:{over_tls.ports[0]}/x?ca={files.authority}")


# --- SASL -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """It lets in nobody but `ann`, whose password is `right`."""
    folder = tmp_path_factory.mktemp("sasl")
    users = folder / "jaas.conf"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    users.write_text(f'Server {{\n  {module} required user_ann="right";\n}};\n')
    with (
        installed(),
        ZooKeeperEnsemble(
            folder,
            nodes=1,
            settings=("authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",),
            flags=(f"-Djava.security.auth.login.config={users}",),
        ) as server,
    ):
        server.create("/x")
        yield server


def by_sasl(server: ZooKeeperEnsemble, who: str) -> str:
    return f"zookeeper://{who}@{server.hosts}/x?sasl=DIGEST-MD5"


def test_who_is_let_in_owns_what_it_makes(guarded: ZooKeeperEnsemble) -> None:
    pause_at(by_sasl(guarded, "ann:right"))
    assert "paused" in ask(by_sasl(guarded, "ann:right")).err
    assert refused(f"zookeeper://{guarded.hosts}/x") == (
        "ZooKeeper does not permit to list records; check the user, its password and the ACL of the chroot"
    )


@pytest.mark.parametrize("who", ["ann:wrong", "bob:right"])
def test_who_is_not_let_in(guarded: ZooKeeperEnsemble, who: str) -> None:
    assert refused(by_sasl(guarded, who)) == "ZooKeeper refuses this user; check the user and its password"
