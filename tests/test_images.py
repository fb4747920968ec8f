"""docker/: linted by what packages carry (hadolint, compose-spec, kubernetes-validate); nothing here builds or runs."""

from __future__ import annotations

import copy
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import compose_spec
import pyarrow.parquet as pq
import pytest
import yaml

from rat_ray.cli import main
from tests.kuberay import cluster_of, pod_templates, refuse_unknown

REPOSITORY = Path(__file__).resolve().parents[1]
DOCKER = REPOSITORY / "docker"
DOCKERFILES = ("Dockerfile", "Dockerfile.gpu")
MANIFESTS = ("secret.yaml", "common.yaml", "raycluster.yaml", "rayjob.yaml")
RAY_DOCUMENTS = ("raycluster.yaml", "rayjob.yaml")
PINNED = re.compile(r"^[\w./-]+(:(?!latest)[\w.-]*\d[\w.-]*)(@sha256:[0-9a-f]{64})?$")


def hadolint(dockerfile: Path) -> list[str]:
    """Its complaints, of any severity."""
    binary = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [binary, "--no-fail", "--format", "json", dockerfile], capture_output=True, text=True, timeout=120, check=True
    )
    return [f"{found['line']}: {found['code']} {found['message']}" for found in json.loads(done.stdout)]


class Step(NamedTuple):
    """One instruction of a Dockerfile, its lines joined."""

    name: str
    rest: str


def steps(text: str) -> list[Step]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Step(*line.split(maxsplit=1)) for line in joined.splitlines()]


def last_stage(text: str) -> list[Step]:
    every = steps(text)
    start = max(index for index, step in enumerate(every) if step.name == "FROM")
    return every[start:]


# Dockerfiles


@pytest.mark.parametrize("name", DOCKERFILES)
def test_hadolint_has_no_complaint(name: str) -> None:
    assert hadolint(DOCKER / name) == []


@pytest.mark.parametrize(
    ("found", "instead", "code"),
    [
        ("python:3.11.15-slim-bookworm", "python:latest", "DL3007"),
        ("WORKDIR /src", "WORKDIR src", "DL3000"),
        ("pip install -c constraints.txt cmdstanpy", "pip install cmdstanpy", "DL3013"),
        ("USER 1000:1000", "USER root", "DL3002"),
    ],
)
def test_hadolint_finds_a_planted_error(found: str, instead: str, code: str, tmp_path: Path) -> None:
    text = (DOCKER / "Dockerfile").read_text()
    assert found in text
    (tmp_path / "Dockerfile").write_text(text.replace(found, instead))
    assert any(code in complaint for complaint in hadolint(tmp_path / "Dockerfile"))


@pytest.mark.parametrize("name", DOCKERFILES)
def test_bases_are_pinned_and_the_user_is_not_root(name: str) -> None:
    text = (DOCKER / name).read_text()
    bases = [step.rest.split()[0] for step in steps(text) if step.name == "FROM"]
    assert len(bases) == 2
    assert all(PINNED.match(base) for base in bases), bases
    users = [step.rest for step in last_stage(text) if step.name == "USER"]
    assert users == ["1000:1000"]


@pytest.mark.parametrize("name", DOCKERFILES)
def test_python_packages_come_from_the_constraints_and_known_extras(name: str) -> None:
    every = steps((DOCKER / name).read_text())
    installs = [step.rest for step in every if "pip install" in step.rest]
    assert len(installs) == 2
    assert all("pip install -c constraints.txt " in install for install in installs)
    extras = next(step.rest for step in every if step.name == "ARG" and step.rest.startswith("EXTRAS="))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert set(extras.removeprefix("EXTRAS=").split(",")) <= set(project["optional-dependencies"])
    pinned = (REPOSITORY / "constraints.txt").read_text()
    assert re.search(r"^cmdstanpy==", pinned, re.MULTILINE)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_executable_is_looked_for_where_it_was_compiled(name: str) -> None:
    """`compiled()` names it after the program and CMDSTAN's path, version and make/local: the last stage has them."""
    text = (DOCKER / name).read_text()
    final = last_stage(text)
    build = steps(text)[: -len(final)]

    def environment(stage: list[Step]) -> dict[str, str]:
        words = [word for step in stage if step.name == "ENV" for word in step.rest.split()]
        return dict(word.split("=", 1) for word in words)

    for variable in ("CMDSTAN", "RAT_CACHE"):
        assert environment(build)[variable] == environment(final)[variable]
    copied = [step.rest for step in final if step.name == "COPY"]
    for path in ("$CMDSTAN/makefile", "$CMDSTAN/make", "$CMDSTAN/stan/lib/stan_math/lib/tbb", "$RAT_CACHE"):
        assert any(copy_.endswith(f"{path} {path}") for copy_ in copied), path
    user = next(index for index, step in enumerate(final) if step.name == "USER")
    assert any("engine=cmdstan" in step.rest for step in final[user:] if step.name == "RUN")


