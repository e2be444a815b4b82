"""The store on a Kubernetes API server."""

from tenure.backends.kubernetes.store import KubernetesStore
from tenure.backends.kubernetes.url import Place, place_of

__all__ = ["KubernetesStore", "Place", "place_of"]
