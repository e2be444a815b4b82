"""The contract of a coordination store, and everything that is built on it once, for every store."""
