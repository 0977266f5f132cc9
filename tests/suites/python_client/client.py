"""What programs do with the Python client: typed calls, watches, dynamic calls, leader election.

usage: client.py KUBECONFIG DIRECTORY. Ends with the first thing that is not as it should be.
"""

import sys
import threading
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException
from kubernetes.dynamic.exceptions import ResourceNotFoundError
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

PATIENCE = 60


def eventually(what, probe):
    """Looks until there is an outcome."""
    deadline = time.monotonic() + PATIENCE
    while not (outcome := probe()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return outcome


def refused(code, call, *arguments, **more):
    """A call that must fail with this code; its reason."""
    try:
        call(*arguments, **more)
    except ApiException as error:
        assert error.status == code, error
        return error.reason
    raise AssertionError(f"{call.__name__} is not refused")


def config_map(name, data, **labels):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data=data)


def typed():
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    made = core.create_namespaced_config_map("default", config_map("typed", {"a": "1"}, by="typed"))
    assert made.metadata.uid and made.data == {"a": "1"}, made
    stale = core.read_namespaced_config_map("typed", "default")
    made.data = {"a": "2"}
    core.replace_namespaced_config_map("typed", "default", made)
    assert refused(409, core.replace_namespaced_config_map, "typed", "default", stale) == "Conflict"
    patched = core.patch_namespaced_config_map("typed", "default", {"data": {"b": "3"}})
    assert patched.data == {"a": "2", "b": "3"}, patched

    core.create_namespaced_config_map("default", config_map("typed-2", {}, by="typed"))
    page = core.list_namespaced_config_map("default", label_selector="by=typed", limit=1)
    assert page.metadata.remaining_item_count is None and page.metadata._continue, page.metadata
    rest = core.list_namespaced_config_map("default", label_selector="by=typed", limit=1, _continue=page.metadata._continue)
    assert [item.metadata.name for item in page.items + rest.items] == ["typed", "typed-2"]

    container = client.V1Container(name="c", image="web:1", ports=[client.V1ContainerPort(container_port=80)])
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=client.V1PodSpec(containers=[container]))
    spec = client.V1DeploymentSpec(replicas=1, selector=client.V1LabelSelector(match_labels={"app": "web"}), template=template)
    apps.create_namespaced_deployment("default", client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec))
    apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 2}})
    assert apps.read_namespaced_deployment_scale("web", "default").spec.replicas == 2
    eventually("two pods are ready", lambda: apps.read_namespaced_deployment_status("web", "default").status.ready_replicas == 2)
    apps.delete_namespaced_deployment("web", "default", propagation_policy="Foreground")

    core.delete_collection_namespaced_config_map("default", label_selector="by=typed")
    assert core.list_namespaced_config_map("default", label_selector="by=typed").items == []
    assert refused(404, core.read_namespaced_config_map, "typed", "default") == "Not Found"
    assert refused(422, core.create_namespaced_config_map, "default", config_map("Not_A_Name", {})) == "Unprocessable Entity"


def watches():
    core = client.CoreV1Api()
    start = core.list_namespaced_config_map("default").metadata.resource_version

    def change():
        core.create_namespaced_config_map("default", config_map("watched", {"a": "1"}, by="watch"))
        core.patch_namespaced_config_map("watched", "default", {"data": {"a": "2"}})
        core.delete_namespaced_config_map("watched", "default")

    worker = threading.Thread(target=change)
    worker.start()
    seen, watcher = [], watch.Watch()
    stream = watcher.stream(
        core.list_namespaced_config_map, "default", label_selector="by=watch", resource_version=start, timeout_seconds=PATIENCE)
    for event in stream:
        seen.append((event["type"], event["object"].data))
        if event["type"] == "DELETED":
            watcher.stop()
    worker.join()
    assert seen == [("ADDED", {"a": "1"}), ("MODIFIED", {"a": "2"}), ("DELETED", {"a": "2"})], seen


WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.python.example.com"},
    "spec": {
        "group": "python.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 7}, "colour": {"type": "string"}}},
            }}},
        }],
    },
}


def dynamically(directory):
    api = dynamic.DynamicClient(client.ApiClient(), cache_file=f"{directory}/discovery.json")
    assert api.version["kubernetes"]["minor"] == "36", api.version
    api.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition").create(body=WIDGETS)

    def served():
        api.resources.invalidate_cache()
        try:
            return api.resources.get(api_version="python.example.com/v1", kind="Widget")
        except ResourceNotFoundError:
            return None

    widgets = eventually("the custom resource is discovered", served)
    widget = {"apiVersion": "python.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"colour": "red"}}
    made = widgets.create(body=widget, namespace="default")
    assert made.spec.size == 7, made
    # Who created it owns the default, too.
    bigger = {**widget, "spec": {"size": 9}}
    refused(409, widgets.server_side_apply, body=bigger, namespace="default", field_manager="python")
    widgets.server_side_apply(body=bigger, namespace="default", field_manager="python", force_conflicts=True)
    widgets.patch(
        body=[{"op": "replace", "path": "/spec/colour", "value": "blue"}], name="w", namespace="default",
        content_type="application/json-patch+json")
    found = widgets.get(name="w", namespace="default")
    assert (found.spec.size, found.spec.colour) == (9, "blue"), found
    event = next(iter(widgets.watch(namespace="default", resource_version="0", timeout=PATIENCE)))
    assert (event["type"], event["raw_object"]["metadata"]["name"]) == ("ADDED", "w"), event
    widgets.delete(name="w", namespace="default")
    assert widgets.get(namespace="default").items == []


def elects_a_leader():
    led, stopped = threading.Event(), threading.Event()

    def candidate(identity, started):
        lock = LeaseLock("python", "default", identity)
        return leaderelection.LeaderElection(electionconfig.Config(lock, 4, 3, 1, started, stopped.set))

    def work():
        led.set()
        # The lease is not renewed once the work has failed.
        raise RuntimeError("the work ends")

    threading.Thread(target=candidate("first", work).run, daemon=True).start()
    assert led.wait(PATIENCE) and stopped.wait(PATIENCE)
    followed = threading.Event()
    threading.Thread(target=candidate("second", followed.set).run, daemon=True).start()
    assert followed.wait(PATIENCE), "nobody follows"
    lease = client.CoordinationV1Api().read_namespaced_lease("python", "default")
    assert lease.spec.holder_identity == "second", lease


def main():
    config.load_kube_config(sys.argv[1])
    typed()
    watches()
    dynamically(sys.argv[2])
    elects_a_leader()
    print("all is as it should be")


main()
