"""Queries that move in and out of a scope, and a scope that goes on after the loss of its store."""
