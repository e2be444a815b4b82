"""The API server of Kubernetes that other tests use: it forgets nothing, and lets in whom they say."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import pytest

from tests.draw import only_if_drawn
from tests.kit.servers import KubernetesServer, installed, need
from tests.kit.waiting import wait_until

pytestmark = only_if_drawn("kubernetes")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    """A server whose end or certificate disturbs no other test."""
    with installed(), KubernetesServer(tmp_path_factory.mktemp("own")) as server:
        yield server


def config_map(namespace: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it", "namespace": namespace}, "data": data}


def data_of(server: KubernetesServer, namespace: str, *, user: str = "admin") -> dict[str, str]:
    answer = server.ask("GET", f"/api/v1/namespaces/{namespace}/configmaps/it", user=user)
    return dict(answer["data"])


def let_read(server: KubernetesServer, namespace: str, subject: dict[str, str]) -> None:
    """Give the subject the right to read ConfigMaps of a namespace, and nothing else."""
    named = {"metadata": {"name": "readers", "namespace": namespace}}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "readers"}
    server.apply(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", **named, "rules": rules},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            **named,
            "roleRef": role,
            "subjects": [subject],
        },
    )


def refusal(server: KubernetesServer, namespace: str, *, user: str) -> int:
    """The status with which a user may not read; 0: the user may."""
    try:
        data_of(server, namespace, user=user)
    except HTTPError as refused:
        return refused.code
    return 0


def verified_by(authority: Path, url: str) -> bool:
    """Whether the authority verifies the certificate of the server."""
    context = ssl.create_default_context(cafile=authority)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        urllib.request.urlopen(f"{url}/version", context=context).close()
    except URLError as unknown:
        if not isinstance(unknown.reason, ssl.SSLCertVerificationError):
            raise
        return False
    return True


def certificate(server: KubernetesServer) -> str:
    return ssl.get_server_certificate(("127.0.0.1", server.port))


def test_an_object_is_created_and_then_replaced(kubernetes: KubernetesServer) -> None:
    namespace = kubernetes.new_namespace()
    kubernetes.apply(config_map(namespace, first="1"))
    assert data_of(kubernetes, namespace) == {"first": "1"}
    kubernetes.apply(config_map(namespace, second="2"))
    assert data_of(kubernetes, namespace) == {"second": "2"}
    path = f"/api/v1/namespaces/{namespace}/configmaps/it"
    kubernetes.ask("PATCH", path, [{"op": "test", "path": "/data/second", "value": "2"}])
    assert kubernetes.ask("PATCH", path, {"data": {"third": "3"}})["data"] == {"second": "2", "third": "3"}


@pytest.mark.parametrize("behind", [False, True], ids=["server", "server and etcd"])
def test_a_killed_server_starts_with_its_data(own: KubernetesServer, behind: bool) -> None:
    namespace, shown = own.new_namespace(), certificate(own)
    own.apply(config_map(namespace, kept="yes"))
    for node in (*own.nodes, *(own.etcd.nodes if behind else ())):
        node.kill()
    assert not own.answers(0)
    own.start()
    assert data_of(own, namespace) == {"kept": "yes"}
    assert certificate(own) == shown


def test_a_paused_server_does_not_answer_until_it_is_woken(own: KubernetesServer) -> None:
    own.nodes[0].pause()
    try:
        assert not own.answers(0)
    finally:
        own.nodes[0].wake()
    own.wait_for(0)


def test_without_etcd_the_server_runs_and_is_not_ready(own: KubernetesServer) -> None:
    own.etcd.nodes[0].kill()
    wait_until(lambda: not own.answers(0), what="the server to miss its etcd")
    assert own.nodes[0].running
    own.start()


def test_a_user_may_do_nothing_until_bound(kubernetes: KubernetesServer) -> None:
    namespace = kubernetes.new_namespace()
    kubernetes.apply(config_map(namespace, a="b"))
    assert {user: refusal(kubernetes, namespace, user=user) for user in ("tenure", "nobody")} == {
        "tenure": 403,
        "nobody": 403,
    }
    let_read(kubernetes, namespace, {"kind": "User", "name": "tenure"})
    wait_until(lambda: refusal(kubernetes, namespace, user="tenure") == 0, what="the right of tenure")
    assert refusal(kubernetes, namespace, user="nobody") == 403


def test_the_token_of_an_account_is_known_and_has_its_rights(kubernetes: KubernetesServer) -> None:
    namespace = kubernetes.new_namespace()
    kubernetes.apply(config_map(namespace, a="b"))
    kubernetes.kubeconfig("member", namespace=namespace, token="nobody's")
    assert refusal(kubernetes, namespace, user="member") == 401
    kubernetes.kubeconfig("member", namespace=namespace, token=kubernetes.account(namespace, "member"))
    assert refusal(kubernetes, namespace, user="member") == 403
    let_read(kubernetes, namespace, {"kind": "ServiceAccount", "name": "member", "namespace": namespace})
    wait_until(lambda: refusal(kubernetes, namespace, user="member") == 0, what="the right of the account")


def test_a_kubeconfig_is_of_use_to_kubectl(kubernetes: KubernetesServer) -> None:
    with installed():
        kubectl = need(shutil.which("kubectl"), "kubectl", fix="build it: make kubernetes")
    namespace = kubernetes.new_namespace()
    kubernetes.apply(config_map(namespace, a="b"))

    def get(user: str) -> subprocess.CompletedProcess[str]:
        config = kubernetes.kubeconfig(user, namespace=namespace)
        command = [kubectl, f"--kubeconfig={config}", "get", "configmap", "it", "--output=jsonpath={.data.a}"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    said, refused = get("admin"), get("nobody")
    assert (said.returncode, said.stdout) == (0, "b"), said.stderr
    assert 'User "nobody" cannot get resource "configmaps"' in refused.stderr


def test_a_certificate_of_the_same_authority_replaces_the_servers(own: KubernetesServer) -> None:
    before = certificate(own)
    own.renew_certificate()
    assert certificate(own) != before
    assert verified_by(own.authority, own.url)
    assert verified_by(own.authority, f"https://localhost:{own.port}")


def test_another_authority_replaces_the_authority(own: KubernetesServer, tmp_path: Path) -> None:
    before = Path(shutil.copy(own.authority, tmp_path))
    assert verified_by(before, own.url)
    own.renew_certificate(new_authority=True)
    assert verified_by(own.authority, own.url)
    assert not verified_by(before, own.url)


def test_a_certificate_that_is_replaced_while_the_server_is_dead_is_shown_by_the_next(own: KubernetesServer) -> None:
    before = certificate(own)
    own.nodes[0].kill()
    own.renew_certificate()
    own.start()
    assert certificate(own) != before
