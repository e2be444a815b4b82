"""The checksum files of Spark and of Hadoop, made by hand and damaged."""

from __future__ import annotations

import pytest

from tenure.rundirs.checksums import checksum_names, crc32c, wrong_in
from tests.unit.rundirs.made_by_hand import hadoops_checksum, sparks_checksum

DATA = bytes(range(256)) * 5


def test_the_known_sum() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


def test_the_names() -> None:
    assert checksum_names("7_x.changelog") == ("7_x.changelog.crc", ".7_x.changelog.crc")


@pytest.mark.parametrize("data", [DATA, DATA[:512], b"x", b""])
def test_the_same_bytes_are_right(data: bytes) -> None:
    assert wrong_in(data) is None
    assert wrong_in(data, sparks=sparks_checksum(data), hadoops=hadoops_checksum(data)) is None


@pytest.mark.parametrize("place", [0, 700, len(DATA) - 1])
def test_one_bit_is_enough(place: int) -> None:
    changed = bytes([*DATA[:place], DATA[place] ^ 1, *DATA[place + 1 :]])
    assert wrong_in(changed, sparks=sparks_checksum(DATA)) == "has other bytes than its checksum by Spark"
    assert wrong_in(changed, hadoops=hadoops_checksum(DATA)) == "has other bytes than its checksum by Hadoop"


def test_a_size_and_a_torn_end() -> None:
    assert wrong_in(DATA[:-1], sparks=sparks_checksum(DATA)) == "has 1279 bytes instead of 1280"
    assert wrong_in(DATA[:512], hadoops=hadoops_checksum(DATA)) == "has other bytes than its checksum by Hadoop"


@pytest.mark.parametrize("recorded", [b"", b"checksum", b"[]", b'{"algorithm":"CRC32C"}'])
def test_a_checksum_of_spark_must_decode_and_one_of_hadoop_may_be_none(recorded: bytes) -> None:
    """As Spark and Hadoop read them."""
    assert wrong_in(DATA, sparks=recorded) == "has a checksum file of Spark that does not decode"
    assert wrong_in(DATA, hadoops=recorded) is None


def test_another_algorithm_is_not_judged() -> None:
    recorded = sparks_checksum(DATA).replace(b"CRC32C", b"BLAKE3")
    assert wrong_in(DATA[::-1], sparks=recorded) is None
