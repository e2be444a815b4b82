"""Pure: why Spark did not start, as an error with its cause, its fix, and a fitting exit code.

Promise: what a person has to mend is a UsageError or a QueryFailed; what passes by itself is a DriverDied, so that a
supervisor starts the member again, and an agent its driver: a JVM that was killed, a machine without memory, a
repository that does not answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tenure.errors import DriverDied, QueryFailed, TenureError, UsageError
from tenure.spark.fetching import fix_of_fetching, lacking_in

LEAST_JAVA: Final = 17
INSTALL_JAVA: Final = (
    f"install Java {LEAST_JAVA} or newer (apt-get install openjdk-{LEAST_JAVA}-jre-headless), or set JAVA_HOME to it"
)

_GATEWAY: Final = "JAVA_GATEWAY_EXITED"
"""In PySpark's error for a spark-submit that ended before Python reached its JVM."""

_NO_JAVA: Final = re.compile(
    r"(JAVA_HOME is not set)|\s(/?\S*/bin/java): (?:No such file|Permission denied|cannot execute|not found|Is a dir)"
)
_OLD_JAVA: Final = re.compile(r"UnsupportedClassVersionError|Unrecognized option: --add-|class file version 6\d")
_NEW_JAVA: Final = "getSubject is not supported"
"""In the errors of Hadoop before 3.5 on Java 24 or newer."""
_NO_MEMORY: Final = re.compile(r"insufficient memory for the Java Runtime|Cannot allocate memory")
_GAVE_UP: Final = re.compile(r'^(?:Error: |Exception in thread "main" (?:[\w.$]+: )?)(.+)$', flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A start of Spark that failed. `why`: the words of the error. `code`: the exit code of spark-submit or its JVM
    (negative: the signal); None: it runs. `said`: its output. `where`: the master, for people. `log`: the file."""

    why: str
    code: int | None
    said: str
    where: str
    log: str


def not_started(failure: NotStarted) -> TenureError:
    """The error of a session that was not made."""
    see = f"see {failure.log}"
    if _NEW_JAVA in failure.why:
        return UsageError("the installed Java is too new for Spark's Hadoop", fix="set JAVA_HOME to Java 17 or 21")
    if _GATEWAY in failure.why:
        found = _before_the_gateway(failure)
        if found is not None:
            return found
    elif failure.code is not None:
        return _died(failure)
    reasons = _GAVE_UP.findall(failure.said) if _GATEWAY in failure.why else []
    why = reasons[-1][:300] if reasons else failure.why
    if _GATEWAY in why:
        why = f"spark-submit ended with exit code {failure.code}"
    return QueryFailed(f"Spark does not start{failure.where}: {why}", fix=see)


def _before_the_gateway(failure: NotStarted) -> TenureError | None:
    """The error where the output says why; None: it has only spark-submit's own words, if any."""
    if (missing := _NO_JAVA.search(failure.said)) is not None:
        named = "JAVA_HOME is not set, and no java is in PATH" if missing[1] else f"{missing[2]} is not there"
        return UsageError(f"Spark finds no Java: {named}", fix=INSTALL_JAVA)
    if _OLD_JAVA.search(failure.said) is not None:
        return UsageError(f"Spark needs Java {LEAST_JAVA} or newer, and the installed Java is older", fix=INSTALL_JAVA)
    if (lacking := lacking_in(failure.said)) is not None:
        kind = DriverDied if lacking.in_passing else QueryFailed
        names = ", ".join(lacking.packages)
        return kind(f"Spark cannot fetch {names}", fix=f"{fix_of_fetching(lacking)}; see {failure.log}")
    code = failure.code
    if (code is not None and (code < 0 or code > 128)) or _NO_MEMORY.search(failure.said):
        return _died(failure)
    return None


def _died(failure: NotStarted) -> DriverDied:
    return DriverDied(f"Spark's JVM ended with exit code {failure.code} while Spark started", fix=f"see {failure.log}")
