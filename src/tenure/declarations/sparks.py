"""The release of Spark that wrote the newest checkpoints of a scope, as its declaration has it. Pure.

Promise: a member with an older minor release of Spark is refused once a newer release has planned or retaken a batch.
Until then a scope may go back, as nothing of the newer release is in a checkpoint. Patch releases do not differ. Spark
reads the logs and the state of its older releases. An older release refuses some logs and state of a newer release, and
misreads the rest: it ignores the settings of the offset log that it does not know, such as the encoding of the state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Final

from tenure.coordination.records import Record
from tenure.declarations.declaration import Declaration, EarlierSpark
from tenure.errors import DeclaredOtherwise
from tenure.handles.handle import decode_handle

_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")


def release_of(version: str) -> tuple[int, int] | None:
    """The minor release of a version; None: the text is no version."""
    match = _RELEASE.match(version)
    return None if match is None else (int(match[1]), int(match[2]))


def epochs_of(handles: Iterable[Record]) -> list[int]:
    """The epochs of the terms that planned or retook these checkpoints. Raises CorruptHandle."""
    return [decode_handle(handle).epoch for handle in handles]


def spark_of(declaration: Declaration, epochs: Collection[int]) -> str | None:
    """The version of Spark that wrote the newest checkpoints, of these epochs; None: there are none."""
    if not epochs:
        return None
    before = declaration.spark_before
    return declaration.spark if before is None or max(epochs) >= before.epoch else before.version


def check_spark(
    scope: str, declaration: Declaration | None, epochs: Callable[[], Collection[int]], *, spark: str
) -> None:
    """Check that a Spark may go on with the newest checkpoints. `epochs`: of these. Raises DeclaredOtherwise, and the
    errors of `epochs`, which is called where it matters."""
    if declaration is None or not _is_older(spark, than=declaration.spark):
        return
    wrote = spark_of(declaration, epochs())
    if wrote is not None and _is_older(spark, than=wrote):
        major, minor = release_of(wrote) or ("", "")
        raise DeclaredOtherwise(
            f"scope {scope!r} has run with Spark {wrote}, and this member has Spark {spark}, which may misread "
            "the state and the logs of the newer release",
            fix=f"start this member with Spark {major}.{minor} or newer",
        )


def spark_before(
    recorded: Declaration | None, epochs: Callable[[], Collection[int]], *, spark: str, epoch: int
) -> EarlierSpark | None:
    """The Spark of the newest checkpoints, for the declaration that a term records with another Spark; None: its own,
    or there are no checkpoints. `epoch`: of the term."""
    if recorded is None:
        return None
    if release_of(recorded.spark) == release_of(spark):
        return recorded.spark_before
    wrote = spark_of(recorded, epochs())
    return None if wrote is None or release_of(wrote) == release_of(spark) else EarlierSpark(wrote, epoch)


def _is_older(version: str, *, than: str) -> bool:
    one, other = release_of(version), release_of(than)
    return one is not None and other is not None and one < other
