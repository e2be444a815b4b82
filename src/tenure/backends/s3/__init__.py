"""The store in a bucket of S3."""

from tenure.backends.s3.store import S3Store
from tenure.backends.s3.url import Place, place_of

__all__ = ["Place", "S3Store", "place_of"]
