"""The objects of `deploy/kubernetes` before a real API server: rendered, admitted where `restricted` is enforced, and
with rights that suffice. No kubelet runs: no pod starts, and no image is tried. A member and its executors run as
processes, with the commands, the settings and the account of their pods."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

import pytest
import yaml

from tenure.coordination.encoding import new_uid
from tests.docs import blocks
from tests.house import tree
from tests.house.test_deploy import FOLDERS, KUBERNETES, RIGHTS, executor
from tests.kit.process import GroupProcess
from tests.kit.servers import KubernetesServer, installed, need
from tests.kit.waiting import wait_until
from tests.support.executors import Executors

ENFORCED: Final = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
RECORDS: Final = "shop.shop"
VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RESOURCES: Final = {
    "configmaps of the scope": ("", "configmaps", RECORDS),
    "configmaps": ("", "configmaps", ""),
    "another configmap": ("", "configmaps", "another"),
    "leases": ("coordination.k8s.io", "leases", ""),
    "pods": ("", "pods", ""),
    "services": ("", "services", ""),
    "secrets": ("", "secrets", ""),
    "events": ("", "events", ""),
    "endpointslices": ("discovery.k8s.io", "endpointslices", ""),
    "persistentvolumeclaims": ("", "persistentvolumeclaims", ""),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    with installed(), KubernetesServer(tmp_path_factory.mktemp("kubernetes")) as started:
        need(shutil.which("kubectl"), "kubectl", fix="build it: make kubernetes")
        yield started


@pytest.fixture
def namespace(server: KubernetesServer) -> str:
    """A namespace as a cluster has it: with a default account, and `restricted` enforced."""
    name = server.new_namespace()
    server.ask("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"labels": ENFORCED}})
    for account in ("default", "shop"):
        server.account(name, account)
    return name


def kubectl(server: KubernetesServer, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    command = ["kubectl", "--kubeconfig", str(server.kubeconfig()), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


def rendered(folder: str, namespace: str, at: Path) -> str:
    """The objects of a folder in another namespace, by an overlay as users write it."""
    return overlaid({"namespace": namespace}, folder, at)


def overlaid(given: Mapping[str, Any], folder: str, at: Path) -> str:
    """The objects of an overlay over a folder."""
    overlay = {**given, "resources": [os.path.relpath(KUBERNETES / folder, at)]}
    (at / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    made = subprocess.run(["kubectl", "kustomize", str(at)], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout


def pod_of(server: KubernetesServer, template: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    """The server's answer to a pod of a Deployment's template, which it does not keep."""
    body = {"metadata": {"name": "tried", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    return server.ask("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All&fieldValidation=Strict", body)


def template_in(text: str) -> dict[str, Any]:
    (deployment,) = [one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment"]
    return dict(deployment["spec"]["template"])


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_server_takes_every_object(server: KubernetesServer, namespace: str, folder: str, tmp_path: Path) -> None:
    text = rendered(folder, namespace, tmp_path)
    applied = kubectl(server, "apply", "--dry-run=server", "--validate=strict", "-f", "-", given=text)
    assert applied.returncode == 0, applied.stderr
    assert len(applied.stdout.splitlines()) == text.count("\n---\n") + 1
    warnings = [line for line in applied.stderr.splitlines() if "last-applied-configuration" not in line]
    assert not warnings  # `warn` speaks of pods that `restricted` would refuse
    assert f"namespace: {namespace}" in text
    assert "namespace: pipelines" not in text


def test_the_page_has_an_overlay_that_the_server_takes(
    server: KubernetesServer, namespace: str, tmp_path: Path
) -> None:
    (block,) = [block for block in blocks.all_blocks("yaml") if block.kind == "yaml kustomization"]
    given = yaml.safe_load(block.text)
    assert [*map(Path, given["resources"])] == [Path("tenure") / (KUBERNETES / "members").relative_to(tree.ROOT)]
    text = overlaid({**given, "namespace": namespace}, "members", tmp_path)
    applied = kubectl(server, "apply", "--dry-run=server", "--validate=strict", "-f", "-", given=text)
    assert applied.returncode == 0, applied.stderr
    (image,) = given["images"]
    assert f"image: {image['newName']}:{image['newTag']}\n" in text
    assert "storageClassName: shared\n" in text


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_members_may_run_where_restricted_is_enforced(
    server: KubernetesServer, namespace: str, folder: str, tmp_path: Path
) -> None:
    pod = pod_of(server, template_in(rendered(folder, namespace, tmp_path)), namespace)
    assert pod["spec"]["serviceAccountName"] == "shop"


def test_a_pod_that_is_less_strict_is_refused(server: KubernetesServer, namespace: str, tmp_path: Path) -> None:
    template = template_in(rendered("members", namespace, tmp_path))
    del template["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(HTTPError) as refused:
        pod_of(server, template, namespace)
    assert refused.value.code == 403
    assert "restricted" in refused.value.read().decode()


def test_a_field_that_is_not_there_is_refused(server: KubernetesServer, namespace: str, tmp_path: Path) -> None:
    text = rendered("members", namespace, tmp_path)
    wrong = text.replace("terminationGracePeriodSeconds", "terminationGracePeriodSecond")
    assert wrong != text
    applied = kubectl(server, "apply", "--dry-run=server", "--validate=strict", "-f", "-", given=wrong)
    assert applied.returncode != 0
    assert "terminationGracePeriodSecond" in applied.stderr
    template = template_in(wrong)
    with pytest.raises(HTTPError) as refused:
        pod_of(server, template, namespace)
    assert refused.value.code == 400


def test_an_executor_may_run_where_restricted_is_enforced(server: KubernetesServer, namespace: str) -> None:
    spec = json.loads(json.dumps(executor()["spec"]))
    spec["containers"][0]["image"] = "tenure"  # Spark adds it
    pod_of(server, {"metadata": {"labels": {}}, "spec": spec}, namespace)


def account_under(server: KubernetesServer, namespace: str, folder: str, at: Path) -> str:
    """A user of the server with the token of the members' account, once the rights of a folder are applied."""
    text = rendered(folder, namespace, at)
    rights = [one for one in yaml.safe_load_all(text) if one["kind"] in ("Role", "RoleBinding")]
    server.apply(*rights)
    user = f"shop-{new_uid()[:8]}"
    server.kubeconfig(user, token=server.account(namespace, "shop"))
    return user


