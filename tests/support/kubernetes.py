"""The rights of members on an API server, as users grant them, for tests in namespaces of their own."""

from __future__ import annotations

from typing import Final
from urllib.error import HTTPError

from tenure.coordination.encoding import new_uid
from tenure.testing.servers import KubernetesServer
from tenure.testing.waiting import wait_until

RULES: Final = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "update", "create", "list", "watch"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update", "delete", "list", "watch"],
    },
)
"""As deploy/kubernetes/members/rights.yaml has them, for the ConfigMaps of all scopes."""

SLICES: Final = (
    {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "resourceNames": ["shop-tenure"],
        "verbs": ["get", "update"],
    },
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["create"]},
)
"""As it has them for the EndpointSlice of the Service `shop`."""

_NOT_FOUND: Final = 404
_RBAC: Final = "rbac.authorization.k8s.io"


def member_account(server: KubernetesServer, namespace: str, *, rules: tuple[object, ...] = RULES) -> str:
    """A user with the rights of members in the namespace; `kubeconfig` knows its token."""
    user = f"member-{new_uid()[:12]}"
    token = server.account(namespace, user)
    metadata = {"name": user, "namespace": namespace}
    subject = {"kind": "ServiceAccount", "name": user, "namespace": namespace}
    server.apply(
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": list(rules)},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": user},
            "subjects": [subject],
        },
    )
    server.kubeconfig(user, token=token)
    wait_until(lambda: _may(server, namespace, user), what="the effect of a new role")
    return user


def _may(server: KubernetesServer, namespace: str, user: str) -> bool:
    """Whether the server knows the rights of the user already."""
    try:
        server.ask("GET", f"/api/v1/namespaces/{namespace}/configmaps/none", user=user)
    except HTTPError as refused:
        return refused.code == _NOT_FOUND
    return True