def test_both_images_take_the_same_steps() -> None:
    cpu, gpu = ((DOCKER / name).read_text() for name in DOCKERFILES)
    build = [steps(text)[: -len(last_stage(text))] for text in (cpu, gpu)]
    assert build[0] == build[1]
    tail = [[step for step in last_stage(text) if step.name not in ("FROM", "RUN")] for text in (cpu, gpu)]
    assert [step for step in tail[1] if "/usr/local" not in step.rest] == tail[0]


@pytest.mark.parametrize("name", DOCKERFILES)
def test_everything_that_is_copied_exists_and_reaches_the_builder(name: str) -> None:
    sent = [line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copies = [step.rest.split() for step in steps((DOCKER / name).read_text()) if step.name == "COPY"]
    sources = [word for words in copies if not words[0].startswith("--from") for word in words[:-1]]
    assert set(sources) == set(sent)
    wheel = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*wheel["packages"], *wheel["force-include"]} <= set(sources)
    assert all((REPOSITORY / source).exists() for source in sources)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_fit_that_ends_the_build_is_a_valid_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command with the engine that is here."""
    run = next(step.rest for step in last_stage((DOCKER / name).read_text()) if "rat-ray fit" in step.rest)
    labels, fit, check, remove = (part.strip() for part in run.split("&&"))
    monkeypatch.chdir(tmp_path)
    subprocess.run(["bash", "-c", labels], check=True)
    _, *arguments = shlex.split(fit)
    assert main([word.replace("engine=cmdstan", "engine=stanli") for word in arguments]) == 0
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    assert subprocess.run(["bash", "-c", check], env=path, check=False).returncode == 0
    summary = pq.read_table("check/summary.parquet")
    failed = summary.set_column(summary.column_names.index("status"), "status", [["fail"] * summary.num_rows])
    pq.write_table(failed, "check/summary.parquet")
    assert subprocess.run(["bash", "-c", check], env=path, stderr=subprocess.DEVNULL, check=False).returncode != 0
    subprocess.run(["bash", "-c", remove], check=True)
    assert list(tmp_path.iterdir()) == []


# Compose


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return document


def refuse_compose(text: str) -> None:
    """Raise ValueError unless the Compose specification takes it and every service that one waits for exists."""
    compose_spec.PyOptions(apply_merge=True).from_yaml(text).validate()
    services = yaml.safe_load(text)["services"]
    for name, service in services.items():
        for other in service.get("depends_on", ()):
            if other not in services:
                raise ValueError(f"{name} waits for {other}, which is no service")


def test_compose_file_is_valid() -> None:
    refuse_compose((DOCKER / "compose.yaml").read_text())


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ("shm_size:", "shm_sise:"),
        ("condition: service_healthy", "condition: service_helthy"),
        ("networks: [cluster]", "networks: [clutser]"),
        ("127.0.0.1:8265:8265", "127.0.0.1:82650:8265"),
        ("s3: {condition", "s4: {condition"),
        ("retries: 6", "retries: six"),
    ],
)
def test_a_broken_compose_file_is_refused(found: str, instead: str) -> None:
    text = (DOCKER / "compose.yaml").read_text()
    refuse_compose(text)
    assert found in text
    with pytest.raises(ValueError, match=r"\S"):
        refuse_compose(text.replace(found, instead))


def test_compose_publishes_to_loopback_only_and_checks_every_service() -> None:
    services = compose()["services"]
    assert set(services) == {"s3", "head", "worker"}
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        assert service["healthcheck"]["test"]
        assert service["cap_drop"] == ["ALL"]
        assert not {"privileged", "network_mode", "pid", "ipc"} & set(service)
        assert PINNED.match(service["image"])
    assert "build" in services["head"]


def test_compose_takes_credentials_from_the_environment() -> None:
    secrets = 0
    for service in compose()["services"].values():
        for name, value in service["environment"].items():
            if re.search(r"KEY|SECRET|TOKEN|PASSWORD", name):
                assert value.startswith(f"${{{name}:?"), name
                secrets += 1
    assert secrets == 8
    assert compose()["services"]["head"]["environment"]["RAY_AUTH_MODE"] == "token"


# Kubernetes


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DOCKER / "kubernetes" / name).read_text()))


def ray_document(name: str) -> dict[str, Any]:
    (document,) = documents(name)
    return document


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_are_valid(name: str) -> None:
    found = documents(name)
    assert found
    for document in found:
        refuse_unknown(document)


def _put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        here: Any = document
        for step in way:
            here = here[step]
        here[last] = value

    return change


HEAD_POD = "spec.rayClusterSpec.headGroupSpec.template.spec"
WORKERS = "spec.rayClusterSpec.workerGroupSpecs.0"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_put("kind", "RayJobs"), "no kind"),
        (_put("metadata.name", "Rat_Ray"), "metadata.name"),
        (_put("spec.entrypoints", "x"), "entrypoints"),
        (_put("spec.backoffLimit", "2"), "backoffLimit"),
        (_put("spec.submissionMode", "JobMode"), "submissionMode"),
        (_put("spec.rayClusterSpec.rayVersion", 2.6), "rayVersion"),
        (_put("spec.rayClusterSpec.authOptions.mode", "tokens"), "mode"),
        (_put("spec.rayClusterSpec.headGroupSpec.rayStartParams.num-cpus", 0), "num-cpus"),
        (_put(f"{WORKERS}.minReplicas", 9), "between minReplicas"),
        (_put(f"{WORKERS}.groupname", "cpu"), "groupname"),
        (_put(f"{WORKERS}.template.spec.containers.0.resources.limits.memory", ["16Gi"]), "memory"),
        (_put(f"{HEAD_POD}.containers.0.envFrom.0", {"configMap": {"name": "x"}}), "configMap"),
        (_put(f"{HEAD_POD}.hostNetworks", True), "hostNetworks"),
        (_put(f"{HEAD_POD}.securityContext.runAsUser", "rat"), "runAsUser"),
        (_put("spec.submitterPodTemplate.spec.restartpolicy", "Never"), "restartpolicy"),
    ],
)
def test_a_broken_job_is_refused(change: Callable[[dict[str, Any]], None], says: str) -> None:
    document = copy.deepcopy(ray_document("rayjob.yaml"))
    refuse_unknown(document)
    change(document)
    with pytest.raises(ValueError, match=says):
        refuse_unknown(document)


def test_a_broken_secret_is_refused() -> None:
    (secret,) = documents("secret.yaml")
    with pytest.raises(ValueError, match="stringdata"):
        refuse_unknown({**secret, "stringdata": {"A": "b"}})
    with pytest.raises(ValueError, match="Secrets"):
        refuse_unknown({**secret, "kind": "Secrets"})


def containers(name: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(pod, container) for each of a manifest."""
    for template in pod_templates(ray_document(name)):
        for container in template["spec"]["containers"]:
            yield template["spec"], container