def granted(server: KubernetesServer, namespace: str, user: str) -> dict[str, set[str]]:
    """Resources and the verbs that the server permits to this user in them; for a named resource the verbs that its
    name adds."""
    found: dict[str, set[str]] = {}
    for called, (group, resource, name) in RESOURCES.items():
        for verb in VERBS:
            attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "name": name}
            asked = {"spec": {"resourceAttributes": attributes}}
            answer = server.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asked, user=user)
            if answer["status"]["allowed"]:
                found.setdefault(called, set()).add(verb)
    for called, (_, resource, name) in RESOURCES.items():
        if name and called in found:
            found[called] -= found[resource]
    return {called: verbs for called, verbs in found.items() if verbs}


def test_the_account_of_the_members_may_do_what_the_table_says(
    server: KubernetesServer, namespace: str, tmp_path: Path
) -> None:
    assert granted(server, namespace, account_under(server, namespace, "members", tmp_path)) == RIGHTS


def test_with_executors_it_may_do_more_with_pods_alone(
    server: KubernetesServer, namespace: str, tmp_path: Path
) -> None:
    more = {"pods": {"create", "get", "list", "watch", "delete", "deletecollection"}}
    assert granted(server, namespace, account_under(server, namespace, "spark", tmp_path)) == {**RIGHTS, **more}


def test_the_configmaps_of_others_cannot_be_listed(server: KubernetesServer, namespace: str, tmp_path: Path) -> None:
    user = account_under(server, namespace, "members", tmp_path)
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    server.ask("POST", configmaps, {"metadata": {"name": RECORDS}}, user=user)
    server.ask("POST", configmaps, {"metadata": {"name": "another"}})
    listed = server.ask("GET", f"{configmaps}?fieldSelector=metadata.name%3D{RECORDS}", user=user)
    assert [one["metadata"]["name"] for one in listed["items"]] == [RECORDS]
    for path in (configmaps, f"{configmaps}/another", f"{configmaps}?fieldSelector=metadata.name%3Danother"):
        with pytest.raises(HTTPError) as refused:
            server.ask("GET", path, user=user)
        assert refused.value.code == 403


def as_process(container: Mapping[str, Any], pod: Mapping[str, str]) -> list[str]:
    """The command of a member's container, with the variables of its pod."""
    words = ["tenure", *container["args"]]
    for name, value in pod.items():
        words = [word.replace(f"$({name})", value) for word in words]
    assert not [word for word in words if "$(" in word]
    return words


def kubeconfig_of(server: KubernetesServer, namespace: str, user: str, at: Path) -> Path:
    """A kubeconfig with the token in it: the client of Spark reads no file of a token but that of a pod."""
    config = json.loads(server.kubeconfig(user, namespace=namespace).read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": server.token_file(user).read_text(encoding="ascii")}
    path = at / "kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def test_a_member_computes_with_executors_that_it_made_itself(
    server: KubernetesServer, namespace: str, tmp_path: Path
) -> None:
    user = account_under(server, namespace, "spark", tmp_path)
    template = template_in(rendered("spark", namespace, tmp_path))
    driver = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
    server.apply({**driver, "metadata": {**template["metadata"], "name": "shop-1", "namespace": namespace}})
    for path in (KUBERNETES / "members" / "shop.py", KUBERNETES / "spark" / "tenure.toml", executor_file()):
        shutil.copy(path, tmp_path)
    (container,) = template["spec"]["containers"]
    pod = {"POD_NAME": "shop-1", "POD_NAMESPACE": namespace, "POD_IP": "127.0.0.1"}
    here = {
        **{"--master": f"k8s://{server.url}", "--storage": f"file://{tmp_path}/storage", "--member": "shop-1"},
        **{"--param": f"output={tmp_path}/totals"},
    }
    conf = {
        "executor.memory": "512m",
        "executor.instances": "1",
        "kubernetes.executor.podTemplateFile": f"{tmp_path}/executor.yaml",
    }
    member = GroupProcess(
        [
            *("env", "-C", str(tmp_path), *as_process(container, pod)),
            *(word for flag in here.items() for word in flag),
            *(word for name, value in conf.items() for word in ("--conf", f"spark.{name}={value}")),
        ],
        log=tmp_path / "member.log",
        environment={"KUBECONFIG": str(kubeconfig_of(server, namespace, user, tmp_path))},
    )
    executors = Executors(server, namespace, tmp_path)
    member.start()
    try:

        def committed() -> bool:
            executors.start_new()
            assert member.running, member.output()
            return "batch 0 committed" in member.output()

        wait_until(committed, what="a batch that an executor computed")
        (made,) = executors.pods()
        assert [owner["name"] for owner in made["metadata"]["ownerReferences"]] == ["shop-1"]
        (jar,) = tmp_path.glob(f"{made['metadata']['name']}/*.jar")
        assert jar.name == "tenure-classes.jar"
        member.stop()
        assert member.exit_code == 0, member.output()
        assert not executors.pods(), "the driver deletes its executors"
    finally:
        member.kill()
        executors.kill()


def executor_file() -> Path:
    return KUBERNETES / "spark" / "executor.yaml"
