"""The store in a bucket of S3."""

from tenure.backends.s3.store import S3Store
from tenure.backends.s3.url import BucketPlace, place_of

__all__ = ["BucketPlace", "S3Store", "place_of"]
