"""Puts Beam's job servers for Flink and Spark where the SDK of this virtualenv looks first.

The SDK needs a job server of its own version, a jar that it would download when a program is
submitted. Here it comes from the same place, by Beam's own code. A mirror that doesn't carry jars
as big as that has the libraries they are made of; then Maven gets those, and they become one jar.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from apache_beam.utils.subprocess_server import JavaJarServer
from apache_beam.version import __version__ as beam_version

SPARK = "3.5.0"
# The library that takes programs in. It hardly changes, and such mirrors were seen to have it only
# in this version.
JOB_SERVICE = "org.apache.beam:beam-runners-java-job-service:2.65.0"


@dataclass(frozen=True)
class JobServer:
    """A job server as Beam's build calls it, and what it is made of."""

    target: str
    main_class: str
    libraries: tuple[str, ...]


JOB_SERVERS = (
    JobServer(
        ":runners:flink:1.19:job-server:shadowJar",
        "org.apache.beam.runners.flink.FlinkJobServerDriver",
        (f"org.apache.beam:beam-runners-flink-1.19:{beam_version}",),
    ),
    JobServer(
        ":runners:spark:3:job-server:shadowJar",
        "org.apache.beam.runners.spark.SparkJobServerDriver",
        (
            f"org.apache.beam:beam-runners-spark-3:{beam_version}",
            f"org.apache.spark:spark-core_2.12:{SPARK}",
            f"org.apache.spark:spark-sql_2.12:{SPARK}",
            f"org.apache.spark:spark-streaming_2.12:{SPARK}",
        ),
    ),
)


def obtain(servers: Sequence[JobServer]) -> None:
    """Put each where the SDK looks for one that was built beside it."""
    places = {server: Path(JavaJarServer.path_to_dev_beam_jar(server.target)) for server in servers}
    for place in places.values():
        place.parent.mkdir(parents=True, exist_ok=True)
    lacking = []
    for server, place in places.items():
        with tempfile.TemporaryDirectory(dir=place.parent) as work:
            try:
                url = JavaJarServer.path_to_beam_jar(server.target)
                Path(JavaJarServer.local_jar(url, cache_dir=work)).replace(place)
            except RuntimeError as problem:
                print(f"{problem}\nso it is put together by Maven", file=sys.stderr)
                lacking.append(server)
    if lacking:
        with tempfile.TemporaryDirectory(dir=places[lacking[0]].parent) as work:
            for server, jar in zip(lacking, put_together(lacking, Path(work)), strict=True):
                jar.replace(places[server])


def put_together(servers: Sequence[JobServer], work: Path) -> list[Path]:
    """Each job server as one jar made of its libraries and all that those need."""
    mvn = shutil.which("mvn")
    if mvn is None:
        sys.exit("mvn is not there: install Maven")
    folders = [work / f"server{number}" for number, _ in enumerate(servers)]
    (work / "pom.xml").write_text(project("all", [folder.name for folder in folders], ()))
    for folder, server in zip(folders, servers, strict=True):
        folder.mkdir()
        (folder / "pom.xml").write_text(project(folder.name, (), server.libraries))
    # Thousands of small files: what takes the time is to ask for one after the other.
    at_once = ("-Dmaven.artifact.threads=24", "-Daether.connector.basic.threads=24")
    # The order in which Java looks for classes, since libraries may have one in two versions.
    subprocess.run(
        [
            *(mvn, "--batch-mode", "--quiet", "--file", str(work / "pom.xml")),
            *("--threads", str(len(servers)), *at_once),
            f"-Dmaven.repo.local={work / 'repository'}",
            "dependency:build-classpath",
            "-Dmdep.outputFile=${project.basedir}/classpath",
        ],
        check=True,
    )
    for folder, server in zip(folders, servers, strict=True):
        libraries = (folder / "classpath").read_text().strip().split(":")
        with zipfile.ZipFile(
            folder / "made.jar", "w", zipfile.ZIP_DEFLATED, compresslevel=1
        ) as jar:
            merge(libraries, server.main_class, jar)
    return [folder / "made.jar" for folder in folders]


def project(name: str, modules: Sequence[str], libraries: Sequence[str]) -> str:
    """What Maven is asked to resolve; with modules, all that they ask for."""
    asked = "".join(map(dependency, libraries))
    parts = "".join(f"<module>{module}</module>" for module in modules)
    return f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>none</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <packaging>{"pom" if modules else "jar"}</packaging>
  <modules>{parts}</modules>
  <dependencyManagement><dependencies>{dependency(JOB_SERVICE)}</dependencies></dependencyManagement>
  <dependencies>{asked}</dependencies>
</project>
"""


def dependency(library: str) -> str:
    group, artifact, version = library.split(":")
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
    )


def merge(libraries: list[str], main_class: str, jar: zipfile.ZipFile) -> None:
    """Each file once, but for lists of services, of which every library has its own part."""
    jar.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nMain-Class: {main_class}\n")
    seen = {"META-INF/MANIFEST.MF", "module-info.class"}
    services: dict[str, bytes] = {}
    for library in libraries:
        with zipfile.ZipFile(library) as part:
            for name in part.namelist():
                if name.startswith("META-INF/services/") and not name.endswith("/"):
                    services[name] = services.get(name, b"") + part.read(name) + b"\n"
                elif name not in seen and not is_signature(name):
                    seen.add(name)
                    jar.writestr(name, part.read(name))
    for name, text in services.items():
        jar.writestr(name, text)


def is_signature(name: str) -> bool:
    """Of a library alone: it doesn't hold for the whole."""
    return name.startswith("META-INF/") and name.endswith((".SF", ".DSA", ".RSA"))


if __name__ == "__main__":
    obtain(JOB_SERVERS)
