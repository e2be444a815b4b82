"""Cleanup: what a pipeline leaves, and how all of it goes, whatever fails on the way."""
