"""Which versions of the frameworks are in the images: what the examples name may differ from that.

The examples name images of their kind's makers; here those names stand for what Debian has. A pod
for each is asked, beside the tests, so that nobody waits for the answer.
"""

from collections.abc import Iterator, Mapping

from rig.kube.kubectl import Kubectl

# By how the image's name begins: what is told, and the Python that tells its version.
ASKED: Mapping[str, tuple[str, str]] = {
    "pytorch/": ("PyTorch", "import torch; print(torch.__version__)"),
    "jobyard/openmpi": (
        "Open MPI",
        "import subprocess as s; print(s.getoutput('mpirun --version').split()[3])",
    ),
    "python:": ("Python", "import platform; print(platform.python_version())"),
}
ANSWER_SECONDS = 60


def ask(kubectl: Kubectl, images: tuple[str, ...]) -> None:
    """Start the pods."""
    for name, image, script in _questions(images):
        pod = ("run", _pod_of(name), f"--image={image}", "--restart=Never")
        kubectl(*pod, "--command", "--", "python3", "-c", script)


def answers(kubectl: Kubectl, images: tuple[str, ...]) -> Mapping[str, str]:
    """What they said; an image that could not tell is named all the same."""
    return {name: _answer(kubectl, _pod_of(name)) for name, *_ in _questions(images)}


def _questions(images: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    for prefix, (name, script) in ASKED.items():
        if found := [image for image in images if image.startswith(prefix)]:
            yield name, found[0], script


def _answer(kubectl: Kubectl, pod: str) -> str:
    ended = "--for=jsonpath={.status.phase}=Succeeded"
    kubectl(
        *("wait", f"pod/{pod}", ended, f"--timeout={ANSWER_SECONDS}s"),
        check=False,
        timeout_seconds=ANSWER_SECONDS + 10,
    )
    return kubectl("logs", pod, check=False).stdout.strip() or "that doesn't tell its version"


def _pod_of(name: str) -> str:
    return f"version-of-{name.lower().replace(' ', '-')}"
