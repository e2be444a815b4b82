"""The names of the objects of a store on Kubernetes, and the order of their states.

Promise: pure. Two scopes never share a ConfigMap. Names are readable in kubectl.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from tenure.coordination.records import Scope

_PLAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z")
_PLAIN_MOST: Final = 128


def version_of(found: Mapping[str, Any]) -> int:
    """The resourceVersion of an object or a list. In one store of the API server they grow, so they can be compared."""
    return int(found["metadata"]["resourceVersion"])


def object_name(store: str, scope: Scope) -> str:
    """The name of the ConfigMap of a scope. A scope that is no name of Kubernetes has its checksum in its place."""
    if _PLAIN.match(scope) and len(scope) <= _PLAIN_MOST:
        return f"{store}.{scope}"
    letters = re.sub(r"[^a-z0-9]+", "-", scope.lower()).strip("-")[:40]
    return f"{store}.{letters}.{hashlib.sha256(scope.encode()).hexdigest()[:16]}".replace("..", ".")
