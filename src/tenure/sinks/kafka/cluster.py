"""Questions to the cluster, and the making of a ledger.

Promise: nothing is written but the topic of a ledger. `ask` writes nothing: it opens no producer, which would fence the
leader. So it does not ask for the rights on a transactional id, as no request asks for these alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, OffsetSpec, ResourceType
from confluent_kafka.cimpl import NewTopic

from tenure.clock import Clock
from tenure.errors import QueryFailed, StorageError, UsageError
from tenure.retry import exponential_delay, retry
from tenure.sinks.kafka.errors import MISSING, UNAUTHORIZED, error_of, is_refusal, refusal
from tenure.sinks.kafka.settings import Heard, KafkaSettings

PARTITION: Final = 0
"""Where the records of a ledger are."""
_OWN_PLACE: Final = "tenure-ledger-of-the-doctor"
"""A ledger whose name no query has, as its scope has no end: the doctor asks whether it may make one like it."""
_POLICY: Final = "cleanup.policy"
_LEDGER: Final = {_POLICY: "compact", "segment.ms": "3600000"}
"""Of a new ledger. Compaction leaves a segment alone until it is closed, and the default is a week."""
_BROKERS_DEFAULT: Final = -1
_UNTIL_LED: Final = exponential_delay(initial=timedelta(milliseconds=20), maximum=timedelta(seconds=1), attempts=15)


class KafkaCluster:
    """The cluster of one sink. Thread-safe; the constructor does no I/O."""

    def __init__(self, settings: KafkaSettings, *, patience_s: float, clock: Clock) -> None:
        """`patience_s`: for how long a question waits for its answer."""
        self.settings = settings
        self._clock = clock
        self._patience_s = patience_s
        self._heard = Heard()
        self._made: AdminClient | None = None  # None: nothing was asked yet

    def __str__(self) -> str:
        return str(self.settings)

    def replicas(self, topic: str) -> int | None:
        """The replicas of a topic; None: it is not there. Raises StorageError, QueryFailed."""
        found = self._described(topic)
        return None if found is None else len(found.partitions[0].replicas)

    def ends(self, topic: str) -> tuple[int, int]:
        """The first offset of a ledger, and the offset after its last record, committed or not. Raises StorageError,
        QueryFailed."""
        place = TopicPartition(topic, PARTITION)
        return self._end(place, OffsetSpec.earliest()), self._end(place, OffsetSpec.latest())

    def make_ledger(self, topic: str, *, like: str | None) -> None:
        """Make the topic of a ledger where there is none, with the replicas of the topic `like`. Raises StorageError;
        QueryFailed: the cluster refuses, or the topic that is there may forget."""
        if self._described(topic) is None:
            replicas = self.replicas(like) if like is not None else None
            with self._asking(topic) as admin:
                try:
                    admin.create_topics([self._new(topic, replicas)], **self._limits)[topic].result()
                except KafkaException as error:
                    if error_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another member makes it, too
                        raise
            retry(lambda: self._refuse_unled(topic), policy=_UNTIL_LED, on=StorageError, clock=self._clock)
        if (policy := self._policy(topic)) != "compact":
            raise QueryFailed(
                f"topic {topic!r} at {self} has {_POLICY}={policy}: a ledger must not forget",
                fix=f"set {_POLICY}=compact on it, or name another topic as ledger=",
            )

    def look(self, topic: str) -> None:
        """Refuse a topic that is not there. Raises UsageError, StorageError, QueryFailed."""
        if self._described(topic) is None:
            raise UsageError(f"topic {topic!r} is not at {self}", fix="make it: Tenure makes only its ledger")

    def ask(self, *, topic: str | None, ledger: str | None) -> None:
        """Connect, and ask for the rights on the topic, and on the ledger or the making of one. Raises UsageError: the
        topic or a right is missing; StorageError, QueryFailed."""
        with self._asking("the cluster") as admin:
            admin.describe_cluster(**self._limits).result()
        if topic is not None:
            self.look(topic)
            self._refuse_without(topic, AclOperation.WRITE, AclOperation.DESCRIBE)
        if ledger is not None and self._described(ledger) is not None:
            rights = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
            self._refuse_without(ledger, *rights)
            self.make_ledger(ledger, like=topic)  # looks at its policy: it is there
            return
        name = ledger or _OWN_PLACE
        replicas = self.replicas(topic) if topic is not None else None
        with self._asking(name) as admin:
            try:
                admin.create_topics([self._new(name, replicas)], validate_only=True, **self._limits)[name].result()
            except KafkaException as error:
                if error_of(error).code() not in UNAUTHORIZED:
                    raise
                raise UsageError(
                    f"{self}: this user may not make the topic of a ledger, such as {name!r}",
                    fix="grant Create on topics that begin with 'tenure-ledger-', or make it and name it as ledger=",
                ) from error

    def _refuse_unled(self, topic: str) -> None:
        """Raise StorageError when no broker leads the partition of a ledger yet."""
        found = self._described(topic)
        if found is None or found.partitions[PARTITION].leader is None:
            raise StorageError(f"{self} does not serve topic {topic!r}, which was made")

    # --- the answers ------------------------------------------------------------------------------------------------

    def _described(self, topic: str, *, rights: bool = False) -> Any:
        """The description of a topic; None: it is not there."""
        with self._asking(topic) as admin:
            try:
                asked = admin.describe_topics(
                    TopicCollection([topic]), include_authorized_operations=rights, **self._limits
                )
                return asked[topic].result()
            except KafkaException as error:
                if error_of(error).code() in MISSING:
                    return None
                raise

    def _refuse_without(self, topic: str, *needed: AclOperation) -> None:
        found = self._described(topic, rights=True)
        granted = set(() if found is None else found.authorized_operations)
        missing = [right.name.title().replace("_", "") for right in needed if right not in granted]
        if missing:
            raise UsageError(
                f"{self}: this user lacks {' and '.join(missing)} on topic {topic!r}",
                fix="grant it, or log in otherwise",
            )

    def _policy(self, topic: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        with self._asking(topic) as admin:
            found = admin.describe_configs([resource], **self._limits)[resource].result()
        return str(found[_POLICY].value)

    def _end(self, place: TopicPartition, which: OffsetSpec) -> int:
        with self._asking(place.topic) as admin:
            asked = admin.list_offsets({place: which}, isolation_level=IsolationLevel.READ_UNCOMMITTED, **self._limits)
            return int(asked[place].result().offset)

    @staticmethod
    def _new(topic: str, replicas: int | None) -> NewTopic:
        return NewTopic(topic, 1, _BROKERS_DEFAULT if replicas is None else replicas, config=_LEDGER)

    @property
    def _limits(self) -> dict[str, float]:
        """Each answer comes by then, or an error."""
        return {"request_timeout": self._patience_s}

    @contextmanager
    def _asking(self, topic: str) -> Iterator[AdminClient]:
        """A client, which must live until it has answered. Raise our errors in place of its own."""
        admin = self._made
        if admin is None:
            admin = self._made = AdminClient(self.settings.for_client(self._heard))
        try:
            yield admin
        except KafkaException as error:
            found = error_of(error)
            if is_refusal(found):
                raise refusal(found, where=f"{topic} at {self}") from error
            admin.poll(0)  # lets it say what it heard
            self._made = None  # it would ask an old leader of a partition again and again
            raise StorageError(in_words(self, found, self._heard)) from error


def in_words(where: object, error: KafkaError, heard: Heard) -> str:
    """The line of a cluster that does not answer, with what the client has heard."""
    return f"{where}: {error.str()}{f'; {heard.last}' if heard.last else ''}"
