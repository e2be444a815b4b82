"""What a task writes for MySQL, and how a server of MySQL is named: pure."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tenure.errors import UsageError
from tenure.sinks.mysql.columns import COLUMNS, made_for
from tenure.sinks.mysql.inserting import packets, rows_of
from tenure.sinks.mysql.url import parameters_of, with_password


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.bool_(), True, "1"),
        (pa.int64(), -(2**63), "-9223372036854775808"),
        (pa.float32(), 0.5, "0.5e0"),
        (pa.float64(), 1e300, "1e+300"),
        (pa.float64(), 1 / 3, "0.3333333333333333e0"),
        (pa.decimal128(38, 10), Decimal("1E-10"), "'1E-10'"),
        (pa.string(), 'it\'s \\ "so"', "'it\\'s \\\\ \"so\"'"),
        (pa.string(), "", "''"),
        (pa.string(), None, "NULL"),
        (pa.binary(), b"\x00'\\", "x'00275c'"),
        (pa.binary(), b"", "x''"),
        (pa.date32(), date(1, 1, 1), "'0001-01-01'"),
        (pa.timestamp("us", "Asia/Tokyo"), datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "'2026-01-02 03:04:05.000006'"),
        (pa.timestamp("us"), datetime(2026, 1, 2), "'2026-01-02 00:00:00.000000'"),  # noqa: DTZ001 - it has no zone
    ],
)
def test_a_value_is_written_as_mysql_reads_it(kind: pa.DataType, value: Any, text: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([value], kind), pa.array([None], kind)], names=["a", "b"])
    assert list(rows_of(batch, ["a", "b"], ",3,7)")) == [f"({text},NULL,3,7)".encode()]


def test_rows_are_parted_by_their_bytes() -> None:
    assert list(packets(iter([b"(1)", b"(22)", b"(333)"]), most=9)) == [b"(1),(22)", b"(333)"]
    assert list(packets(iter([]), most=9)) == []
    with pytest.raises(ValueError, match="a row has 5 bytes, and max_allowed_packet of the server is for 4"):
        list(packets(iter([b"(1)", b"(333)"]), most=4))


def test_keys_have_a_length_that_fits_into_one_index() -> None:
    columns = {"a": "longtext", "b": "longtext", "n": "bigint", "rest": "longtext"}
    assert made_for(columns, ["a", "n"]) == {**columns, "a": "varchar(255)"}
    names = [f"k{number}" for number in range(7)]
    assert made_for(dict.fromkeys(names, "longtext"), names) == dict.fromkeys(names, "varchar(100)")


@pytest.mark.parametrize("kind", ["decimal(38,31)", "interval day to second", {"type": "array"}])
def test_a_type_that_mysql_does_not_hold_is_refused(kind: Any) -> None:
    with pytest.raises(UsageError, match=r"column 'odd' has type .*, which has no counterpart in MySQL here"):
        COLUMNS.columns_of({"fields": [{"name": "odd", "type": kind}]})


def test_a_url_says_how_the_server_is_reached() -> None:
    assert parameters_of("mariadb://the%40user@db.example.com:3307/out?ssl_ca=/ca.pem") == {
        "host": "db.example.com",
        "port": 3307,
        "user": "the@user",
        "database": "out",
        "ssl_ca": "/ca.pem",
        "ssl_verify_cert": True,
        "ssl_verify_identity": True,
    }


def test_a_password_comes_from_the_environment_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text('[mysqld]\nuser=mysql\n[client]\nuser = of_file\npassword = "a#b%c"\nssl\n')
    given = parameters_of(f"mysql://u@h/d?option_file={file}")
    assert with_password(given, {})["password"] == "a#b%c"
    assert with_password(given, {})["user"] == "u"
    unnamed = parameters_of(f"mysql://h/d?option_file={file}")
    assert with_password(unnamed, {"USER": "me"})["user"] == "of_file"
    assert with_password(parameters_of("mysql://h/d"), {"USER": "me", "MYSQL_PWD": "x"}) == {
        **{"host": "h", "port": 3306, "database": "d"},
        **{"user": "me", "password": "x"},
    }
    with pytest.raises(UsageError, match=r"option_file '/nowhere' of a MySQL sink cannot be read: No such file"):
        with_password({"option_file": "/nowhere"}, {})
