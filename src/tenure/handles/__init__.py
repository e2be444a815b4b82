"""Handles: a small pointer in the coordination store, the bytes in the storage, locks that protect them."""
