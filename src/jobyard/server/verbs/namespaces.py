"""Namespaces as the place where other objects live: which there are, and who may come in.

Every server has the four of Kubernetes, and every namespace its default service account. How a
namespace ends is `sweeping`'s business.
"""

from __future__ import annotations

from typing import Final

from jobyard.server.messages.routing import key_of
from jobyard.server.problem import Cause, Details, ProblemError, forbidden, not_found, qualified
from jobyard.server.resource import Object, ServedResource
from jobyard.server.site import Site

NAMESPACES: Final = "namespaces"
SERVICE_ACCOUNTS: Final = "serviceaccounts"
INITIAL: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
DEFAULT_ACCOUNT: Final = "default"


def check_open(site: Site, resource: ServedResource, namespace: str, name: str) -> None:
    """Raises unless something new may be made in the namespace."""
    home = site.store.get(NAMESPACES, namespace)
    if home is None:
        raise not_found("", NAMESPACES, namespace)
    if home.metadata.get("deletionTimestamp") is None:
        return
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = Cause(
        "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
    )
    text = f'{qualified(resource.group, resource.plural)} "{name}" is forbidden: {why}'
    details = Details(name=name, group=resource.group, kind=resource.plural, causes=(cause,))
    raise ProblemError(403, "Forbidden", text, details)


def check_crd_open(site: Site, resource: ServedResource, name: str) -> None:
    """Raises while the CRD of a custom resource is on its way out."""
    crd = site.store.get("customresourcedefinitions.apiextensions.k8s.io", resource.storage_key)
    if crd is not None and crd.metadata.get("deletionTimestamp") is not None:
        text = "create not allowed while custom resource definition is terminating"
        raise forbidden(resource.group, resource.plural, name, text)


def check_account(site: Site, pod: Object) -> None:
    """Raises unless there is the service account that a pod wants to run as."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    account = pod["spec"].get("serviceAccountName") or DEFAULT_ACCOUNT
    if site.store.get(SERVICE_ACCOUNTS, key_of(namespace, account)) is None:
        why = f"error looking up service account {namespace}/{account}:"
        raise forbidden("", "pods", name, f'{why} serviceaccount "{account}" not found')


def furnish(site: Site) -> None:
    """Make the namespaces that are always there, on a new store."""
    for name in INITIAL:
        if site.store.get(NAMESPACES, name) is None:
            value: Object = {
                "kind": "Namespace",
                "apiVersion": "v1",
                "metadata": {**_born(site, name), "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
            site.store.put(NAMESPACES, name, value)
        equip(site, name)


def equip(site: Site, namespace: str) -> None:
    """Give a namespace its default service account."""
    key = key_of(namespace, DEFAULT_ACCOUNT)
    if site.store.get(SERVICE_ACCOUNTS, key) is None:
        born = _born(site, DEFAULT_ACCOUNT, namespace)
        value: Object = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": born}
        site.store.put(SERVICE_ACCOUNTS, key, value)


def _born(site: Site, name: str, namespace: str = "") -> dict[str, str]:
    home = {"namespace": namespace} if namespace else {}
    made = {"uid": site.new_uid(), "creationTimestamp": site.timestamp()}
    return {"name": name, **home, **made}
