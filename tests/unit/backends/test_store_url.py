"""URLs of stores on servers: what is read from them, and what is refused in one line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tenure.backends.etcd import EtcdStore, cluster_of
from tenure.backends.registry import open_store
from tenure.backends.shared.server_url import StoreUrl
from tenure.backends.zookeeper import ZooKeeperStore, ensemble_of
from tenure.coordination.records import Scope
from tenure.coordination.store_url import split_url
from tenure.errors import UsageError
from tests.kit.clock import ManualClock

OPTIONS = {"connect_timeout", "request_timeout", "ca", "cert", "key", "tls", "sasl", "acl"}


def read(url: str) -> StoreUrl:
    return StoreUrl(split_url(url), port=2181, options=OPTIONS)


def test_hosts_path_user_and_options_are_read() -> None:
    url = read("zookeeper://ann%40x:p%3A%2Fw@h1:2182,h2,[::1]:7/a%20b/c/?connect_timeout=500ms")
    assert url.hosts == ("h1:2182", "h2:2181", "[::1]:7")
    assert (url.user, url.password) == ("ann@x", "p:/w")
    assert url.path == "/a b/c"
    assert url.duration("connect_timeout", timedelta(0)) == timedelta(milliseconds=500)
    assert url.duration("request_timeout", timedelta(seconds=7)) == timedelta(seconds=7)
    assert read("zookeeper://h").path == ""
    assert read("zookeeper://h/").user is None


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("zookeeper://", "has '', which is no host:port; check the hosts"),
        ("zookeeper://h1,,h2", "has '', which is no host:port"),
        ("zookeeper://h:0", "has 'h:0', which is no host:port"),
        ("zookeeper://h:x", "has 'h:x', which is no host:port"),
        ("zookeeper://h h", "has 'h h', which is no host:port"),
        ("zookeeper://h,[::1", "has '[::1', which is no host:port"),
        ("etcd://[::1]]:7", "has '[::1]]:7', which is no host:port"),
        ("etcd", "store URL 'etcd' has no known scheme; use one of: sqlite:///absolute/path.db,"),
        ("sqlite://h/x", "does not name a file by its absolute path; write three slashes"),
        (
            "zookeeper://ann@h",
            "names a user, and no password is set; set TENURE_STORE_PASSWORD or TENURE_STORE_PASSWORD_FILE",
        ),
        ("zookeeper://h/a#b", "has a '#'; write %23 where it is meant"),
        ("zookeeper://h?tsl=true", "has option 'tsl', which zookeeper has not; use one of: acl, ca,"),
        (
            "zookeeper://h?session_timeout=5s",
            "which zookeeper has not; leave it out, and say how long a session lives to",
        ),
        ("zookeeper://h?connect_timeout=5", "option connect_timeout='5' of the store URL is no time"),
        ("zookeeper://h?sasl=PLAIN", "option sasl='PLAIN' of the store URL is unknown; use one of: DIGEST-MD5, GSSAPI"),
        ("zookeeper://h?sasl=DIGEST-MD5", "sasl=DIGEST-MD5 needs a user and a password"),
        ("zookeeper://h?ca=/no/file", "option ca='/no/file' of the store URL names no file; check the path"),
        ("etcds://h?cert=CERT", "has one of cert and key, and needs both"),
        ("etcd://h?ca=CERT", "has option 'ca', which etcd has not"),
    ],
)
def test_what_cannot_be_used_is_one_line(url: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "cert").touch()
    with pytest.raises(UsageError) as refused:
        open_store(url.replace("CERT", f"{tmp_path}/cert"), clock=ManualClock())
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_line_end_after_a_url_names_no_other_store(tmp_path: Path) -> None:
    assert read(" zookeeper://h/chroot\n").path == "/chroot"
    open_store(f"sqlite://{tmp_path}/store.db\n", clock=ManualClock()).list(Scope("rows"), "")
    assert (tmp_path / "store.db").exists()


def test_no_message_shows_a_password() -> None:
    with pytest.raises(UsageError) as refused:
        read("zookeeper://ann:secret@h:x")
    assert "secret" not in str(refused.value)


def test_stores_are_opened_without_being_connected_to() -> None:
    assert isinstance(open_store("zookeeper://no.such.host:1/x", clock=ManualClock()), ZooKeeperStore)
    assert isinstance(open_store("etcd://no.such.host:1/x", clock=ManualClock()), EtcdStore)


def test_sasl_needs_a_package_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.backends.zookeeper.url.find_spec", lambda name: None)
    with pytest.raises(
        UsageError, match="needs the Python package 'puresasl', which is not installed; run pip install '\\.\\[sasl"
    ):
        ensemble_of(read("zookeeper://h?sasl=GSSAPI"))


def test_who_we_are_owns_what_we_create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.backends.zookeeper.url.find_spec", lambda name: "it is installed")
    (tmp_path / "ca").touch()
    anybody, ann = ensemble_of(read("zookeeper://h/x")), ensemble_of(read("zookeeper://ann:pw@h/x"))
    assert (anybody.acl, anybody.auth) == (None, ())
    assert ann.auth == (("digest", "ann:pw"),)
    assert ann.acl is not None
    assert [acl.id.scheme for acl in ann.acl] == ["auth"]
    assert ensemble_of(read("zookeeper://ann:pw@h/x?acl=open")).acl is None
    sasl = ensemble_of(read("zookeeper://ann:pw@h/x?sasl=DIGEST-MD5"))
    assert sasl.auth == ()
    assert dict(sasl.sasl) == {"mechanism": "DIGEST-MD5", "username": "ann", "password": "pw"}
    assert dict(ensemble_of(read(f"zookeeper://h?ca={tmp_path}/ca")).tls)["use_ssl"] is True
    assert ensemble_of(read("zookeeper://h")).tls == ()


def test_a_cluster_has_a_prefix_and_a_user() -> None:
    cluster = cluster_of(read("etcd://ann:pw@h1:1,h2:2/tenure/a"), tls=False)
    assert cluster.endpoints == ("h1:1", "h2:2")
    assert (cluster.prefix, cluster.user, cluster.password) == ("/tenure/a", "ann", "pw")
    assert cluster.credentials is None
    assert cluster_of(read("etcds://h"), tls=True).credentials is not None