@pytest.mark.parametrize("name", RAY_DOCUMENTS)
def test_pods_are_not_root_and_see_nothing_of_the_host(name: str) -> None:
    for pod, container in containers(name):
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert all("hostPath" not in volume for volume in pod.get("volumes", ()))
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 1000
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert PINNED.match(container["image"])
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]


@pytest.mark.parametrize("name", RAY_DOCUMENTS)
def test_credentials_come_from_the_secret_and_ray_asks_for_a_token(name: str) -> None:
    needed = [*documents("secret.yaml"), *documents("common.yaml")]
    made = {document["kind"]: document["metadata"]["name"] for document in needed}
    cluster = cluster_of(ray_document(name))
    assert cluster["authOptions"] == {"mode": "token"}
    for template in [cluster["headGroupSpec"]["template"], *(g["template"] for g in cluster["workerGroupSpecs"])]:
        (container,) = template["spec"]["containers"]
        assert "env" not in container
        taken = [next(iter(source.items())) for source in container["envFrom"]]
        assert taken == [
            ("configMapRef", {"name": made["ConfigMap"]}),
            ("secretRef", {"name": made["Secret"]}),
        ]
    (volume,) = cluster["headGroupSpec"]["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == made["PersistentVolumeClaim"]


@pytest.mark.parametrize("name", RAY_DOCUMENTS)
def test_the_clusters_ray_is_the_images(name: str) -> None:
    pinned = re.search(r"^ray==(\S+)$", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    assert cluster_of(ray_document(name))["rayVersion"] == pinned[1]


def test_the_two_manifests_describe_the_same_cluster() -> None:
    assert cluster_of(ray_document("raycluster.yaml")) == cluster_of(ray_document("rayjob.yaml"))


def test_the_jobs_entry_point_is_a_valid_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Its settings compose; the store itself is a bucket that nobody has."""
    program, *arguments = shlex.split(ray_document("rayjob.yaml")["spec"]["entrypoint"])
    assert program == "rat-ray"
    assert main([*arguments, "--cfg", "job"]) == 0
    printed = capsys.readouterr().out
    assert "store: s3://my-bucket/rat-ray" in printed
    assert "out: /out/quickstart" in printed
