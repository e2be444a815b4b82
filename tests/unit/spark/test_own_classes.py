"""Classes of ours that cannot be given to Spark: one line, with what helps."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest

from tenure.errors import QueryFailed
from tenure.spark import own_classes


class Context:
    """As much of Spark's context as is asked for. A weak reference to it must be possible."""

    def __init__(self, folder: Path) -> None:
        self._temp_dir, self._jvm = folder, None


def test_a_full_temporary_folder_is_named_as_full(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    spark = cast(Any, SimpleNamespace(sparkContext=Context(tmp_path)))
    with patch("zipfile.ZipFile", side_effect=full), pytest.raises(QueryFailed) as refused:
        own_classes.use_own_classes(spark)
    assert "No space left on device" in str(refused.value)
    assert "free space" in str(refused.value) or "make room" in str(refused.value)
