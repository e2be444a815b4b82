"""Opens the catalog of a table.

Promise: the settings come from pyiceberg's own configuration (~/.pyiceberg.yaml, PYICEBERG_CATALOG__...), beside those
of the pipeline file, which holds no secret. S3 is where the variables of AWS say, unless the catalog has settings of
its own. Each call opens a client of its own. A server of a catalog that says nothing counts as away after a minute.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from tenure.errors import UsageError
from tenure.patience import answered
from tenure.storage.engines import iceberg_properties
from tenure.wording import has_password

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_OPENED_S: Final = 60
_SILENT_S: Final = 60
_SECRET: Final = re.compile(
    r"secret|password|credential|account-key|connection-string|sas-token|(^|[.-])token$", flags=re.IGNORECASE
)


def refuse_secrets(name: str, properties: Mapping[str, str]) -> None:
    """Raise UsageError when a property of a catalog in a pipeline file is a secret."""
    for key, value in properties.items():
        if _SECRET.search(key) or has_password(value):
            variable = f"PYICEBERG_CATALOG__{name.upper()}__{key.upper().replace('-', '_').replace('.', '__')}"
            raise UsageError(
                f"property {key!r} of catalog {name!r} is a secret, and a pipeline file is none",
                fix=f"give it by {variable} or in ~/.pyiceberg.yaml",
            )


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """A new client of the catalog. Raises UsageError; TenureError of `failure`."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    from tenure.sinks.iceberg.failures import failure

    try:
        known = Config().get_catalog_config(name) or {}
        given = {**known, **properties}
        of_s3 = iceberg_properties() if any(one.startswith("AWS_") for one in os.environ) else {}
        # The configuration again, as pyiceberg itself has read the variables only once.
        load = partial(load_catalog, name, **{**of_s3, **given})  # type: ignore[arg-type] # a configuration has nested values
        # Its first requests, for a token or a configuration, have no limit of their own.
        catalog = answered(load, within_s=_OPENED_S)
    except Exception as error:
        if type(error) is ValueError:  # of the configuration, and not of a server that may answer otherwise later
            raise UsageError(
                f"catalog {name!r} cannot be used: {error}",
                fix=f"see ~/.pyiceberg.yaml and PYICEBERG_CATALOG__{name.upper()}__URI",
            ) from error
        raise failure(f"cannot open catalog {name!r}", error) from error
    session = getattr(catalog, "_session", None)  # of a server; pyiceberg would wait for ever
    if session is not None:
        session.request = partial(session.request, timeout=_SILENT_S)
    return catalog
