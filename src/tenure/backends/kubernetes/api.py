"""Requests to the API server, over the official client's connections and credentials.

Promise: a request is sent once. It is sent again only when it was not applied: after a 401, with credentials that are
read anew; after a 429, at the time that the server names; and a read, also after a line that broke. The official client
would send a replace again by itself, and then report the conflict with its own first request: that is switched off.
"""

from __future__ import annotations

import json
import os
import ssl
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    MaxRetryError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
)

from tenure.backends.kubernetes.errors import (
    CONFLICT,
    FORBIDDEN,
    NOT_FOUND,
    TOO_MANY,
    UNAUTHORIZED,
    NoAnswer,
    Refused,
    outcome,
    rule_of,
    unavailable,
)
from tenure.backends.kubernetes.url import Place
from tenure.clock import Clock
from tenure.errors import StoreUnavailable, UsageError

Object = dict[str, Any]
"""An object of the API as JSON has it."""

_IN_CLUSTER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_FORGETS_S: Final = 30.0
"""For how long the server may refuse a right that it has granted to us before. A server that starts knows no roles for
a moment, and refuses everybody."""
_PAUSE_MOST_S: Final = 5.0
"""How long at most a request waits at the server's demand (429)."""
_JSON: Final = "application/json"
_METADATA: Final = f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{_JSON}"
"""Objects without their data, where the server can."""
_SAYS_LITTLE: Final = 300
"""Characters of an answer that is no Status object."""


class Line:
    """The answer to a watch: one JSON object a line, for as long as the server sends them."""

    def __init__(self, response: urllib3.HTTPResponse) -> None:
        self._response = response
        self._lock = threading.Lock()  # guards the two below
        self._over = False
        self._closed = False

    def __iter__(self) -> Iterator[Object]:
        """The events. Ends when the server ends the watch, or after `close`. Raises NoAnswer."""
        rest = b""
        try:
            while True:
                chunk = self._response.read1()
                if not chunk:
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    yield json.loads(line)
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            if not self._closed:
                raise NoAnswer(f"the watch broke: {error}") from error
        finally:
            with self._lock:
                self._over = True
            self._response.close()

    def close(self) -> None:
        """End the iteration of another thread. A response must not be shut down once its connection is released."""
        with self._lock:
            if self._over or self._closed:
                return
            self._closed = True
            try:
                self._response.shutdown()
            except (OSError, ValueError, RuntimeError):
                return  # the line is over already


@dataclass(frozen=True, slots=True)
class _Request:
    """A request. `silent_s`: how long the server may say nothing."""

    method: str
    path: str
    query: Sequence[tuple[str, str]]
    body: Mapping[str, Any] | None
    silent_s: float
    accept: str

    @property
    def right(self) -> Hashable:
        """The right that it needs: what stands for verb and resource in a Role."""
        kind, *names = self.path.rpartition("/namespaces/")[2].split("/")[1:]
        return self.method, kind, bool(names), ("watch", "true") in self.query


