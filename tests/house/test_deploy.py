"""The files of `deploy/`: they agree with each other, with the settings and with the probes, and permit only the
requests of the store. `tests/contract/test_kubernetes_deploy.py` shows them to an API server."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml

from tenure.agent.listening import parse_address
from tenure.agent.probes import QUESTIONS
from tenure.backends.kubernetes.leases import STORE
from tenure.backends.kubernetes.objects import object_name
from tenure.backends.kubernetes.url import place_of
from tenure.backends.shared.server_url import StoreUrl
from tenure.coordination.records import Scope
from tenure.coordination.store_url import split_url
from tenure.settings import Settings, load_settings
from tenure.spark.coordinates import OF_RELEASE
from tests.house import tree

DEPLOY: Final = tree.ROOT / "deploy"
KUBERNETES: Final = DEPLOY / "kubernetes"
FOLDERS: Final = ("members", "s3", "spark")
VERSION: Final = tomllib.loads((tree.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

RIGHTS: Final = {
    "configmaps of the scope": {"get", "update", "list", "watch"},
    "configmaps": {"create"},
    "leases": {"get", "create", "update", "delete", "list", "watch"},
}
"""Requests of the store. Another right needs its reason here and in `rights.yaml`."""


def objects(folder: str) -> list[Mapping[str, Any]]:
    """The objects in the files of a folder; patches and the pod of an executor among them."""
    files = (path for path in (KUBERNETES / folder).glob("*.yaml") if path.name != "kustomization.yaml")
    return [one for path in sorted(files) for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def the(folder: str, kind: str, name: str = "shop") -> Mapping[str, Any]:
    """The object of a kind and a name."""
    (found,) = [one for one in objects(folder) if one["kind"] == kind and one["metadata"].get("name") == name]
    return found


def member() -> Mapping[str, Any]:
    """The container of a member."""
    (container,) = the("members", "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(container)


def variables(container: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


def settings(folder: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(KUBERNETES / folder)
    return load_settings()


def test_the_account_may_do_what_the_store_asks_for_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    granted = {}
    groups = {"configmaps": "", "leases": "coordination.k8s.io"}
    for rule in the("members", "Role")["rules"]:
        (resource,) = rule["resources"]
        assert rule["apiGroups"] == [groups[resource]]
        granted[resource + (" of the scope" if "resourceNames" in rule else "")] = {*rule["verbs"]}
        assert len(rule["verbs"]) == len({*rule["verbs"]})
    assert granted == RIGHTS
    names = [rule["resourceNames"] for rule in the("members", "Role")["rules"] if "resourceNames" in rule]
    for folder in FOLDERS:
        assert names == [[records_of(settings(folder, monkeypatch))]]


def records_of(given: Settings) -> str:
    """The ConfigMap of the scope of these settings."""
    assert given.store is not None
    assert given.scope is not None
    return object_name(place_of(StoreUrl(split_url(given.store), port=None, options=())).name, Scope(given.scope))


def test_the_driver_of_executors_may_do_more_with_pods_alone() -> None:
    (rule,) = the("spark", "Role", "shop-executors")["rules"]
    assert rule["resources"] == ["pods"]
    assert not {"*", "patch", "update"} & {*rule["verbs"]}
    assert settings_text("spark")["conf"]["spark.kubernetes.executor.disableConfigMap"] == "true"


def settings_text(folder: str) -> dict[str, Any]:
    return tomllib.loads((KUBERNETES / folder / "tenure.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_members_read_their_settings(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = settings(folder, monkeypatch)
    assert loaded.scope == "shop"
    assert 'name="shop"' in (KUBERNETES / "members" / "shop.py").read_text(encoding="utf-8")
    assert loaded.params == {"output": loaded.params["output"]}
    mounts = {mount["mountPath"] for mount in member()["volumeMounts"]}
    if folder != "s3":
        assert str(loaded.storage).removeprefix("file://").startswith("/srv/tenure/")
        assert loaded.params["output"].startswith("/srv/tenure/")
        assert "/srv/tenure" in mounts
    known = {f"TENURE_{name.upper()}" for name in Settings.model_fields}
    assert {name for name in variables(member()) if name.startswith("TENURE_")} <= known


def test_a_member_has_the_time_to_resign() -> None:
    granted_s = the("members", "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert granted_s > Settings.model_fields["stop_patience"].default.total_seconds() + 10


def test_probes_ask_questions_that_the_agent_answers() -> None:
    container = member()
    (port,) = container["ports"]
    _, number = parse_address(variables(container)["TENURE_HTTP"])
    assert port == {"name": "http", "containerPort": number}
    (served,) = the("members", "Service", "shop-members")["spec"]["ports"]
    assert served == {"name": "http", "port": number, "targetPort": "http"}
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe["port"] for probe in probes.values()} == {"http"}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }
    assert {probe["path"] for probe in probes.values()} <= {*QUESTIONS}


def test_spark_listens_at_the_ports_of_the_pod() -> None:
    (container,) = the("spark", "Deployment")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    conf = settings_text("spark")["conf"]
    assert ports == {"driver": conf["spark.driver.port"], "blocks": conf["spark.driver.blockManager.port"]}
    used = set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))
    assert used == {*variables(container)}
    assert container["args"][:2] == member()["args"]


def test_labels_choose_the_members_and_no_object_of_the_store() -> None:
    template = the("members", "Deployment")["spec"]["template"]["metadata"]["labels"]
    added = yaml.safe_load((KUBERNETES / "members" / "kustomization.yaml").read_text(encoding="utf-8"))["labels"]
    (added,) = [one["pairs"] for one in added if one["includeTemplates"]]
    chosen = {**template, **added}
    assert STORE not in chosen
    selectors = [*selectors_in(objects("members"))]
    assert len(selectors) == 4  # the Deployment, the budget, the Service of the members, the anti-affinity
    assert all(selector.items() <= chosen.items() for selector in selectors)
    assert all("app.kubernetes.io/name" in selector for selector in selectors), "another pipeline is there, too"


def selectors_in(given: Any) -> Iterator[Mapping[str, str]]:
    """Every selector of pods."""
    if isinstance(given, list):
        for one in given:
            yield from selectors_in(one)
    elif isinstance(given, Mapping):
        for name, value in given.items():
            if name in ("selector", "labelSelector"):
                yield value.get("matchLabels", value)
            else:
                yield from selectors_in(value)


def test_there_is_one_image_of_this_version() -> None:
    (image,) = yaml.safe_load((KUBERNETES / "members" / "kustomization.yaml").read_text(encoding="utf-8"))["images"]
    assert image["name"] == member()["image"]
    assert image["newTag"] == VERSION
    full = f"{image['newName']}:{image['newTag']}"
    assert settings_text("spark")["conf"]["spark.kubernetes.container.image"] == full
    assert f"-t {full} ." in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def test_every_image_has_a_tag_that_stays() -> None:
    for path in (path for path in DEPLOY.rglob("*") if path.is_file()):
        assert ":latest" not in path.read_text(encoding="utf-8"), path
    bases = re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(bases) == 2
    assert all(re.fullmatch(r"python:3\.\d+-slim-[a-z]+", base) for base in bases)


def test_the_image_takes_a_release_of_spark() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    example = re.findall(r"--build-arg SPARK=(\d+\.\d+)\.\d+ ", text)
    assert {*example} <= {release for release, _ in OF_RELEASE}
    image = text[text.rindex("\nFROM ") :]
    assert image.index("\nARG SPARK=\n") < image.index('${SPARK:+"pyspark==$SPARK"}')


def test_the_image_has_the_user_and_the_packages() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    pods = [the("members", "Deployment")["spec"]["template"]["spec"], executor()["spec"]]
    users = {pod["securityContext"][name] for pod in pods for name in ("runAsUser", "runAsGroup", "fsGroup")}
    assert users == {10001}
    assert "--uid 10001 " in text
    assert "USER 10001:10001" in text
    extras = tomllib.loads((tree.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (installed,) = re.findall(r"\$wheel\[([\w,]+)\]", text)
    assert {*installed.split(",")} <= {*extras["optional-dependencies"]}
    copied = re.findall(r"^COPY (?:--chmod=755 )?(deploy/\S+) (\S+)", text, flags=re.MULTILINE)
    assert copied == [("deploy/executor.sh", executor()["spec"]["containers"][0]["command"][-1])]
    ignored = (tree.ROOT / ".dockerignore").read_text(encoding="utf-8")
    assert all(f"!{name}\n" in ignored for name in ("src", "deploy/executor.sh", "pyproject.toml", "hatch_build.py"))


def executor() -> Mapping[str, Any]:
    """The pod of an executor, as Spark gets it."""
    (found,) = [one for one in objects("spark") if one["kind"] == "Pod"]
    return found


def test_executors_see_the_same_storage() -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in executor()["spec"]["containers"][0]["volumeMounts"]}
    assert mounts == {one["name"]: one["mountPath"] for one in member()["volumeMounts"] if one["name"] in mounts}
    volumes = {volume["name"]: volume for volume in executor()["spec"]["volumes"]}
    ours = the("members", "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert [volumes[volume["name"]] for volume in ours if volume["name"] in volumes] == [
        volume for volume in ours if volume["name"] in volumes
    ]
    assert the("members", "PersistentVolumeClaim", "shop-storage")["spec"]["accessModes"] == ["ReadWriteMany"]


def test_spark_gets_its_classes_for_s3() -> None:
    assert settings_text("s3")["connector"] == ["s3"]
    assert "packages" not in settings_text("s3")
