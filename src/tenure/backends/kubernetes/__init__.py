"""The store on a Kubernetes API server."""

from tenure.backends.kubernetes.published_address import KubernetesAddress
from tenure.backends.kubernetes.store import KubernetesStore
from tenure.backends.kubernetes.url import Place, place_of

__all__ = ["KubernetesAddress", "KubernetesStore", "Place", "place_of"]