class Api:
    """The API server, and who we are to it. Thread-safe. Nothing is read or sent before the first request."""

    def __init__(self, place: Place, *, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._lock = threading.Lock()  # guards the four below
        self._client: Any = None  # None: not loaded, or to be loaded anew
        self._namespace: str | None = place.namespace
        self._closed = False
        self._was_loaded = False
        self._granted: dict[Hashable, float] = {}
        """The right that a request which was permitted needed -> since when it is refused; 0: it is not."""
        self._connect_s = place.connect_timeout.total_seconds()
        self.request_s: Final = place.request_timeout.total_seconds()

    @property
    def namespace(self) -> str:
        """The namespace of the store. Raises UsageError: there is no cluster to be found."""
        self._loaded()
        assert self._namespace is not None
        return self._namespace

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        accept: str = _JSON,
    ) -> Object:
        """The object of the answer. `timeout_s` None: that of the URL.

        Raises Refused, NoAnswer; StoreUnavailable: nothing was sent; UsageError: there is no cluster to be found.
        """
        silent_s = self.request_s if timeout_s is None else timeout_s
        response = self._answered(_Request(method, path, query, body, silent_s, accept))
        try:
            answer = json.loads(response.read() or b"{}")
        except (HTTPError, OSError, ValueError) as error:
            raise NoAnswer(f"the answer broke off: {error}") from error
        return dict(answer)

    def find(
        self,
        path: str,
        what: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        timeout_s: float | None = None,
        whole: bool = True,
    ) -> Object | None:
        """The object at a path; None: there is none. `what`: the request, for messages. `whole` False: at least its
        metadata. Raises StoreUnavailable, UsageError."""
        try:
            return self.ask("GET", path, query=query, timeout_s=timeout_s, accept=_JSON if whole else _METADATA)
        except Refused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise unavailable(refused, what) from refused
        except NoAnswer as silent:
            raise unavailable(silent, what) from silent

    def write(
        self,
        method: str,
        path: str,
        what: str,
        *,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Object | None:
        """The answer to a change; None: nothing was written, as another writer was faster, or the object is gone.
        `what`: the request, for messages. Raises StoreUnavailable, OutcomeUnknown, UsageError."""
        try:
            return self.ask(method, path, body=body, timeout_s=timeout_s)
        except Refused as refused:
            if refused.status == CONFLICT or (refused.status == NOT_FOUND and method != "POST"):
                return None
            raise outcome(refused, what) from refused
        except NoAnswer as silent:
            raise outcome(silent, what) from silent

    def line(self, path: str, *, query: Sequence[tuple[str, str]], silent_s: float) -> Line:
        """A watch. `silent_s`: a line that says nothing for so long is broken. Raises what `ask` raises."""
        return Line(self._answered(_Request("GET", path, query, None, silent_s, _JSON)).response)

    def server_time(self) -> datetime | None:
        """The wall clock of the server, by the date of an answer: in whole seconds, rounded down; None: it does not
        say. Raises StoreUnavailable."""
        try:
            response = self._answered(_Request("GET", "/version", (), None, self.request_s, _JSON))
            response.read()
            return parsedate_to_datetime(response.headers["Date"])
        except (Refused, NoAnswer, HTTPError, OSError, KeyError, TypeError, ValueError):
            return None

    def close(self) -> None:
        """Let go of all connections. A later request is StoreUnavailable."""
        with self._lock:
            self._closed = True
            gone, self._client = self._client, None
        if gone is not None:
            gone.close()

    # --- inside -------------------------------------------------------------------------------------------------

    def _answered(self, request: _Request) -> Any:
        again = {"credentials": True, "line": request.method == "GET"}  # each reason to send it again counts once
        until_s = self._clock.monotonic_s() + min(self.request_s, _PAUSE_MOST_S)
        while True:
            used = self._loaded()
            try:
                return self._once(used, request)
            except Refused as refused:
                if refused.status == UNAUTHORIZED and again["credentials"]:
                    again["credentials"] = False
                    self._load_anew(used)
                elif refused.status == TOO_MANY and self._clock.monotonic_s() < until_s:
                    self._clock.sleep(min(refused.retry_after_s or 0.1, _PAUSE_MOST_S))
                else:
                    raise
            except NoAnswer:
                if not again["line"]:
                    raise
                again["line"] = False
            except _NotTrusted as error:
                if not again["credentials"]:
                    raise StoreUnavailable(str(error), fix="check the certificate authority of the cluster") from error
                again["credentials"] = False
                self._load_anew(used)

    def _once(self, used: Any, request: _Request) -> Any:
        headers = {"Accept": request.accept, "Content-Type": _JSON}
        try:
            method, url, headers, *_ = used.param_serialize(
                request.method, request.path, header_params=headers, auth_settings=["BearerToken"]
            )
            url += f"?{urlencode(request.query)}" if request.query else ""
            timeouts = (min(self._connect_s, request.silent_s), request.silent_s)
            response = used.rest_client.request(
                method, url, headers=headers, body=request.body, _request_timeout=timeouts
            )
        except (NewConnectionError, ConnectTimeoutError, MaxRetryError) as error:
            raise StoreUnavailable(
                f"the API server {used.configuration.host} cannot be reached: {error}",
                fix="check the address, and whether the server runs",
            ) from error
        except ApiException as error:  # the client's word for every error of TLS
            if request.method != "GET" and not _is_refused_certificate(error):
                raise NoAnswer(f"{used.configuration.host}: {error.reason}") from error
            raise _NotTrusted(f"the API server {used.configuration.host} is not trusted: {error.reason}") from error
        except config.ConfigException as error:  # a token that is being replaced
            raise StoreUnavailable(f"the credentials cannot be read: {error}") from error
        except (ProtocolError, ReadTimeoutError, HTTPError, OSError) as error:
            raise NoAnswer(f"{used.configuration.host}: {error}") from error
        if response.status < 300:
            self._granted[request.right] = 0.0
            return response
        raise self._refusal(response, request.right)

    def _refusal(self, response: Any, right: Hashable) -> Refused:
        try:
            said = response.read()
            status = json.loads(said)
            words = str(status["message"])
        except (HTTPError, OSError, ValueError, KeyError, TypeError):
            words = str(response.data or b"", "utf-8", "replace")[:_SAYS_LITTLE] or str(response.reason)
        after = response.headers.get("Retry-After", "")
        refused = Refused(response.status, words, retry_after_s=float(after) if after.isdecimal() else None)
        if refused.status == FORBIDDEN and right in self._granted and rule_of(words) is None:
            now_s = self._clock.monotonic_s()
            since_s = self._granted[right] or now_s
            self._granted[right] = since_s
            if now_s - since_s < _FORGETS_S:
                return Refused(TOO_MANY, f"refused although permitted before: {words}")
        return refused

    def _loaded(self) -> Any:
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            if self._client is None:
                self._client = self._load()
            return self._client

    def _load_anew(self, used: Any) -> None:
        """Read the credentials again, unless another thread has. Requests that are under way keep their line."""
        with self._lock:
            if self._client is used:
                self._client = None

    def _load(self) -> Any:
        settings = client.Configuration()
        try:
            in_pod = self._place.kubeconfig is None and self._place.context is None and _in_pod()
            if in_pod:
                config.load_incluster_config(client_configuration=settings)
            else:
                config.load_kube_config(
                    config_file=self._place.kubeconfig, context=self._place.context, client_configuration=settings
                )
            if self._namespace is None:
                self._namespace = _namespace_of_pod() if in_pod else self._namespace_of_context()
        except (config.ConfigException, OSError, ValueError, TypeError) as error:
            if self._was_loaded:  # the files are being replaced, or the program that gives the token failed
                raise StoreUnavailable(f"the credentials cannot be read: {error}") from error
            raise UsageError(
                f"no Kubernetes cluster is configured: {error}",
                fix="run in a pod, set KUBECONFIG, or say ?kubeconfig=FILE in the store URL",
            ) from error
        self._was_loaded = True
        settings.retries = False
        settings.connection_pool_maxsize = 8
        return client.ApiClient(settings)

    def _namespace_of_context(self) -> str:
        contexts, current = config.list_kube_config_contexts(config_file=self._place.kubeconfig)
        wanted = self._place.context or current["name"]
        found = next(context["context"] for context in contexts if context["name"] == wanted)
        return str(found.get("namespace") or "default")


class _NotTrusted(Exception):
    """TLS failed: nothing was sent, or only a read."""


def _is_refused_certificate(error: ApiException) -> bool:
    """Whether the server's certificate was refused, so that nothing was sent. A line can break in TLS later, too."""
    cause = error.__context__
    return isinstance(cause, HTTPError) and any(isinstance(one, ssl.SSLCertVerificationError) for one in cause.args)


def _in_pod() -> bool:
    """Whether this process runs in a pod with an account."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and os.path.isfile(f"{_IN_CLUSTER}/token")


def _namespace_of_pod() -> str:
    with open(f"{_IN_CLUSTER}/namespace", encoding="utf-8") as file:
        return file.read().strip()
