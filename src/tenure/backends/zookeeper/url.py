"""The ensemble that a store URL names."""

from __future__ import annotations

from datetime import timedelta
from importlib.util import find_spec
from typing import Any

from kazoo.security import CREATOR_ALL_ACL

from tenure.backends.shared.server_url import StoreUrl
from tenure.backends.zookeeper.connection import Ensemble
from tenure.coordination.store_url import NAME_A_USER
from tenure.errors import UsageError
from tenure.wording import how_to_install


def ensemble_of(url: StoreUrl) -> Ensemble:
    """`user:password@`: a digest, or with `sasl=DIGEST-MD5` the user of SASL; `sasl=GSSAPI` takes the process's ticket.
    Only the user may use new nodes, unless `acl=open`. `tls=true`, `ca`, `cert`, `key`: over TLS. Raises UsageError."""
    sasl = url.choice("sasl", ("DIGEST-MD5", "GSSAPI"))
    known = url.user is not None or sasl is not None
    if sasl == "DIGEST-MD5" and url.user is None:
        raise UsageError("sasl=DIGEST-MD5 needs a user and a password", fix=NAME_A_USER)
    if sasl is not None and find_spec("puresasl") is None:  # kazoo asks for it only in a thread of its own
        raise UsageError(
            f"sasl={sasl} needs the Python package 'puresasl', which is not installed", fix=how_to_install("sasl")
        )
    options: dict[str, Any] = {} if sasl is None else {"mechanism": sasl}
    if sasl == "DIGEST-MD5":
        options |= {"username": url.user, "password": url.password}
    files = {"ca": url.file("ca"), "certfile": url.file("cert"), "keyfile": url.file("key")}
    tls = url.choice("tls", ("true", "false")) == "true" or any(files.values())
    is_open = url.choice("acl", ("open", "owner")) == "open" or not known
    return Ensemble(
        hosts=",".join(url.hosts),
        chroot=url.path,
        auth=(("digest", f"{url.user}:{url.password}"),) if url.user is not None and sasl is None else (),
        sasl=tuple(options.items()),
        tls=tuple({"use_ssl": True, "check_hostname": True, **files}.items()) if tls else (),
        acl=None if is_open else tuple(CREATOR_ALL_ACL),
        connect_timeout=url.duration("connect_timeout", timedelta(seconds=5)),
        request_timeout=url.duration("request_timeout", timedelta(seconds=10)),
    )
