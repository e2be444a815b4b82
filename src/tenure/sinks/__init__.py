"""The sinks that a pipeline file names: `from tenure.sinks import Delta, Files, Iceberg, Kafka, MySQL, Postgres`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.sinks.delta.sink import Delta
    from tenure.sinks.files.sink import Files
    from tenure.sinks.foreach_batch import ForeachBatch
    from tenure.sinks.iceberg.sink import Iceberg
    from tenure.sinks.kafka.sink import Kafka
    from tenure.sinks.mysql.sink import MySQL
    from tenure.sinks.postgres.sink import Postgres
    from tenure.sinks.sink import Batch

__all__ = ["Batch", "Delta", "Files", "ForeachBatch", "Iceberg", "Kafka", "MySQL", "Postgres"]

_IN = {
    "Batch": "sink",
    "Delta": "delta.sink",
    "Files": "files.sink",
    "ForeachBatch": "foreach_batch",
    "Iceberg": "iceberg.sink",
    "Kafka": "kafka.sink",
    "MySQL": "mysql.sink",
    "Postgres": "postgres.sink",
}


def __getattr__(name: str) -> Any:
    """Import a sink at its first use: a pipeline needs the packages of its own sinks only."""
    if name in _IN:
        return getattr(import_module(f"tenure.sinks.{_IN[name]}"), name)
    raise AttributeError(f"module 'tenure.sinks' has no attribute {name!r}")
