"""What KubeRay's RayCluster and RayJob (ray.io/v1) take, as far as our manifests use it, and no more.

No package carries the custom resource definitions, so the fields stand here by name and type, written after reading
KubeRay 1.7's definition and the rules of its `validation.go`. A field that is absent here is refused: add it together
with its first use. Pods are checked against Kubernetes' own schema (package kubernetes-validate).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import kubernetes_validate

KUBERNETES = "1.34"
_TEXT = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 0}
_SWITCH = {"type": "boolean"}
_TEMPLATE = {"type": "object"}  # checked by itself
# `ray start` options; KubeRay wants every value as a string.
_START = {"type": "object", "additionalProperties": {"type": "string"}}


def _fields(required: str = "", **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


CLUSTER = _fields(
    "rayVersion headGroupSpec workerGroupSpecs",
    rayVersion={"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
    authOptions=_fields("mode", mode={"enum": ["token", "disabled"]}, secretName=_TEXT),
    enableInTreeAutoscaling=_SWITCH,
    suspend=_SWITCH,
    headGroupSpec=_fields("rayStartParams template", rayStartParams=_START, serviceType=_TEXT, template=_TEMPLATE),
    workerGroupSpecs={
        "type": "array",
        "minItems": 1,
        "items": _fields(
            "groupName minReplicas maxReplicas rayStartParams template",
            groupName={"type": "string", "pattern": r"^[a-z]([a-z0-9-]*[a-z0-9])?$"},
            replicas=_COUNT,
            minReplicas=_COUNT,
            maxReplicas=_COUNT,
            rayStartParams=_START,
            template=_TEMPLATE,
        ),
    },
)
JOB = _fields(
    "entrypoint rayClusterSpec",
    entrypoint=_TEXT,
    runtimeEnvYAML=_TEXT,
    submissionMode={"enum": ["K8sJobMode", "HTTPMode", "SidecarMode"]},
    backoffLimit=_COUNT,
    activeDeadlineSeconds={"type": "integer", "minimum": 1},
    shutdownAfterJobFinishes=_SWITCH,
    ttlSecondsAfterFinished=_COUNT,
    suspend=_SWITCH,
    submitterPodTemplate=_TEMPLATE,
    rayClusterSpec=CLUSTER,
)
_METADATA = _fields(
    "name",
    name={"type": "string", "pattern": r"^[a-z]([a-z0-9-]*[a-z0-9])?$", "maxLength": 47},
    namespace=_TEXT,
    labels={"type": "object"},
    annotations={"type": "object"},
)


def refuse_unknown(document: Mapping[str, Any]) -> None:
    """Raise ValueError, saying where and why, unless KubeRay or Kubernetes would take this document as it is."""
    try:
        if document.get("apiVersion") != "ray.io/v1":
            kubernetes_validate.validate(dict(document), KUBERNETES, strict=True)
            return
        _check_ray(document)
        for pod in pod_templates(document):
            wrapped = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": pod}
            kubernetes_validate.validate(wrapped, KUBERNETES, strict=True)
    except jsonschema.ValidationError as error:
        where = ".".join(str(step) for step in error.absolute_path)
        raise ValueError(f"{document.get('kind')}: {where}: {error.message}") from None
    except kubernetes_validate.SchemaNotFoundError as error:
        raise ValueError(error.message) from None


def _check_ray(document: Mapping[str, Any]) -> None:
    specs = {"RayCluster": CLUSTER, "RayJob": JOB}
    if document.get("kind") not in specs:
        raise ValueError(f"no kind {document.get('kind')} in ray.io/v1")
    whole = _fields(
        "apiVersion kind metadata spec", apiVersion=_TEXT, kind=_TEXT, metadata=_METADATA, spec=specs[document["kind"]]
    )
    jsonschema.validate(document, whole, cls=jsonschema.Draft202012Validator)
    for group in cluster_of(document)["workerGroupSpecs"]:
        if not group["minReplicas"] <= group.get("replicas", group["minReplicas"]) <= group["maxReplicas"]:
            raise ValueError(f"{group['groupName']}: replicas must lie between minReplicas and maxReplicas")


def cluster_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The cluster's specification in a RayCluster or RayJob."""
    spec: Mapping[str, Any] = document["spec"]
    return spec["rayClusterSpec"] if document["kind"] == "RayJob" else spec


def pod_templates(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every pod template in a RayCluster or RayJob: head, workers, submitter."""
    cluster = cluster_of(document)
    yield cluster["headGroupSpec"]["template"]
    for group in cluster["workerGroupSpecs"]:
        yield group["template"]
    if "submitterPodTemplate" in document["spec"]:
        yield document["spec"]["submitterPodTemplate"]
