"""S3, for the store in a bucket."""

from tenure.backends.s3.url import S3, place_of

__all__ = ["S3", "place_of"]
