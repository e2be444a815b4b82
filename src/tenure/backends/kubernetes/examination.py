"""The examination of the Kubernetes store: each right of members, asked by name, and the server's clock.

Promise: the server's own answer to a SelfSubjectAccessReview, which every account may ask; nothing is created. The
rights are those of deploy/kubernetes/members/rights.yaml. Not promised: that a rule of the cluster (a quota, a webhook)
lets a request through that the account may make.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from tenure.backends.kubernetes.api import Api
from tenure.backends.kubernetes.objects import object_name
from tenure.backends.kubernetes.url import Place
from tenure.coordination.examination import Grade, Remark
from tenure.coordination.records import Scope

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

RIGHTS: Final = (
    ("", "configmaps", ("get", "update", "list", "watch"), "the records of the pipeline are in this ConfigMap"),
    ("", "configmaps", ("create",), "the first member of a pipeline creates its ConfigMap"),
    (
        "coordination.k8s.io",
        "leases",
        ("get", "create", "update", "delete", "list", "watch"),
        "each member has a Lease, and members end those of dead members",
    ),
)
"""API group, resource, verbs, and what they are for."""


class KubernetesExamination:
    """Of one place in a cluster."""

    local_folder = None
    has_scratch = False
    """The rights of members name the ConfigMap of their own scope, and do not let them delete a ConfigMap."""

    def __init__(self, place: Place, api: Api) -> None:
        self._place = place
        self._api = api

    def examine(self, scope: Scope | None) -> Sequence[Remark]:
        named = None if scope is None else object_name(self._place.name, scope)
        missing = [
            _missing(verb, resource, name, why)
            for group, resource, verbs, why in RIGHTS
            for verb in verbs
            for name in (named if resource == "configmaps" and verb != "create" else None,)
            if not self._may(verb, group, resource, name)
        ]
        whole = "" if scope is not None else "; no scope is named, so the rights to all ConfigMaps were asked for"
        return missing or (Remark(Grade.OK, f"the account has all rights of a member in {self._api.namespace}{whole}"),)

    def _may(self, verb: str, group: str, resource: str, name: str | None) -> bool:
        """Raises StoreUnavailable."""
        asked = {"namespace": self._api.namespace, "verb": verb, "group": group, "resource": resource}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked if name is None else {**asked, "name": name}},
        }
        answer = self._api.write("POST", _REVIEWS, "say what this account may do", body=body)
        return bool(((answer or {}).get("status") or {}).get("allowed"))

    def server_time(self, scope: Scope) -> datetime | None:
        return self._api.server_time()

    def forget(self, scope: Scope) -> None:
        """There is no scratch scope."""


def _missing(verb: str, resource: str, name: str | None, why: str) -> Remark:
    what = resource if name is None else f"{resource} {name!r}"
    return Remark(
        Grade.BAD,
        f"the account cannot {verb} {what}",
        f"{why}: a member ends with exit code 4",
        "give the account this right, as deploy/kubernetes/members/rights.yaml does",
    )
