"""The settings of S3, read once from the variables and profiles of AWS, for each of its four clients.

Promise: Spark (S3A), delta-rs, pyiceberg and s3fs reach the same endpoint, in the same region and style, and look for
credentials in the same places, the variables first. Credentials are never read here: each client does that itself, so
that none appears in a setting, and temporary credentials are renewed. A value that you gave to a client goes before
ours. No I/O but the files of AWS. Not promised: the same order of the places behind the variables, where several have
credentials.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final

from tenure.errors import UsageError

_SECRETS: Final = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"})
_OF_AWS: Final = re.compile(r"\.amazonaws\.com(\.cn)?(:\d+)?$")
"""An endpoint of AWS itself, such as that of a private network."""
_REGION_OF_SERVERS: Final = "us-east-1"
"""Servers other than AWS have this region unless they are set up otherwise; the clients differ in their guesses."""

_S3A: Final = "org.apache.hadoop.fs.s3a"
_PROVIDERS: Final = (
    # The keys in Hadoop's settings; Spark's driver puts those of the variables there, also for executors elsewhere.
    f"{_S3A}.TemporaryAWSCredentialsProvider",
    f"{_S3A}.SimpleAWSCredentialsProvider",
)
_DEFAULT_PROVIDERS: Final = {
    1: "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
    2: "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
}
"""Major version of the SDK -> the variables, a profile, and the role of a pod or of a machine."""

_ALIASES: Final = {"endpoint": "endpoint_url", "default_region": "region"}
"""Option of delta-rs -> another name for the same, both without `aws_`."""


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Where S3 is."""

    endpoint: str | None = None
    """The URL of the server; None: AWS."""
    region: str | None = None
    """None: not set; each client has a guess of its own for AWS."""
    path_style: bool = False
    """Whether the bucket stands in the path of a URL, and not in the name of the host."""

    @classmethod
    def read(cls) -> S3Settings:
        """The settings of this process. Raises UsageError: `AWS_PROFILE` names no profile."""
        known = ("HOME", *(name for name in os.environ if name.startswith("AWS_") and name not in _SECRETS))
        return _read(tuple((name, os.environ.get(name, "")) for name in known))

    def for_hadoop(self, *, aws_sdk: int = 2) -> Mapping[str, str]:
        """Hadoop's settings. `aws_sdk`: the major version that Hadoop has been built with."""
        settings = {
            "fs.s3.impl": f"{_S3A}.S3AFileSystem",
            "fs.s3a.aws.credentials.provider": ",".join((*_PROVIDERS, _DEFAULT_PROVIDERS[aws_sdk])),
        }
        if self.endpoint is not None:
            settings["fs.s3a.endpoint"] = self.endpoint
            settings["fs.s3a.connection.ssl.enabled"] = str(not self._plain).lower()
        if self.region is not None:
            settings["fs.s3a.endpoint.region"] = self.region
        if self.path_style:
            settings["fs.s3a.path.style.access"] = "true"
        return settings

    def for_delta(self, bucket: str, given: Mapping[str, str]) -> Mapping[str, str]:
        """The options of delta-rs, with `given`, the user's own, before ours."""
        options: dict[str, str] = {}
        if self.endpoint is not None:
            scheme, _, host = self.endpoint.partition("://")
            options["AWS_ENDPOINT_URL"] = self.endpoint if self.path_style else f"{scheme}://{bucket}.{host}"
            options["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = str(not self.path_style).lower()
            # Without this option, delta-rs with an endpoint reads credentials of variables and of the machine only.
            options["AWS_FORCE_CREDENTIAL_LOAD"] = "true"
            if self._plain and "AWS_ALLOW_HTTP" not in os.environ:
                options["AWS_ALLOW_HTTP"] = "true"
        if self.region is not None:
            options["AWS_REGION"] = self.region
        named = {_option(name) for name in given}
        return {**{name: value for name, value in options.items() if _option(name) not in named}, **given}

    def for_iceberg(self) -> Mapping[str, str]:
        """The properties of pyiceberg's own file system."""
        properties = {}
        if self.endpoint is not None:
            properties["s3.endpoint"] = self.endpoint
            properties["s3.force-virtual-addressing"] = str(not self.path_style).lower()
        if self.region is not None:
            properties["s3.region"] = self.region
        return properties

    def for_client(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments of s3fs. `given`: those in the user's settings of fsspec, which go before ours."""
        arguments: dict[str, Any] = {}
        if self.endpoint is not None:
            arguments["endpoint_url"] = self.endpoint
            arguments["config_kwargs"] = {"s3": {"addressing_style": "path" if self.path_style else "virtual"}}
        if self.region is not None:
            arguments["client_kwargs"] = {"region_name": self.region}
        return _over(arguments, given)

    @property
    def _plain(self) -> bool:
        return self.endpoint is not None and self.endpoint.startswith("http://")


def name_credentials_for_java() -> None:
    """Name the file of credentials as AWS's SDK 1 for Java does, with which Spark 3.5 reaches S3: it does not know the
    variable of all other clients."""
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE")
    if file:
        os.environ.setdefault("AWS_CREDENTIAL_PROFILES_FILE", file)


@lru_cache(maxsize=16)
def _read(environment: tuple[tuple[str, str], ...]) -> S3Settings:
    """`environment`: the variables on which the settings depend."""
    variables = dict(environment)
    region = variables.get("AWS_REGION") or None
    if find_spec("botocore") is None:  # without the package of the storage, only the variables count
        endpoint = variables.get("AWS_ENDPOINT_URL_S3") or variables.get("AWS_ENDPOINT_URL")
        region, style = region or variables.get("AWS_DEFAULT_REGION") or None, ""
    else:
        endpoint, region, style = _by_botocore(region)
    endpoint = endpoint.rstrip("/") if endpoint else None
    if endpoint is not None and region is None and not _OF_AWS.search(endpoint):
        region = _REGION_OF_SERVERS
    virtual = variables.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() == "true" or style == "virtual"
    return S3Settings(endpoint, region, path_style=style == "path" or (endpoint is not None and not virtual))


def _by_botocore(region: str | None) -> tuple[str | None, str | None, str]:
    """Endpoint, region and style by AWS's own rules: of a variable, else of the profile. Nothing is connected to."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    session = Session()

    def about(**config: bool) -> Any:
        # With keys given here, botocore does not look for others.
        keys = {"aws_access_key_id": "unused", "aws_secret_access_key": "unused"}
        client = session.create_client("s3", region_name=region, config=Config(**config), **keys)
        client.close()
        return client.meta

    try:
        region = region or session.get_config_variable("region") or None
        found, of_aws = about(), about(ignore_configured_endpoint_urls=True)
    except (BotoCoreError, ValueError) as error:
        raise UsageError(
            f"the settings of AWS cannot be used: {error}", fix="see AWS_* and the files in ~/.aws"
        ) from error
    endpoint = None if found.endpoint_url == of_aws.endpoint_url else found.endpoint_url
    return endpoint, region, str((found.config.s3 or {}).get("addressing_style") or "")


def _option(name: str) -> str:
    """An option of delta-rs under its only name."""
    plain = name.lower().removeprefix("aws_")
    return _ALIASES.get(plain, plain)


def _over(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Those arguments of ours that the user does not give, with the user's in each that is a dictionary itself."""
    merged = {}
    for name, value in ours.items():
        own = theirs.get(name)
        if isinstance(value, Mapping) and isinstance(own, Mapping):
            merged[name] = {**own, **_over(value, own)}
        elif name not in theirs:
            merged[name] = value
    return merged
