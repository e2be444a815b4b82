"""The store in a PostgreSQL database."""

from tenure.backends.postgres.store import PostgresStore
from tenure.backends.postgres.url import PostgresPlace, place_of

__all__ = ["PostgresPlace", "PostgresStore", "place_of"]
