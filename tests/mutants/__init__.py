"""Weaker versions of the product, each of which a test must notice: `make mutants`.

Promise: a protection that a mutant here takes away is one whose loss turns the named tests red. Not promised: that
every protection has its mutant.
"""
