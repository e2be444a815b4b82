"""Errors of TLS: a refused certificate proves that nothing was sent, and a line that breaks later proves nothing."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTClientObject

from tenure.backends.kubernetes.api import Api
from tenure.backends.kubernetes.errors import NoAnswer
from tenure.backends.kubernetes.url import Place
from tenure.errors import StoreUnavailable, UsageError
from tests.kit.clock import ManualClock

BROKEN = ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
REFUSED = ssl.SSLCertVerificationError(1, "certificate verify failed")
PATH = "/api/v1/namespaces/pipelines/configmaps/tenure.shop"


class Tls:
    """Every request ends in an error of TLS, as the official client words it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: ssl.SSLError) -> None:
        self.requests: list[str] = []
        self._error = error
        monkeypatch.setattr(RESTClientObject, "request", self._fail)

    def _fail(self, method: str, url: str, **given: Any) -> None:
        self.requests.append(method)
        try:
            raise urllib3.exceptions.SSLError(self._error)
        except urllib3.exceptions.SSLError:
            raise ApiException(status=0, reason="SSLError")  # noqa: B904 # as the client does


@pytest.fixture
def config(tmp_path: Path) -> Path:
    cluster = {"server": "https://127.0.0.1:1"}
    settings = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


@pytest.fixture
def api(config: Path) -> Api:
    return Api(Place("pipelines", "tenure", kubeconfig=str(config)), clock=ManualClock())


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_write_whose_line_breaks_in_tls_is_sent_once_and_its_outcome_is_open(
    api: Api, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = Tls(monkeypatch, BROKEN)
    with pytest.raises(NoAnswer):
        api.ask(method, PATH, body={})
    assert tls.requests == [method]


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_certificate_that_is_refused_sends_nothing(api: Api, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = Tls(monkeypatch, REFUSED)
    with pytest.raises(StoreUnavailable, match="not trusted"):
        api.ask(method, PATH, body={})
    assert tls.requests == [method, method]  # again with files that are read anew


def test_credentials_that_cannot_be_read_again_are_no_mistake_of_the_user(
    api: Api, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tls(monkeypatch, REFUSED)
    with pytest.raises(StoreUnavailable):
        api.ask("GET", PATH)
    config.write_text("", encoding="utf-8")  # as a file that is just being replaced
    with pytest.raises(StoreUnavailable):
        api.ask("GET", PATH)


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    api = Api(Place("pipelines", "tenure", kubeconfig=str(tmp_path / "none")), clock=ManualClock())
    with pytest.raises(UsageError, match="no Kubernetes cluster is configured"):
        api.ask("GET", PATH)
