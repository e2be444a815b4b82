"""The keys of a store in S3 that are replaced in their file while a member runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tenure.backends.buckets import BucketPlace, RequestFailed
from tenure.backends.s3 import S3
from tenure.backends.s3 import client as client_module
from tenure.backends.s3.client import S3Client


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of the keys, of a process that has no others."""
    found = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(found))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    client_module._session.cache_clear()
    yield found
    client_module._session.cache_clear()


def put(file: Path, key: str) -> None:
    file.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = secret of {key}\n")


def refuses(client: S3Client, status: int) -> None:
    """The server refuses the next request."""

    def refuse(**_: Any) -> Any:
        answer = {"Error": {"Code": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(answer, "GetObject")

    client._client.get_object = refuse
    with pytest.raises(RequestFailed):
        client.get("a", unless=None)


def key_of(client: S3Client) -> str:
    return str(client._client._request_signer._credentials.access_key)


@pytest.mark.parametrize("status", [400, 401, 403])
def test_keys_that_were_replaced_are_read_again_after_a_refusal(file: Path, status: int) -> None:
    """A member kept the old key for ever, and nobody led."""
    put(file, "old")
    client = S3Client(BucketPlace(S3, "bucket"), 5.0)
    assert key_of(client) == "old"
    same = client._client
    refuses(client, status)
    assert client._client is same, "the keys are those of before"
    put(file, "new")
    refuses(client, 503)
    assert key_of(client) == "old", "nobody has refused them"
    refuses(client, status)
    assert key_of(client) == "new"
    assert key_of(S3Client(BucketPlace(S3, "bucket"), 5.0)) == "new"


def test_a_file_that_is_being_written_is_read_at_the_next_refusal(file: Path) -> None:
    put(file, "old")
    client = S3Client(BucketPlace(S3, "bucket"), 5.0)
    file.write_text("[default]\naws_access_key_id = half\n")
    refuses(client, 403)
    assert key_of(client) == "old"
    put(file, "new")
    refuses(client, 403)
    assert key_of(client) == "new"
