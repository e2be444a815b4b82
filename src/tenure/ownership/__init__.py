"""Ownership: whether a storage and a store are those of one life of a pipeline (I10)."""
