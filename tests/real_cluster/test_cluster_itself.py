"""What the other tests build on: a service's address and the names of pods lead somewhere."""

import pytest

from real_cluster.place import DEADLINE_SECONDS, Place

SERVER = """
apiVersion: v1
kind: Service
metadata: {name: peers}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {app: peers}
---
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: peers}}
spec:
  hostname: one
  subdomain: peers
  restartPolicy: Never
  containers:
    - name: server
      image: python:3.11-slim
      command: [python3, -u, -c]
      args:
        - |
          import signal, socket, sys
          signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
          server = socket.create_server(("", 8000))
          connection, _ = server.accept()
          connection.sendall(socket.gethostname().encode())
---
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: peers}}
spec:
  hostname: two
  subdomain: peers
  restartPolicy: Never
  containers:
    - name: client
      image: python:3.11-slim
      command: [python3, -u, -c]
      args:
        - |
          import os, socket, time
          deadline = time.monotonic() + 240
          while True:
              try:
                  peer = socket.create_connection(("one.peers", 8000), timeout=5)
                  break
              except OSError:
                  if time.monotonic() > deadline:
                      raise
          print("met", peer.recv(100).decode())
          address = os.environ["KUBERNETES_SERVICE_HOST"]
          for host in (address, "kubernetes.default.svc.cluster.local"):
              socket.create_connection((host, 443), timeout=10)
              print("reached", host)
          try:
              socket.getaddrinfo("nowhere.example", 80)
          except socket.gaierror as error:
              print("unknown", error.errno == socket.EAI_NONAME)
"""


@pytest.mark.shows("Pod", "names of pods, addresses of services, no way out")
def test_pods_find_each_other_and_the_api_server(place: Place) -> None:
    place.kubectl("apply", "-f", "-", stdin=SERVER)
    place.kubectl(
        *("wait", "pod/two", "--for=jsonpath={.status.phase}=Succeeded"),
        f"--timeout={DEADLINE_SECONDS}s",
        timeout_seconds=DEADLINE_SECONDS + 10,
    )
    assert place.logs("two") == [
        "met one",
        "reached 10.0.0.1",
        "reached kubernetes.default.svc.cluster.local",
        "unknown True",
    ]
