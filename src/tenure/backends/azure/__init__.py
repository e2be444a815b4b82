"""Azure Blob Storage, for the store in a bucket."""

from tenure.backends.azure.url import AZURE, place_of

__all__ = ["AZURE", "place_of"]
