"""The sink for PostgreSQL."""
