"""The store in a bucket of an object store, and what it asks of each service."""

from tenure.backends.buckets.service import BucketPlace, Cause, RequestFailed, Service
from tenure.backends.buckets.store import BucketStore

__all__ = ["BucketPlace", "BucketStore", "Cause", "RequestFailed", "Service"]
