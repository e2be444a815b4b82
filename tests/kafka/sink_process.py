"""A process that writes a batch to Kafka, and stops itself (SIGSTOP) before the commit, once. It prints how that ended.

Arguments: servers, name of the place, epoch, batch.
"""

from __future__ import annotations

import os
import signal
import sys

from tenure.clock import SystemClock
from tenure.errors import Fenced
from tenure.sinks.kafka.cluster import KafkaCluster
from tenure.sinks.kafka.ledger import Ledger
from tenure.sinks.kafka.producer import TransactionalProducer
from tenure.sinks.kafka.settings import KafkaSettings
from tenure.sinks.kafka.writer import KafkaWriter
from tenure.sinks.sink import Batch
from tests.kafka.sink_place import PATIENT, QUICK, ROWS

AWAKE, FENCED, WRITTEN = "awake", "fenced", "written"


def main(servers: str, name: str, epoch: int, number: int) -> None:
    clock, batch = SystemClock(), Batch(name, "hourly", f"{name}-hourly", number, epoch)
    cluster = KafkaCluster(KafkaSettings(servers, {}), patience_s=PATIENT.answer_s, clock=clock)
    ledger = Ledger(cluster, f"{name}-ledger", like=f"{name}-out", clock=clock)
    writer = KafkaWriter(cluster, ledger, batch, policy=QUICK, patience=PATIENT, clock=clock)
    drain, stops = TransactionalProducer._drain, [number]

    def drained(producer: TransactionalProducer, began_s: float) -> None:
        drain(producer, began_s)
        if writer._newest is not None and writer._newest.epoch == epoch and stops:  # its claim is done
            stops.clear()
            os.kill(os.getpid(), signal.SIGSTOP)
            say(AWAKE)

    TransactionalProducer._drain = drained  # type: ignore[assignment, method-assign] # a fault from outside
    records = [(f"{name}-out", f"b{number}r{row}".encode(), str(row).encode(), -1, 0, None) for row in range(ROWS)]
    try:
        say(f"{WRITTEN} {writer.write(batch, lambda: records)}")
    except Fenced as fenced:
        say(f"{FENCED}: {fenced}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
