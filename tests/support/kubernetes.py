"""The rights of members on an API server, as users grant them, for tests in namespaces of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.error import HTTPError

from tenure.coordination.encoding import new_uid
from tests.kit.servers import KubernetesServer
from tests.kit.waiting import wait_until

RULES: Final[tuple[Mapping[str, Any], ...]] = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "update", "create", "list", "watch"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update", "delete", "list", "watch"],
    },
)
"""As deploy/kubernetes/members/rights.yaml has them, for the ConfigMaps of all scopes."""

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_RBAC: Final = "rbac.authorization.k8s.io"


def member_account(server: KubernetesServer, namespace: str, *, rules: tuple[Mapping[str, Any], ...] = RULES) -> str:
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
    wait_until(lambda: _may(server, namespace, user, rules[-1]), what="the effect of a new role")
    return user


def without(verb: str, resource: str) -> tuple[Mapping[str, Any], ...]:
    """The rights of members, but for one verb."""
    fewer = tuple(
        {**rule, "verbs": [each for each in rule["verbs"] if each != verb or resource not in rule["resources"]]}
        for rule in RULES
    )
    assert fewer != RULES
    return fewer


def _may(server: KubernetesServer, namespace: str, user: str, rule: Mapping[str, Any]) -> bool:
    """Whether the server knows the rights of the user already."""
    attributes = {
        "namespace": namespace,
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": rule["resources"][0],
        "name": rule.get("resourceNames", [""])[0],
    }
    asked = {"spec": {"resourceAttributes": attributes}}
    try:
        answer = server.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asked, user=user)
    except HTTPError as refused:
        if refused.code in (_UNAUTHORIZED, _FORBIDDEN):
            return False
        raise
    return bool(answer["status"]["allowed"])
