"""The embedded store: one SQLite file, shared by the processes of one machine."""

from tenure.backends.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
