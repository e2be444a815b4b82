"""Cleanup: the remains of a pipeline, and their removal after any failure."""
