"""What can go wrong between Jobyard and an API server, as exceptions.

    ClientError
    ├── ClusterError             what says where the server is, or who we are, can't be used
    │   ├── NoClusterError       nothing says which cluster is meant
    │   ├── KubeconfigError      a kubeconfig, or a file it names, is at fault
    │   └── CredentialsError     a token file or login plugin gave no usable credentials
    ├── ConnectionFailedError    no answer: refused, broken, timed out, certificate not trusted
    ├── GarbledError             an answer that no API server would give
    ├── TooLargeError            an answer with more bytes than were asked for at most
    └── RefusedError             the server answered a list or watch with an error status

An error status of a plain request is no exception but an `Answer`. No message holds a
token, a key, or any content of a file or of a plugin's output that could be one.
"""

from __future__ import annotations

from jobyard.client.request import Problem


class ClientError(Exception):
    """The base of all errors of the client."""


class ClusterError(ClientError):
    """The description of the cluster can't be used; the message says what to change."""


class NoClusterError(ClusterError):
    """Nothing says which cluster is meant; the message lists what was looked for."""


class KubeconfigError(ClusterError):
    """A kubeconfig, or a file it names, can't be used."""


class CredentialsError(ClusterError):
    """A token file or a login plugin didn't give usable credentials."""


class ConnectionFailedError(ClientError):
    """There was no answer; `may_pass` is false when trying again can't help."""

    def __init__(self, server: str, what: str, remedy: str, *, may_pass: bool = True) -> None:
        super().__init__(f"API server {server}: {what}; {remedy}")
        self.server = server
        self.may_pass = may_pass


class GarbledError(ClientError):
    """An answer can't be read: something else than an API server is in between."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the answer is not what an API server says; check what is in between"
        )


class TooLargeError(ClientError):
    """An answer has more bytes than its request lets it have; it wasn't read to its end."""

    def __init__(self, what: str, bytes_max: int) -> None:
        super().__init__(f"{what}: the answer has more than {bytes_max} bytes")


class RefusedError(ClientError):
    """The server answered with an error where a stream or a list was needed."""

    def __init__(
        self, what: str, problem: Problem, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(f"{what}: {problem}")
        self.problem = problem
        self.retry_after_seconds = retry_after_seconds
