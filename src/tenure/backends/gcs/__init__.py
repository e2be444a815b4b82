"""Google Cloud Storage, for the store in a bucket."""

from tenure.backends.gcs.url import GCS, place_of

__all__ = ["GCS", "place_of"]
