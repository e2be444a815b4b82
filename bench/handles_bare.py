"""The least that a durable handle costs with the bare client: one transaction, and one durable file.

No term, no lock, no checksum, no answer for a reply that is lost: what Tenure adds is measured against this.
With `inline` the state is in the record, and there is no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from kazoo.client import KazooClient

from bench.handles_side import Book, WrongResult, name_of, write_durably
from tenure.backends.etcd.messages import pb, stubs


class Bare(Book):
    """What the two have in common: the record is the payload, or the name of its file."""

    def __init__(self, files: Path, *, inline: bool) -> None:
        super().__init__(files)
        self._inline = inline
        self._records: dict[int, tuple[Any, bytes]] = {}  # version and content
        self._files = 0

    def store(self, payload: bytes) -> bytes:
        """The content of the record."""
        if self._inline:
            return payload
        self._files += 1
        write_durably(self.files / str(self._files), payload)
        return str(self._files).encode()

    def load(self, content: bytes) -> bytes:
        """The payload of a record."""
        return content if self._inline else (self.files / content.decode()).read_bytes()

    def drop(self, contents: Sequence[bytes]) -> None:
        """Remove the files of records that are gone."""
        if not self._inline:
            for content in contents:
                (self.files / content.decode()).unlink()


class BareZooKeeper(Bare):
    """One multi of kazoo's; reads are sent all at once."""

    def __init__(self, hosts: str, files: Path, *, top: str, inline: bool) -> None:
        super().__init__(files, inline=inline)
        self._top = top
        self._client = KazooClient(hosts=hosts)
        self._client.start()
        self._client.create(top)

    def do_add(self, number: int, payload: bytes) -> None:
        content = self.store(payload)
        multi = self._client.transaction()
        multi.create(self._path(number), content)
        self._commit(multi)
        self._records[number] = (0, content)

    def do_replace(self, number: int, payload: bytes) -> None:
        version, old = self._records[number]
        content = self.store(payload)
        multi = self._client.transaction()
        multi.set_data(self._path(number), content, version)
        self._commit(multi)
        self.drop([old])
        self._records[number] = (version + 1, content)

    def do_add_drop(self, number: int, payload: bytes, drop: int) -> None:
        version, old = self._records.pop(drop)
        content = self.store(payload)
        multi = self._client.transaction()
        multi.delete(self._path(drop), version)
        multi.create(self._path(number), content)
        self._commit(multi)
        self.drop([old])
        self._records[number] = (0, content)

    def do_get_all(self) -> Mapping[str, bytes]:
        names = self._client.get_children(self._top)
        asked = [self._client.get_async(f"{self._top}/{name}") for name in names]
        return {name: self.load(one.get()[0]) for name, one in zip(names, asked, strict=True)}

    def do_remove_all(self, numbers: Sequence[int]) -> None:
        gone = [self._records.pop(number) for number in numbers]
        multi = self._client.transaction()
        for number, (version, _) in zip(numbers, gone, strict=True):
            multi.delete(self._path(number), version)
        self._commit(multi)
        self.drop([content for _, content in gone])

    def close(self) -> None:
        """End it."""
        self._client.stop()
        self._client.close()

    def _path(self, number: int) -> str:
        return f"{self._top}/{name_of(number)}"

    def _commit(self, multi: Any) -> None:
        for result in multi.commit():
            if isinstance(result, Exception):
                raise WrongResult(f"{self}: {result!r}")


class BareEtcd(Bare):
    """One transaction of etcd's."""

    def __init__(self, endpoint: str, files: Path, *, top: str, inline: bool) -> None:
        super().__init__(files, inline=inline)
        self._top = f"{top}/"
        self._channel = grpc.insecure_channel(endpoint, options=(("grpc.max_receive_message_length", -1),))
        self._kv = stubs.KVStub(self._channel)

    def do_add(self, number: int, payload: bytes) -> None:
        content = self.store(payload)
        absent = pb.Compare(key=self._key(number), result=pb.Compare.EQUAL, target=pb.Compare.CREATE, create_revision=0)
        self._records[number] = (self._commit([absent], [self._put(number, content)]), content)

    def do_replace(self, number: int, payload: bytes) -> None:
        version, old = self._records[number]
        content = self.store(payload)
        self._records[number] = (self._commit([self._is(number, version)], [self._put(number, content)]), content)
        self.drop([old])

    def do_add_drop(self, number: int, payload: bytes, drop: int) -> None:
        version, old = self._records.pop(drop)
        content = self.store(payload)
        operations = [self._delete(drop), self._put(number, content)]
        self._records[number] = (self._commit([self._is(drop, version)], operations), content)
        self.drop([old])

    def do_get_all(self) -> Mapping[str, bytes]:
        found = self._kv.Range(pb.RangeRequest(key=self._top.encode(), range_end=self._top[:-1].encode() + b"0"))
        return {one.key.decode()[len(self._top) :]: self.load(one.value) for one in found.kvs}

    def do_remove_all(self, numbers: Sequence[int]) -> None:
        gone = {number: self._records.pop(number) for number in numbers}
        for start in range(0, len(numbers), _MOST):
            some = numbers[start : start + _MOST]
            self._commit([self._is(number, gone[number][0]) for number in some], [self._delete(n) for n in some])
        self.drop([content for _, content in gone.values()])

    def close(self) -> None:
        """End it."""
        self._channel.close()

    def _key(self, number: int) -> bytes:
        return f"{self._top}{name_of(number)}".encode()

    def _is(self, number: int, version: int) -> Any:
        return pb.Compare(key=self._key(number), result=pb.Compare.EQUAL, target=pb.Compare.MOD, mod_revision=version)

    def _put(self, number: int, content: bytes) -> Any:
        return pb.RequestOp(request_put=pb.PutRequest(key=self._key(number), value=content))

    def _delete(self, number: int) -> Any:
        return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=self._key(number)))

    def _commit(self, compare: Sequence[Any], success: Sequence[Any]) -> int:
        answer = self._kv.Txn(pb.TxnRequest(compare=compare, success=success))
        if not answer.succeeded:
            raise WrongResult(f"{self}: etcd refused a transaction")
        return int(answer.header.revision)


_MOST = 128
"""Operations that etcd takes in one transaction."""
