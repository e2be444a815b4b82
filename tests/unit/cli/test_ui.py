"""Who may reach the page: the flags of `tenure ui` that are refused, each with one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.cli.ui import access_of, read_token
from tenure.errors import UsageError

TOKEN = "a-token-of-many-characters"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "10.0.0.7", "host.example.org", "::"])
def test_an_address_that_others_reach_needs_a_word_about_its_readers(host: str) -> None:
    with pytest.raises(UsageError, match=r"is reached by others; give --token-file FILE.* or --read-only-public"):
        access_of(host, None, (), is_public=False)
    assert access_of(host, None, (), is_public=True).reads_openly
    assert not access_of(host, TOKEN, (), is_public=False).reads_openly


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_on_this_host_alone_everybody_reads(host: str) -> None:
    assert access_of(host, None, (), is_public=False).reads_openly
    assert access_of(host, TOKEN, (), is_public=False).token == TOKEN


def test_the_names_of_a_proxy_are_known() -> None:
    assert "ui.example.org" in access_of("127.0.0.1", None, ["UI.example.org."], is_public=False).hosts


def test_a_token_is_read_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"  {TOKEN}\n")
    assert read_token(tmp_path / "token") == TOKEN


@pytest.mark.parametrize("text", ["", "short", "two words that are long enough"])
def test_a_file_without_a_token(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(UsageError, match="has no token of 16 characters or more; make one: python3 -c"):
        read_token(tmp_path / "token")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file or directory; name a file with a token"):
        read_token(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff" * 40)
    with pytest.raises(UsageError, match="cannot be read: it is no text"):
        read_token(tmp_path / "bytes")
