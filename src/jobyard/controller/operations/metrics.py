"""What the controller counts and measures, for Prometheus.

The parts of the controller tell `Metrics` what happened; `serving` asks it for the text.
Decides names, labels and buckets. Labels are closed sets (kinds, phases, verbs, status codes)
and never names of jobs or namespaces: the number of series doesn't grow with the number of
jobs. Each `Metrics` has a registry of its own, so that two controllers can be in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from jobyard.api.parts.status import Phase
from jobyard.controller.operations.measuring import Meter
from jobyard.plan.lowering.table import JOB_KINDS

# How many jobs there are by kind and phase; what isn't in it counts as none.
JobCounts = Mapping[tuple[str, str], int]

VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_LABELS: Final = tuple(kind.name for kind in JOB_KINDS)
PHASES: Final = tuple(phase.value for phase in Phase)
OTHER: Final = "other"

# A pass of a small job takes a millisecond; a slow one is the job of thousands of replicas.
_PASS_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_REQUEST_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# Pulling an image takes minutes, and waiting for a free cluster hours.
_START_BUCKETS: Final = (0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600)


class Metrics(Meter):
    """The controller's metrics; each method is told of one thing that happened."""

    def __init__(self) -> None:
        # A second series for each one, with the moment it was made: of no use to anybody here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry()
        self._jobs = _Jobs()
        registry.register(self._jobs)
        ProcessCollector(registry=registry)
        self._reconciles = Histogram(
            "jobyard_reconcile_duration_seconds",
            "How long a pass over one job took",
            ["kind"],
            buckets=_PASS_BUCKETS,
            registry=registry,
        )
        self._errors = _counter(
            registry, "jobyard_reconcile_errors", "Passes over a job that failed and are repeated"
        )
        self._depth = Gauge(
            "jobyard_queue_depth", "Jobs that wait for a pass at this moment", registry=registry
        )
        self._waits = Histogram(
            "jobyard_queue_wait_seconds",
            "How long a job waited for its pass",
            buckets=_PASS_BUCKETS,
            registry=registry,
        )
        self._pods = _counter(registry, "jobyard_pods_created", "Pods made")
        self._restarts = _counter(registry, "jobyard_restarts", "Restarts of replicas")
        self._starts = Histogram(
            "jobyard_job_start_duration_seconds",
            "Time from the creation of a job until it ran",
            ["kind"],
            buckets=_START_BUCKETS,
            registry=registry,
        )
        self._requests = Counter(
            "jobyard_api_requests",
            "Requests to the API server; code 0 means that there was no answer",
            ["verb", "code"],
            registry=registry,
        )
        self._latencies = Histogram(
            "jobyard_api_request_duration_seconds",
            "Time until the API server answered, or until a watch began",
            ["verb"],
            buckets=_REQUEST_BUCKETS,
            registry=registry,
        )
        self._called: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._leader = Gauge(
            "jobyard_leader", "1 while this process leads, 0 while it stands by", registry=registry
        )
        # A series that appears with its first event hides that event from rate().
        for kind in _LABELS:
            for metric in (self._reconciles, self._errors, self._pods, self._restarts):
                metric.labels(kind)
            self._starts.labels(kind)

    def count_jobs_with(self, source: Callable[[], JobCounts]) -> None:
        """Ask `source` for the number of jobs at each scrape."""
        self._jobs.source = source

    def reconciled(self, kind: str, seconds: float) -> None:
        """A pass over one job has ended, well or not."""
        self._reconciles.labels(_known(kind)).observe(seconds)

    def failed(self, kind: str) -> None:
        """A pass over one job has failed."""
        self._errors.labels(_known(kind)).inc()

    def queued(self, depth: int) -> None:
        """So many jobs wait for a pass now."""
        self._depth.set(depth)

    def waited(self, seconds: float) -> None:
        """A job has waited for so long until its pass began."""
        self._waits.observe(seconds)

    def created_pods(self, kind: str, count: int) -> None:
        """So many pods were made."""
        self._pods.labels(_known(kind)).inc(count)

    def restarted(self, kind: str, count: int) -> None:
        """So many restarts were counted."""
        self._restarts.labels(_known(kind)).inc(count)

    def started(self, kind: str, seconds: float) -> None:
        """A job runs, so long after it was created."""
        # The two moments may come from different machines.
        self._starts.labels(_known(kind)).observe(max(0.0, seconds))

    def called(self, verb: str, code: int, seconds: float) -> None:
        """The API server has answered, or (code 0) not; fits `Transport(observe=…)`."""
        label = verb if verb in VERBS else OTHER
        counted = code if code == 0 or 100 <= code < 600 else -1
        # Finding a metric by its labels takes as long as counting does, thousands of times.
        found = self._called.get((label, counted))
        if found is None:
            requests = self._requests.labels(label, OTHER if counted < 0 else str(counted))
            found = self._called[label, counted] = requests, self._latencies.labels(label)
        requests, latencies = found
        requests.inc()
        latencies.observe(seconds)

    def leading(self, is_leading: bool) -> None:
        """This process leads from now on, or no longer does."""
        self._leader.set(1 if is_leading else 0)

    def exposition(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)


class _Jobs(Collector):
    """Jobs by kind and phase, counted when somebody asks."""

    def __init__(self) -> None:
        self.source: Callable[[], JobCounts] = dict

    def describe(self) -> Iterator[GaugeMetricFamily]:
        # Registering must not ask the source, which isn't there yet.
        yield self._family()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        # Every pair has a series: what is zero now would otherwise keep its last value.
        counts = dict.fromkeys(((kind, phase) for kind in _LABELS for phase in PHASES), 0)
        for (kind, phase), count in self.source().items():
            counts[_known(kind), phase if phase in PHASES else Phase.UNKNOWN] += count
        family = self._family()
        for pair, count in counts.items():
            family.add_metric(pair, count)
        yield family

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily("jobyard_jobs", "Jobs by kind and phase", labels=("kind", "phase"))


def _counter(registry: CollectorRegistry, name: str, text: str) -> Counter:
    return Counter(name, text, ["kind"], registry=registry)


def _known(kind: str) -> str:
    assert kind in _LABELS, f"metrics: {kind} is not a kind of job; a label must be bounded"
    return kind
