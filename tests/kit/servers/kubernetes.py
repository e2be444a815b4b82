"""A real API server of Kubernetes on loopback, with an etcd of its own behind it (`scripts/setup.sh kubernetes`).

Promise: `start` returns when the server answers, with the roles of its own in place. RBAC decides each request; without
a token a request reads the version and the health only. Not promised: a cluster. No controller runs: no garbage
collector deletes the objects of a deleted owner, no namespace has a default service account, and a deleted namespace
never ends. No scheduler and no kubelet run: a pod is a record only.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

from tenure.coordination.encoding import new_uid
from tests.kit.process import GroupProcess
from tests.kit.servers.authority import Authority
from tests.kit.servers.etcd import EtcdCluster
from tests.kit.servers.process import Servers, free_ports
from tests.kit.servers.programs import program
from tests.kit.waiting import NEVER_S, wait_until

ADMIN: Final = "admin"
"""The user who may do everything."""
USERS: Final[Mapping[str, str]] = {ADMIN: "system:masters", "tenure": "tenure", "nobody": "nobody"}
"""The users that every server knows, and the group of each. Only `ADMIN` has rights from the start."""
_NAMES: Final = ("IP:127.0.0.1", "DNS:localhost")
_OUTSIDE: Final = "192.0.2.1"
"""An address for documentation, which no host has. The server asks for an address that is not loopback, and publishes
it nowhere: `--endpoint-reconciler-type=none`."""


class KubernetesServer(Servers):
    """The API server is `nodes[0]`, its etcd is `etcd.nodes[0]`; data and logs go below `folder`."""

    def __init__(self, folder: Path, *, flags: tuple[str, ...] = ()) -> None:
        """`flags`: more flags for the API server."""
        self._folder = folder / "kubernetes"
        self._secrets = self._folder / "tokens"
        self._secrets.mkdir(parents=True)
        apiserver = api_server()
        self.etcd: Final = EtcdCluster(folder, nodes=1)
        (self.port,) = free_ports(1)
        self.url: Final = f"https://127.0.0.1:{self.port}"
        self._authority = Authority(self._folder, "authority")
        self.authority: Final = self._authority.certificate
        """The certificate that verifies the server's."""
        served = self._authority.server(_NAMES)
        accounts = self._folder / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", str(accounts), "2048"], check=True, capture_output=True)
        tokens = {user: new_uid() for user in USERS}
        for user, token in tokens.items():
            self.token_file(user).write_text(token, encoding="ascii")
        known = self._folder / "tokens.csv"
        known.write_text("".join(f'{tokens[user]},{user},{user},"{group}"\n' for user, group in USERS.items()))
        command = [
            apiserver,
            f"--etcd-servers=http://{self.etcd.endpoints[0]}",
            *("--bind-address=127.0.0.1", f"--secure-port={self.port}"),
            *(f"--advertise-address={_OUTSIDE}", "--endpoint-reconciler-type=none"),
            *(f"--tls-cert-file={served.certificate}", f"--tls-private-key-file={served.key}"),
            *("--authorization-mode=RBAC", f"--token-auth-file={known}"),
            f"--service-account-issuer={self.url}",
            *(f"--service-account-key-file={accounts}", f"--service-account-signing-key-file={accounts}"),
            *("--service-cluster-ip-range=10.0.0.0/24", f"--cert-dir={self._folder}"),
            *flags,
        ]
        self.nodes = (GroupProcess(command, log=self._folder / "log"),)

    def start(self) -> None:
        self.etcd.start()
        super().start()

    def close(self) -> None:
        super().close()
        self.etcd.close()

    def answers(self, number: int) -> bool:
        try:
            return self._send("GET", "/readyz", None, user=ADMIN, timeout_s=2) == b"ok"
        except OSError:
            return False

    def renew_certificate(self, *, new_authority: bool = False) -> None:
        """Replace the server's certificate. A server that runs shows the new certificate when this returns.

        `new_authority`: replace the authority, too; the file `authority` has the new certificate.
        """
        if new_authority:
            self._authority = Authority(self._folder, "authority")
        made = ssl.PEM_cert_to_DER_cert(self._authority.server(_NAMES).certificate.read_text("ascii"))
        if self.nodes[0].running:
            wait_until(lambda: self._shown() == made, what="the new certificate of the API server")

    def token_file(self, user: str) -> Path:
        """The file with the token of a user."""
        return self._secrets / user

    def kubeconfig(self, user: str = ADMIN, *, namespace: str = "default", token: str | None = None) -> Path:
        """A kubeconfig that names the files of the authority and of the user's token.

        `token`: the user's token from now on, also in the kubeconfigs before this; None: as it is.
        """
        secret = self.token_file(user)
        if token is not None:
            fresh = secret.with_name(f"{user}.new")
            fresh.write_text(token, encoding="ascii")
            fresh.replace(secret)
        assert secret.exists(), f"{user} has no token"
        context = {"cluster": "test", "user": user, "namespace": namespace}
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"tokenFile": str(secret)}}],
            "contexts": [{"name": "test", "context": context}],
        }
        path = self._folder / f"{user}.{namespace}.kubeconfig"
        path.write_text(json.dumps(config), encoding="utf-8")
        return path

    def ask(self, method: str, path: str, body: object = None, *, user: str = ADMIN) -> dict[str, Any]:
        """The answer to a request. A list as the body of a PATCH is a JSON patch; else it is merged. Raises OSError,
        as HTTPError for a refusal."""
        return dict(json.loads(self._send(method, path, body, user=user, timeout_s=NEVER_S)))

    def metrics(self) -> str:
        """The server's own figures, as Prometheus reads them."""
        return self._send("GET", "/metrics", None, user=ADMIN, timeout_s=NEVER_S).decode()

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create the objects; replace those that are there."""
        for given in objects:
            folder, name = self._folder_of(given), given["metadata"]["name"]
            try:
                there = self.ask("GET", f"{folder}/{name}")
            except HTTPError as refused:
                if refused.code != 404:
                    raise
                self.ask("POST", folder, given)
            else:
                version = {"resourceVersion": there["metadata"]["resourceVersion"]}
                self.ask("PUT", f"{folder}/{name}", {**given, "metadata": {**given["metadata"], **version}})

    def namespace(self, name: str) -> None:
        """Create a namespace."""
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def new_namespace(self) -> str:
        """The name of a namespace that no other test has."""
        name = f"test-{new_uid()[:12]}"
        self.namespace(name)
        return name

    def account(self, namespace: str, name: str) -> str:
        """A token of a service account for an hour. The account is created when it is not there."""
        metadata = {"name": name, "namespace": namespace}
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return str(self.ask("POST", path, asked)["status"]["token"])

    def _folder_of(self, given: Mapping[str, Any]) -> str:
        """The path of all objects of a kind, within the namespace of this object."""
        version = given["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        kinds = {kind["kind"]: kind for kind in self.ask("GET", root)["resources"] if "/" not in kind["name"]}
        kind = kinds[given["kind"]]
        within = f"/namespaces/{given['metadata'].get('namespace', 'default')}" if kind["namespaced"] else ""
        return f"{root}{within}/{kind['name']}"

    def _send(self, method: str, path: str, body: object, *, user: str, timeout_s: float) -> bytes:
        patch = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token_file(user).read_text('ascii')}",
                "Content-Type": patch if method == "PATCH" else "application/json",
            },
            method=method,
        )
        context = ssl.create_default_context(cafile=self.authority)
        with urllib.request.urlopen(request, timeout=timeout_s, context=context) as answer:
            return bytes(answer.read())

    def _shown(self) -> bytes | None:
        """The certificate that the server shows; None: it does not answer."""
        try:
            shown = ssl.get_server_certificate(("127.0.0.1", self.port), timeout=2)
        except OSError:
            return None
        return ssl.PEM_cert_to_DER_cert(shown)


def api_server() -> str:
    """The server to run: the newest that `scripts/setup.sh kubernetes` has built. Raises NotInstalled."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tenure"
    built = sorted(cache.glob("kube-apiserver-*"), key=lambda path: path.stat().st_mtime)
    fix = "run make kubernetes"
    return program("kube-apiserver", "Kubernetes' API server", fix=fix, built=str(built[-1]) if built else None)
