"""What the engines beside our own client need for a storage: Spark its classes and settings, delta-rs its options,
pyiceberg its properties.

Promise: no I/O but the files of AWS. No other module asks for the kind of a storage on behalf of an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tenure.s3_settings import S3Settings
from tenure.storage.urls import one_spelling, spark_url


@dataclass(frozen=True, slots=True)
class Needs:
    """The classes without which Spark cannot reach a storage. `scheme`: Hadoop's. `classes`: by the major version of
    AWS' SDK that Hadoop has been built with. `connector`: the name for `--connector` that has the classes."""

    scheme: str
    file_system: str
    classes: Mapping[int, tuple[str, ...]]
    connector: str


_S3: Final = Needs(
    scheme="s3a",
    file_system="org.apache.hadoop.fs.s3a.S3AFileSystem",
    classes={
        1: ("com.amazonaws.services.s3.AmazonS3Client", "com.amazonaws.services.s3.transfer.TransferManager"),
        2: (
            "software.amazon.awssdk.services.s3.S3AsyncClient",
            "software.amazon.awssdk.transfer.s3.S3TransferManager",
        ),
    },
    connector="s3",
)


def needs_of(path_or_url: str) -> Needs | None:
    """What Spark needs for a storage or a table; None: no more than it has itself, or the kind is not known here."""
    scheme, separator, _ = spark_url(path_or_url).partition("://")
    return _S3 if separator and scheme == _S3.scheme else None


FILE_SYSTEMS: Final = (_S3.file_system,)
"""Hadoop's classes that have settings in the environment."""


def hadoop_settings(file_system: str, *, aws_sdk: int) -> Mapping[str, str]:
    """Hadoop's settings for one of `FILE_SYSTEMS`, from this process's environment. Raises UsageError."""
    assert file_system in FILE_SYSTEMS, file_system
    return S3Settings.read().for_hadoop(aws_sdk=aws_sdk)


def delta_options(path_or_url: str, given: Mapping[str, str]) -> dict[str, str]:
    """The options of delta-rs for a table. `given`: the user's own, which go before those of the environment. Raises
    UsageError."""
    if needs_of(path_or_url) is not _S3:
        return dict(given)
    bucket = one_spelling(path_or_url).split("/")[2]
    return dict(S3Settings.read().for_delta(bucket, given))


def iceberg_properties() -> dict[str, str]:
    """The properties of pyiceberg for tables in S3, from this process's environment. Raises UsageError."""
    return dict(S3Settings.read().for_iceberg())
