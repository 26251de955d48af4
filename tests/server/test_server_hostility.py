"""Requests that nobody thought of: the embedded server has an answer to each, and says whose fault.

Whatever goes wrong inside of it would be told as an error of the server's own, with a traceback in
its log. Calls go straight into an ApiServer, where nothing catches what is raised.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import logging
import os
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from conformance.embedded import embedded_server
from manifest.hostile_manifests import dumped
from manifest.hostility import Raw
from rig.kube.plane import ControlPlane
from rig.selection import all_is_asked_for
from rig.tls import client_context

from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS
from jobyard.server.call import Call, Reply
from jobyard.server.opening import open_server
from jobyard.server.problem import ProblemError
from jobyard.server.server import ApiServer
from jobyard.server.streaming.forwarding import asked_ports
from server.hostile_requests import APPLY, JSON_PATCH, MERGE, STRATEGIC, WIDGETS, Requests, as_text

Json = dict[str, Any]
REQUESTS = int(os.environ.get("JOBYARD_REQUESTS") or (40_000 if all_is_asked_for() else 3_000))
CHUNKS = 20 if all_is_asked_for() else 3
SEED = int(os.environ["JOBYARD_SEED"])
SECONDS_MAX = 2.0
PLAIN_EVERY = 100
AT_THE_DOOR = 3_000 if all_is_asked_for() else 400


@pytest.fixture
def server() -> Iterator[ApiServer]:
    opened = open_server(None)
    opened.install([*map(crd, KINDS), WIDGETS], "test")
    yield opened
    opened.store.journal.close()


def fault(server: ApiServer, call: Call) -> str | None:
    """What is wrong with the answer to a call; None if nothing is."""
    begun = time.process_time()
    try:
        answer = server.handle(call)
        server.tidy(100)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    seconds = time.process_time() - begun
    if seconds > SECONDS_MAX:
        return f"it took {seconds:.1f} s"
    if not isinstance(answer, Reply):
        answer.end()
        return None
    # A real server refuses some things with a 500 and no reason; ours says the same.
    if answer.status == 500 and b'"InternalError"' in answer.body:
        return f"500: {answer.body[:300]!r}"
    if "json" in answer.content_type and b"Infinity" not in answer.body:
        # Whatever is answered can be read.
        msgspec.json.decode(answer.body)
    return None


@pytest.mark.long
@pytest.mark.parametrize("fits", [False, True], ids=["odd", "fitting"])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_random_request_has_an_answer(server: ApiServer, chunk: int, fits: bool) -> None:
    """Those that fit the schemas get further."""
    requests = Requests(SEED + chunk, fits=fits)
    answers: dict[int, int] = {}
    plain = requests.plain()
    for number in range(REQUESTS // CHUNKS):
        if number % PLAIN_EVERY == 0:
            # What was deleted is there again.
            for call in plain:
                server.handle(call)
        call = requests.draw()
        wrong = fault(server, call)
        assert wrong is None, (
            f"{wrong}\n{as_text(call)}\nrepeat with JOBYARD_SEED={SEED}"
            f" -k 'random_request and {chunk}-{'fitting' if fits else 'odd'}'"
        )
        reply = server.handle(Call(method="GET", path="/api/v1/namespaces/default/pods"))
        assert isinstance(reply, Reply)
        answers[reply.status] = answers.get(reply.status, 0) + 1
    assert set(answers) == {200}


# One by one, on both servers


class Door:
    """An API server as HTTP has it, also with headers that are no text."""

    def __init__(self, url: str, tls: ssl.SSLContext, headers: Mapping[str, str]) -> None:
        self._url = urlsplit(url)
        self._tls = tls
        self._headers = dict(headers)

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        assert self._url.hostname is not None
        connection = http.client.HTTPSConnection(
            self._url.hostname, self._url.port, context=self._tls, timeout=60
        )
        try:
            # As bytes: http.client would write them as Latin-1.
            connection.request(method, path, body or None, {**self._headers, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def furnish(self, namespace: str) -> None:
        """A config map `there` and a pod `there`, which has no node."""
        home = f"/api/v1/namespaces/{namespace}"
        pod = {**POD, "metadata": {"name": "there"}}
        for path, obj in ((f"{home}/configmaps", config_map("there")), (f"{home}/pods", pod)):
            status, said = self.ask("POST", path, dumped(obj).encode(), JSON)
            assert status == 201, said


JSON = {"Content-Type": "application/json"}
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "automountServiceAccountToken": False,
        "containers": [{"name": "a", "image": "i"}],
    },
}
LONG = "9" * 5_000
LONG_NUMBER, INFINITE = Raw(LONG), Raw("1e999")
TOO_DEEP = Raw('{"a":' * 10_001 + "1" + "}" * 10_001)


def config_map(name: str, **more: Any) -> Json:
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return {**about, **more}


def pod(name: str, **spec: Any) -> Json:
    return {**POD, "metadata": {"name": name}, "spec": {**POD["spec"], **spec}}


def limited(amount: Any) -> Json:
    resources = {"limits": {"cpu": amount}}
    return pod("p", containers=[{"name": "a", "image": "i", "resources": resources}])


def binding(target: Any, **metadata: Any) -> Json:
    about = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "there", **metadata}}
    return {**about, "target": target}


def eviction(options: Any) -> Json:
    about = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "there"}}
    return {**about, "deleteOptions": options}


def token(version: str) -> str:
    text = f'{{"v":"meta.k8s.io/v1","rv":{version},"start":"/a\\u0000"}}'
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def post(what: str, obj: Any, type_: str = "application/json") -> tuple[str, str, Any, str]:
    return "POST", f"/{what}?dryRun=All", obj, type_


def patch(obj: Any, type_: str) -> tuple[str, str, Any, str]:
    return "PATCH", "/configmaps/there?dryRun=All&fieldManager=m", obj, type_


def put(version: Any) -> tuple[str, str, Any, str]:
    obj = config_map("there")
    obj["metadata"]["resourceVersion"] = version
    return "PUT", "/configmaps/there?dryRun=All", obj, "application/json"


def ask(path: str) -> tuple[str, str, Any, str]:
    return "GET", path, None, ""


def remove(options: Any) -> tuple[str, str, Any, str]:
    obj = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
    return "DELETE", "/configmaps/there?dryRun=All", obj, "application/json"


# What is asked, and the codes that a real server answers with.
ODD: dict[str, tuple[tuple[str, str, Any, str], int]] = {
    "half a pair in a value": (post("configmaps", config_map("c", data={"a": "\ud800"})), 201),
    "half a pair in a key": (post("configmaps", config_map("c", data={"\ud800": "a"})), 422),
    "half a pair in a name": (post("configmaps", config_map("\udc00")), 422),
    "half a pair in a kind": (post("configmaps", {**config_map("c"), "kind": "\ud800"}), 400),
    "half a pair in a patch": (patch({"data": {"a": "\ud800"}}, MERGE), 200),
    "half a pair in an operation": (
        patch([{"op": "add", "path": "/data", "value": {"a": "\udfff"}}], JSON_PATCH),
        200,
    ),
    "a huge integer": (post("pods", pod("p", terminationGracePeriodSeconds=LONG_NUMBER)), 400),
    "an infinite integer": (post("pods", pod("p", terminationGracePeriodSeconds=INFINITE)), 400),
    "a huge integer as a text": (post("configmaps", config_map("c", data={"a": LONG_NUMBER})), 400),
    "a huge integer in a merge patch": (patch({"x": LONG_NUMBER}, MERGE), 400),
    "a huge integer in an operation": (
        patch([{"op": "add", "path": "/x", "value": LONG_NUMBER}], JSON_PATCH),
        400,
    ),
    "a huge integer in a strategic patch": (patch({"x": LONG_NUMBER}, STRATEGIC), 400),
    "an infinite number in a merge patch": (patch({"x": INFINITE}, MERGE), 400),
    "an exponent beyond 64 bits": (post("pods", limited("1e99999999999999999999")), 400),
    "a quantity in another script": (post("pods", limited("٣")), 400),
    "a quantity with a raised digit": (post("pods", limited("²")), 400),
    "a tiny quantity": (post("pods", limited("1e-3000000")), 201),
    "a quantity of 900 digits": (post("pods", limited("9" * 900)), 201),
    "a large power": (post("pods", limited("1e300")), 201),
    "a version that is a raised digit, written": (put("²"), 500),
    "a version that is huge, written": (put(LONG), 500),
    "a version that is no text, written": (put(5), 400),
    "a version that is a raised digit, listed": (ask("/configmaps?resourceVersion=%C2%B2"), 400),
    "a version that is huge, listed": (ask(f"/configmaps?resourceVersion={LONG}"), 400),
    "a version that is huge, got": (ask(f"/configmaps/there?resourceVersion={LONG}"), 500),
    "a version that is huge, watched": (ask(f"/configmaps?watch=1&resourceVersion={LONG}"), 500),
    "a limit that is huge": (ask(f"/configmaps?limit={LONG}"), 400),
    "a limit that is a raised digit": (ask("/configmaps?limit=%C2%B2"), 400),
    "a limit with an underscore": (ask("/configmaps?limit=1_0"), 400),
    "a timeout that is huge": (ask(f"/configmaps?watch=1&timeoutSeconds={LONG}"), 400),
    "a token with a huge version": (ask(f"/configmaps?limit=1&continue={token(LONG)}"), 400),
    "a token with an infinite version": (
        ask(f"/configmaps?limit=1&continue={token('1e999')}"),
        400,
    ),
    "a label compared with a huge number": (ask(f"/configmaps?labelSelector=a%3E{LONG}"), 400),
    "an index that is huge": (
        (
            "PATCH",
            "/pods/there?dryRun=All",
            [{"op": "replace", "path": f"/spec/containers/{LONG}", "value": {}}],
            JSON_PATCH,
        ),
        422,
    ),
    "an object that is too deep": (post("configmaps", config_map("c", x=TOO_DEEP)), 400),
    "a merge patch that is too deep": (patch({"x": TOO_DEEP}, MERGE), 400),
    "an operation that is too deep": (
        patch([{"op": "add", "path": "/x", "value": TOO_DEEP}], JSON_PATCH),
        400,
    ),
    "a strategic patch that is too deep": (patch({"x": TOO_DEEP}, STRATEGIC), 400),
    "an applied object that is too deep": (patch(config_map("there", x=TOO_DEEP), APPLY), 400),
    "options that are too deep": (remove({"x": TOO_DEEP}), 400),
    "a grace that is huge": (remove({"gracePeriodSeconds": LONG_NUMBER}), 400),
    "a grace that is infinite": (remove({"gracePeriodSeconds": INFINITE}), 400),
    "a precondition that is a number": (remove({"preconditions": {"uid": 5}}), 400),
    "a dry run that is no text": (remove({"dryRun": [5]}), 400),
    "a target that is a text": (post("pods/there/binding", binding("n")), 400),
    "a target that is a number": (post("pods/there/binding", binding(5)), 400),
    "a target that is a list": (post("pods/there/binding", binding([])), 400),
    "a target that is nothing": (post("pods/there/binding", binding(None)), 500),
    "a target whose name is a list": (post("pods/there/binding", binding({"name": ["n"]})), 400),
    "annotations of a binding that are a text": (
        post("pods/there/binding", binding({"name": "n"}, annotations="x")),
        400,
    ),
    "a uid of a binding that is a number": (
        post("pods/there/binding", binding({"name": "n"}, uid=5)),
        400,
    ),
    "options of an eviction that are a text": (post("pods/there/eviction", eviction("x")), 400),
    "an infinite grace of an eviction": (
        post("pods/there/eviction", eviction({"gracePeriodSeconds": INFINITE})),
        400,
    ),
    "a protobuf that is none": (
        post("configmaps", Raw("k8s\0\1"), "application/vnd.kubernetes.protobuf"),
        400,
    ),
    "lines since too long ago": (ask(f"/pods/there/log?sinceSeconds={LONG}"), 400),
    "lines since forever": (ask("/pods/there/log?sinceSeconds=9223372036854775807"), 204),
    "lines since no time": (ask("/pods/there/log?sinceTime=%C2%B2"), 400),
    "lines since the year 1": (ask("/pods/there/log?sinceTime=0001-01-01T00:00:00Z"), 204),
    "more lines than can be counted": (ask(f"/pods/there/log?tailLines={LONG}"), 400),
    "a limit of bytes that is a raised digit": (ask("/pods/there/log?limitBytes=%C2%B2"), 400),
}


def answered(door: Door, namespace: str, asked: tuple[str, str, Any, str]) -> tuple[int, bytes]:
    method, path, obj, type_ = asked
    body = b"" if obj is None else dumped(obj).encode()
    headers = {"Content-Type": type_} if type_ else {}
    return door.ask(method, f"/api/v1/namespaces/{namespace}{path}", body, headers)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with embedded_server(tmp_path_factory.mktemp("embedded")) as server:
        door = Door(server.url, server.tls, server.headers)
        door.furnish("default")
        yield door


@pytest.mark.parametrize("what", ODD)
def test_an_odd_request_has_the_answer_of_a_real_server(
    embedded: Door, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    asked, code = ODD[what]
    with caplog.at_level(logging.WARNING):
        status, said = answered(embedded, "default", asked)
    assert status == code, said[:500]
    assert not caplog.records


def test_the_answers_to_odd_requests_are_those_of_a_real_server(
    control_plane: ControlPlane, namespace: str
) -> None:
    plane = control_plane
    door = Door(plane.url, client_context(plane.ca, plane.cert, plane.key), {})
    door.furnish(namespace)
    answers = {what: answered(door, namespace, asked) for what, (asked, _) in ODD.items()}
    assert {what: status for what, (status, _) in answers.items()} == {
        what: code for what, (_, code) in ODD.items()
    }


def test_every_random_request_at_the_door_has_an_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with embedded_server(tmp_path) as server:
        knock(Door(server.url, server.tls, server.headers), caplog)


def knock(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    requests = Requests(SEED)
    for call in requests.plain():
        door.ask(call.method, call.path, call.body, JSON)
    for _ in range(AT_THE_DOOR):
        method, target, body, headers = requests.at_the_door()
        with caplog.at_level(logging.ERROR):
            status, said = door.ask(method, target, body, headers)
        about = f"{method} {target[:300]} {headers} {body[:300]!r}"
        assert not caplog.records, f"{caplog.text[-1500:]}\n{about}\nJOBYARD_SEED={SEED}"
        # Some refusals of a real server are 500 too; its own faults have a reason.
        is_refusal = b"Status" in said and b"InternalError" not in said
        assert status != 500 or method == "HEAD" or is_refusal, (
            f"{said[:300]!r}\n{about}\nJOBYARD_SEED={SEED}"
        )


def test_half_a_pair_becomes_what_stands_for_no_character(embedded: Door) -> None:
    asked, _ = ODD["half a pair in a value"]
    _, said = answered(embedded, "default", asked)
    assert json.loads(said)["data"] == {"a": "\ufffd"}


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        pytest.param(rb"\ud800", "\ufffd", id="the first half"),
        pytest.param(rb"\udc00z", "\ufffdz", id="the second half"),
        pytest.param(rb"\ud83d\ude00", "😀", id="a pair"),
        pytest.param(rb"\ud800\ud83d\ude00", "\ufffd😀", id="half and a pair"),
        pytest.param(rb"\\ud800", "\\ud800", id="a backslash and letters"),
        pytest.param(rb"\\\ud800", "\\\ufffd", id="a backslash and half a pair"),
        pytest.param(b"\xff\xfe", "\ufffd\ufffd", id="bytes that are no characters"),
        pytest.param(b"a\xc3(", "a\ufffd(", id="half a character"),
    ],
)
def test_what_is_no_character_is_stored_as_on_a_real_server(
    embedded: Door, sent: bytes, stored: str
) -> None:
    body = (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"%b"}}' % sent
    )
    path = "/api/v1/namespaces/default/configmaps?dryRun=All"
    status, said = embedded.ask("POST", path, body, JSON)
    assert (status, json.loads(said)["data"]["a"]) == (201, stored)


@pytest.mark.parametrize(
    ("header", "code"),
    [
        pytest.param({"Authorization": "Bearer \xff"}, 401, id="a token that is no text"),
        pytest.param({"Authorization": "\xff"}, 401, id="a scheme that is no text"),
        pytest.param({"Accept": "\xff"}, 406, id="a type that is no text"),
        pytest.param({"User-Agent": "\xff\xfe"}, 201, id="a client that is no text"),
        pytest.param({"Content-Type": "\xff"}, 415, id="a content that is no text"),
        pytest.param({"If-None-Match": "\xff"}, 201, id="a tag that is no text"),
        pytest.param({"Content-Encoding": "gzip"}, 201, id="said to be compressed, and isn't"),
        pytest.param({"Content-Encoding": "deflate"}, 201, id="said to be deflated, and isn't"),
        pytest.param({"Content-Encoding": "\xff"}, 201, id="an encoding that is no text"),
    ],
)
def test_a_header_may_be_anything(
    embedded: Door, caplog: pytest.LogCaptureFixture, header: dict[str, str], code: int
) -> None:
    body = json.dumps(config_map("c")).encode()
    path = "/api/v1/namespaces/default/configmaps?dryRun=All"
    with caplog.at_level(logging.WARNING):
        status, said = embedded.ask("POST", path, body, {**JSON, **header})
    assert status == code, said
    assert not caplog.records


def test_a_body_that_is_compressed_is_no_json(embedded: Door) -> None:
    body = gzip.compress(json.dumps(config_map("c")).encode())
    path = "/api/v1/namespaces/default/configmaps?dryRun=All"
    status, said = embedded.ask("POST", path, body, {**JSON, "Content-Encoding": "gzip"})
    assert status == 400, said


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + "0" * 400, "9" * 10_000])
def test_a_number_that_no_float_can_hold_is_refused(server: ApiServer, number: str) -> None:
    """It was stored as null once."""
    widget = {"apiVersion": "probe.dev/v1", "kind": "Widget", "metadata": {"name": "w"}}
    body = dumped({**widget, "spec": {"any": Raw(number)}}).encode()
    path = "/apis/probe.dev/v1/namespaces/default/widgets"
    reply = server.handle(Call(method="POST", path=path, body=body))
    assert isinstance(reply, Reply)
    assert reply.status == 400
    assert b"into Go value of type float64" in reply.body


def test_a_protobuf_with_a_time_beyond_all_calendars_is_refused(server: ApiServer) -> None:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    seconds = b"\x08" + b"\xff" * 8 + b"\x7f"
    metadata = field(1, b"c") + field(8, seconds)
    obj = field(1, metadata)
    header = field(1, field(1, b"v1") + field(2, b"ConfigMap"))
    body = b"k8s\x00" + header + field(2, obj)
    path = "/api/v1/namespaces/default/configmaps"
    type_ = "application/vnd.kubernetes.protobuf"
    reply = server.handle(Call(method="POST", path=path, body=body, content_type=type_))
    assert isinstance(reply, Reply)
    assert reply.status == 400, reply.body


@pytest.mark.parametrize(
    "amount",
    [
        pytest.param("9" * 1_001, id="1001 digits"),
        pytest.param("9" * 5_000, id="5000 digits"),
        pytest.param("0." + "0" * 5_000 + "1", id="5000 zeros"),
        pytest.param("1e5000", id="a large power"),
        pytest.param(f"1e{'9' * 5_000}", id="a power of 5000 digits"),
    ],
)
def test_a_quantity_of_any_length_has_an_answer(server: ApiServer, amount: str) -> None:
    """A real one takes some of them, and is busy with it for seconds; here they are refused."""
    for number in (amount, f"-{amount}", f"{amount}Gi"):
        body = dumped(limited(number)).encode()
        path = "/api/v1/namespaces/default/pods"
        reply = server.handle(Call(method="POST", path=path, body=body))
        assert isinstance(reply, Reply)
        assert reply.status in (400, 422), reply.body[:300]


DEPTHS_REFUSED = (201, 400, 480, 490, 700, 960, 3_000)


@pytest.mark.parametrize("depth", DEPTHS_REFUSED)
def test_depth_is_refused_at_the_door(server: ApiServer, depth: int) -> None:
    """Whether it comes with an object or with a patch: what is stored can be walked."""
    path = "/apis/probe.dev/v1/namespaces/default/widgets"
    widget = {"apiVersion": "probe.dev/v1", "kind": "Widget", "metadata": {"name": "w"}}
    made = server.handle(Call(method="POST", path=path, body=dumped(widget).encode()))
    assert isinstance(made, Reply)
    assert made.status == 201
    deep = Raw('{"a":' * depth + "1" + "}" * depth)
    sent = {**widget, "spec": {"any": deep}}
    operation = {"op": "add", "path": "/spec", "value": {"any": deep}}
    calls = [
        ("POST", path, {**sent, "metadata": {"name": "x"}}, "application/json"),
        ("PUT", f"{path}/w", sent, "application/json"),
        ("PATCH", f"{path}/w", {"spec": {"any": deep}}, MERGE),
        ("PATCH", f"{path}/w", [operation], JSON_PATCH),
        ("PATCH", f"{path}/w", sent, APPLY),
    ]
    for method, target, obj, type_ in calls:
        call = Call(
            method=method,
            path=target,
            body=dumped(obj).encode(),
            content_type=type_,
            query=(("fieldManager", "m"),),
        )
        reply = server.handle(call)
        assert isinstance(reply, Reply)
        assert reply.status == 400, (method, type_, reply.status, reply.body[:300])


@pytest.mark.parametrize("depth", [150, 190, 196])
def test_what_can_be_created_can_be_changed_and_shown(server: ApiServer, depth: int) -> None:
    """Depth is refused at the door or not at all."""
    path = "/apis/probe.dev/v1/namespaces/default/widgets"
    widget = {"apiVersion": "probe.dev/v1", "kind": "Widget", "metadata": {"name": "w"}}
    deep = Raw('{"a":' * depth + "1" + "}" * depth)
    body = dumped({**widget, "spec": {"any": deep}})
    operations = dumped([{"op": "add", "path": "/spec/other", "value": deep}])
    calls = [
        Call(method="POST", path=path, body=body.encode()),
        *(
            Call(method="GET", path=f"{path}/w", accept=accept)
            for accept in (
                "application/json",
                "application/yaml",
                "application/json;as=Table;v=v1;g=meta.k8s.io",
            )
        ),
        *(
            Call(
                method="PATCH",
                path=f"{path}/w",
                body=text.encode(),
                content_type=type_,
                query=(("fieldManager", "m"), *([("force", "true")] if type_ == APPLY else [])),
            )
            for text, type_ in (
                ('{"metadata":{"labels":{"a":"b"}}}', MERGE),
                (dumped({"spec": {"more": deep}}), MERGE),
                (operations, JSON_PATCH),
                (body, APPLY),
            )
        ),
        Call(method="DELETE", path=f"{path}/w"),
    ]
    for call in calls:
        reply = server.handle(call)
        assert isinstance(reply, Reply)
        assert reply.status < 300, (call.method, call.content_type, reply.body[:300])


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("0999-12-31T23:59:59+01:00", "0999-12-31T22:59:59Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_year_has_four_digits(server: ApiServer, sent: str, stored: str) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"},
        "firstTimestamp": sent,
        "lastTimestamp": sent,
    }
    path = "/api/v1/namespaces/default/events"
    made = server.handle(Call(method="POST", path=path, body=json.dumps(event).encode()))
    assert isinstance(made, Reply)
    assert json.loads(made.body)["lastTimestamp"] == stored
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    shown = server.handle(Call(method="GET", path=path, accept=accept))
    assert isinstance(shown, Reply)
    assert shown.status == 200


def test_operations_cannot_make_an_object_deeper_than_it_may_be(server: ApiServer) -> None:
    path = "/apis/probe.dev/v1/namespaces/default/widgets"
    widget = {"apiVersion": "probe.dev/v1", "kind": "Widget", "metadata": {"name": "w"}}
    body = dumped({**widget, "spec": {"any": {"a": {}}}}).encode()
    server.handle(Call(method="POST", path=path, body=body))
    steps = [{"op": "copy", "from": "/spec/any", "path": "/spec/any/a"} for _ in range(12)]
    for _ in range(20):
        reply = server.handle(
            Call(
                method="PATCH",
                path=f"{path}/w",
                body=json.dumps(steps).encode(),
                content_type=JSON_PATCH,
            )
        )
        assert isinstance(reply, Reply)
        if reply.status != 200:
            break
    assert reply.status == 422, reply.body[:300]
    assert b"exceeded max depth" in reply.body


ENDLESS = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d != 'x'))))"


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"rule": ENDLESS}, id="a rule"),
        pytest.param(
            {"rule": "size(self) == 0", "messageExpression": f"{ENDLESS} ? 'a' : 'b'"},
            id="a message",
        ),
        pytest.param({"rule": "self[0].matches('^(y+)+$')"}, id="an expression"),
    ],
)
def test_a_rule_that_takes_without_end_is_given_up(server: ApiServer, rule: Json) -> None:
    """As a real server does, and soon: the one loop of the engine has to do it."""
    texts = {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [rule]}
    schema = {"type": "object", "properties": {"spec": texts}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "loops", "singular": "loop", "kind": "Loop"}
    spec = {"group": "probe.dev", "scope": "Namespaced", "names": names, "versions": [version]}
    server.install([{**WIDGETS, "metadata": {"name": "loops.probe.dev"}, "spec": spec}], "test")
    texts_of_one = ["y" * 1_000 + "!", *["y" * 10] * 2_000]
    loop = {"apiVersion": "probe.dev/v1", "kind": "Loop", "metadata": {"name": "l"}}
    begun = time.process_time()
    reply = server.handle(
        Call(
            method="POST",
            path="/apis/probe.dev/v1/namespaces/default/loops",
            body=json.dumps({**loop, "spec": texts_of_one}).encode(),
        )
    )
    assert isinstance(reply, Reply)
    assert reply.status == 422, reply.body[:500]
    assert time.process_time() - begun < SECONDS_MAX


@pytest.mark.parametrize("port", ["0000199999", "65536", "0", "-1", "²", LONG, "8_0", " 80", ""])
def test_a_port_to_forward_that_is_none_is_refused(port: str) -> None:
    """Too large a number ended the process that the pod lived in."""
    call = Call(method="GET", path="/", query=(("ports", f"80,{port}"),))
    with pytest.raises(ProblemError, match="as a port"):
        asked_ports(call)


@pytest.mark.parametrize("port", ["000001999999999", "65536", "-1", "%C2%B2", LONG, "8_0"])
def test_a_port_to_proxy_that_is_none_is_refused(
    embedded: Door, caplog: pytest.LogCaptureFixture, port: str
) -> None:
    """Of a pod that has a node: of another one the server knows already that nobody answers."""
    path = "/api/v1/namespaces/default/pods"
    obj = pod("placed", nodeName="n")
    embedded.ask("POST", path, dumped(obj).encode(), JSON)
    with caplog.at_level(logging.WARNING):
        status, said = embedded.ask("GET", f"{path}/placed:{port}/proxy/")
    told = json.loads(said)["message"]
    assert (status, told) == (400, f'invalid pod request "placed:{unquote(port)}"')
    assert not caplog.records


def test_a_port_to_proxy_is_the_nodes_to_reach(embedded: Door) -> None:
    """This server's node can't, and says so: what the test above asks gets no further than it."""
    path = "/api/v1/namespaces/default/pods"
    embedded.ask("POST", path, dumped(pod("placed", nodeName="n")).encode(), JSON)
    status, _ = embedded.ask("GET", f"{path}/placed:80/proxy/")
    assert status == 500


def test_ports_to_forward_are_read() -> None:
    call = Call(method="GET", path="/", query=(("ports", "80,00443"), ("ports", "65535")))
    assert asked_ports(call) == (80, 443, 65535)
