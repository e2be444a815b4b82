"""A real broker of Kafka on loopback, in KRaft's combined mode, from Maven's jars (`scripts/setup.sh kafka`).

Promise: `start` returns when topics can be made. A broker that was stopped, killed or paused goes on with its data and
on its ports. Records stay until a test removes them (`remove_before`), however old their timestamps are; after a kill,
removed records may be back. The broker listens twice: at `address` for everybody, and at `secured` for the user with a
password of `PASSWORDS` only (SASL, without TLS).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from tests.kit.process import GroupProcess
from tests.kit.servers.process import Servers, free_ports
from tests.kit.servers.programs import jvm, need
from tests.kit.waiting import NEVER_S, wait_until

SCRAM: Final = "SCRAM-SHA-512"
PASSWORDS: Final[Mapping[str, str]] = {"PLAIN": "plain-secret-of-the-tests", SCRAM: "scram-secret-of-the-tests"}
"""Mechanism -> the password of the user `USER`."""
USER: Final = "tenure"
_LOGIN: Final = "org.apache.kafka.common.security"


class KafkaServer(Servers):
    """The broker is `nodes[0]`; data and logs go below `folder`."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        """`settings`: more settings of the broker."""
        everybody, secured, control = free_ports(3)
        self.address: Final = f"127.0.0.1:{everybody}"
        """For `kafka.bootstrap.servers`."""
        self.secured: Final = f"127.0.0.1:{secured}"
        """The same, for clients that log in."""
        (folder / "tmp").mkdir(parents=True)
        listeners = f"PLAINTEXT://{self.address},SASL_PLAINTEXT://{self.secured}"
        configured = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{control}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORDS["PLAIN"]}";'
            ),
            f"listener.name.sasl_plaintext.{SCRAM.lower()}.sasl.jaas.config": (
                f"{_LOGIN}.scram.ScramLoginModule required;"
            ),
            "log.dirs": str(folder / "data"),
            "log.retention.ms": "-1",
            "broker.session.timeout.ms": "3000",  # after a kill, the broker waits for the end of its own session
            "broker.heartbeat.interval.ms": "500",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            **(settings or {}),
        }
        self._file: Final = folder / "server.properties"
        self._file.write_text("".join(f"{name}={value}\n" for name, value in configured.items()), encoding="utf-8")
        jars = f"{_jars()}/*"
        flags = ("-Xmx384m", f"-Djava.io.tmpdir={folder / 'tmp'}")
        scram = f"{SCRAM}=[name={USER},password={PASSWORDS[SCRAM]}]"
        form = ("format", "-t", "dGVudXJlLW9mLXRoZS10ZQ", "-c", str(self._file), "--add-scram", scram)
        made = subprocess.run(
            jvm("kafka.tools.StorageTool", *form, jars=jars, flags=flags), check=False, capture_output=True, text=True
        )
        assert made.returncode == 0, made.stdout[-1000:] + made.stderr[-2000:]
        self.nodes = (GroupProcess(jvm("kafka.Kafka", str(self._file), jars=jars, flags=flags), log=folder / "log"),)

    def advertise(self, port: int) -> None:
        """Send the clients of `address` to another port of this host, where a proxy listens. Call it before `start`."""
        text = self._file.read_text(encoding="utf-8")
        (line,) = (line for line in text.splitlines() if line.startswith("advertised.listeners="))
        text = text.replace(line, line.replace(f"//{self.address}", f"//127.0.0.1:{port}"))
        self._file.write_text(text, encoding="utf-8")

    def answers(self, number: int) -> bool:
        """Whether the broker knows itself as a broker: it is asked without waiting for a leader."""
        from confluent_kafka import KafkaException

        try:
            return bool(self._admin().list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def make_topic(self, name: str, *, partitions: int = 1, **settings: str) -> None:
        """Make a topic, and wait until each of its partitions can be written to."""
        from confluent_kafka.cimpl import NewTopic

        admin = self._admin()
        named = {key.replace("_", "."): value for key, value in settings.items()}
        _done(admin.create_topics([NewTopic(name, partitions, 1, config=named)]))
        self._wait_for_leaders(admin, name, partitions)

    def remove_topic(self, name: str) -> None:
        """Remove a topic, and wait until it is gone."""
        admin = self._admin()
        _done(admin.delete_topics([name]))
        wait_until(lambda: name not in admin.list_topics(timeout=NEVER_S).topics, what=f"topic {name} to go")

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic have `total` partitions."""
        from confluent_kafka.cimpl import NewPartitions

        admin = self._admin()
        _done(admin.create_partitions([NewPartitions(name, total)]))
        self._wait_for_leaders(admin, name, total)

    def remove_before(self, topic: str, offset: int, *, partition: int = 0) -> None:
        """Remove the records before an offset, as retention does."""
        from confluent_kafka import TopicPartition

        admin = self._admin()
        _done(admin.delete_records([TopicPartition(topic, partition, offset)]))

    def send(self, topic: str, values: Iterable[str], *, partition: int = 0) -> None:
        """Append records, and wait until the broker has all of them."""
        from confluent_kafka import KafkaError, Message, Producer

        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)

        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 5})
        for value in values:
            producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(NEVER_S) == 0, "records were not sent"
        assert not errors, errors[0]

    def _admin(self) -> Any:
        """A client. It must live until the futures of its answers are done."""
        from confluent_kafka.admin import AdminClient

        quiet: Any = {"log_level": 0, "error_cb": lambda error: None}  # a broker that is away is no news here
        return AdminClient({"bootstrap.servers": self.address, **quiet})

    def _wait_for_leaders(self, admin: Any, topic: str, partitions: int) -> None:
        def led() -> bool:
            found = admin.list_topics(topic, timeout=NEVER_S).topics[topic].partitions
            return len(found) == partitions and all(one.leader >= 0 for one in found.values())

        wait_until(led, what=f"the leaders of topic {topic}")


def _jars() -> Path:
    folder = Path(os.environ.get("TENURE_TEST_KAFKA") or Path(sys.prefix) / "kafka" / "jars")
    found = any(folder.glob("*kafka_2.13-*.jar"))
    return need(
        folder if found else None,
        "Kafka",
        fix="run scripts/setup.sh kafka, or set TENURE_TEST_KAFKA to the folder of its jars",
    )


def _done(futures: Mapping[Any, Future[Any]]) -> None:
    for future in futures.values():
        future.result(timeout=NEVER_S)
