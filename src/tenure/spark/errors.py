"""The errors of Spark and of its gateway, in one line for people; and whether something outside is silent.

Promise: the sentence that matters, without frames of Java, also when the JVM does not answer.

`does_not_answer` knows the words of refused and broken connections, of time limits of connections, and of servers that
say themselves that they do not serve now: of databases, object stores, name nodes, services. Not promised: that no
error of another kind has such words, or that each client says so in them; an error that is not known here is tried
again a limited number of times.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from tenure.spark.releases import description_of
from tenure.wording import sentence

SPARK_ERRORS = (PySparkException, Py4JError, OSError)
"""The errors of a call into the JVM: of Spark, of the gateway, and OSError when the JVM is gone."""


def one_line(error: BaseException) -> str:
    """The sentence that matters of a Spark or Python error."""
    message = sentence(words_of(error))
    if message and isinstance(error, (PySparkException, Py4JJavaError)):
        return message
    return ": ".join(filter(None, (type(error).__name__, message)))


def words_of(error: BaseException) -> str:
    """The message of an error, also when the JVM does not answer. `str` of PySpark's and py4j's errors asks the JVM,
    and then fails or adds a stack."""
    description = description_of(error) if isinstance(error, PySparkException) else None
    if description is not None:
        return description
    try:
        return str(error)
    except (Py4JError, OSError):
        return str(getattr(error, "errmsg", ""))


def is_late_worker(error: BaseException) -> bool:
    """Whether a query ended as a Python process that Spark started for it was not up within Spark's ten seconds."""
    return "Python worker failed to connect back" in words_of(error)


_WORDS: Final = re.compile(
    r"""
    Connection\ (?:to\ \S+\ )?(?:was\ )?(?:refused|reset|timed\ out|aborted)  # of sockets, Java's and PostgreSQL's
    |ConnectException|NoRouteToHost|UnknownHost|SocketTimeoutException|HttpHostConnectException
    |No\ route\ to\ host|Network\ is\ unreachable|Host\ is\ down
    |Name\ or\ service\ not\ known|Temporary\ failure\ in\ name\ resolution|Could\ not\ resolve\ host
    |(?:connect|read|connection|request)\ timed\ out|Connect(?:ion)?\ timeout\ expired|deadline\ has\ elapsed
    |Remote\ end\ closed\ connection|Max\ retries\ exceeded\ with\ url|error\ sending\ request\ for\ url
    |Unable\ to\ execute\ HTTP\ request|Could\ not\ connect\ to\ the\ endpoint
    |Communications\ link\ failure|The\ TCP/IP\ connection\ to\ the\ host
    |\b(?:Status\ Code:|status\ code|HTTP|HTTP/1\.1|HTTP\ Error|Error\ Code:?)\ 50[234]\b
    |\b50[234]\ (?:Service\ (?:Temporarily\ )?Unavailable|Bad\ Gateway|Gateway\ Time-?out|Slow\ ?Down)
    |SlowDown|Please\ reduce\ your\ request\ rate|ServiceUnavailable
    |Name\ node\ is\ in\ safe\ mode|SafeModeException|in\ state\ standby|could\ only\ be\ written\ to\ 0\ of
    |the\ database\ system\ is\ (?:starting\ up|shutting\ down|in\ recovery\ mode|not\ yet\ accepting)
    |server\ closed\ the\ connection\ unexpectedly|terminating\ connection\ due\ to|connection\ is\ lost
    |Can't\ connect\ to\ MySQL\ server|Lost\ connection\ to\ MySQL\ server|MySQL\ server\ has\ gone\ away
    |the\ connection\ is\ closed|SSL\ connection\ has\ been\ closed\ unexpectedly
    """,
    flags=re.IGNORECASE | re.VERBOSE,
)

_KINDS: Final = (ConnectionError, TimeoutError, socket.gaierror)


def does_not_answer(error: BaseException) -> bool:
    """Whether the error says so, or a cause of it."""
    return any(isinstance(one, _KINDS) or _WORDS.search(words_of(one)) is not None for one in causes_of(error))


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes: pyspark raises some errors of its own in place of the gateway's."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
