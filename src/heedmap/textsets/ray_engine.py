"""Shards on a Ray cluster: a Ray Data pipeline whose pool of actors holds the model, on a running cluster or here.

Ray Data would read the whole source by itself, on any node; but the caller alone can surely read it, and one text at a
time. So a task of the pipeline takes shards out of a queue, which the caller fills no faster than outcomes come. The
pipeline runs in an actor: its log and bars are not the caller's, who may be a Ray client outside the cluster.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import torch

from heedmap.errors import HeedmapError, InputError, ModelError, UnsupportedError
from heedmap.textsets.engines import Engine
from heedmap.textsets.measurer import Measurer
from heedmap.textsets.outcome import Outcome
from heedmap.textsets.records import Job
from heedmap.textsets.settings import WHERE, Settings

_IN_FLIGHT = 2
"""Shards of each actor, so that the next one is there when it is done."""
_TRIES = 3
"""How often a shard is done again whose actor died."""
_RESTARTS = 20
"""How often an actor is started again: one that dies while it loads the model would else do so for ever."""


def library() -> Any:
    """The module `ray`, with `ray.data`. Raises UnsupportedError where either is not installed."""
    try:
        import_module("ray.data")
        return import_module("ray")
    except ImportError as error:
        raise UnsupportedError(
            WHERE,
            expected="the package ray with Ray Data for --engine ray",
            got=f"none ({error})" if error.name != "ray" else "none",
            do='pip install "heedmap[ray]"',
        ) from error


def cluster(settings: Settings, workers: int, threads: int | None = None, address: str | None = None) -> Engine:
    """On Ray: `workers` actors, each with a GPU where the cluster has so many, else with `threads` cores.

    Results come back to the caller, which writes them: the nodes need the model, but no common file system. An actor
    whose node dies is started again elsewhere and its shards alone are done again, up to three times.

    Args:
        address: of a running cluster (`auto`, `host:6379`, `ray://host:10001`); None starts one on this machine.

    Raises:
        UnsupportedError: ray is not installed.
        InputError: more threads than any node has cores.
        ModelError: the cluster cannot be reached, or actors die again and again.
    """
    ray = library()

    def run(jobs: Iterator[Job]) -> Iterator[Outcome]:
        own = not ray.is_initialized()
        if own:
            _connect(ray, address, workers)
        held: list[Any] = []
        try:
            each = threads or max(1, torch.get_num_threads() // workers)
            cores = 1 if address is None else _cores(ray, each, asked=threads is not None)
            needs = {"num_cpus": cores, "max_restarts": _RESTARTS, "max_task_retries": _TRIES}
            if int(ray.cluster_resources().get("GPU", 0)) >= workers:
                needs["num_gpus"] = 1
            waiting = import_module("ray.util.queue").Queue(actor_options={"num_cpus": 0})
            held.append(waiting.actor)
            pipeline = ray.remote(Pipeline).options(num_cpus=0).remote(settings, each, workers, needs, waiting)
            held.append(pipeline)
            yield from _streamed(ray, waiting, pipeline, jobs, _IN_FLIGHT * workers)
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(error, ray.exceptions.RayTaskError) and not isinstance(cause, ray.exceptions.RayError):
                raise  # a defect, told with its trace
            raise ModelError(
                WHERE,
                expected="a Ray cluster whose actors live",
                got=" ".join(str(cause or error).split())[:300],
                do="run the same command again: finished shards are kept",
            ) from error
        finally:
            for actor in reversed(held):  # the actors of a pipeline end with it
                ray.kill(actor)
            if own:
                ray.shutdown()

    return run


def _connect(ray: Any, address: str | None, workers: int) -> None:
    settings: dict[str, Any] = {"address": address or "local", "log_to_driver": False, "logging_level": "ERROR"}
    if address is None:  # "local" by name: else Ray would join whatever cluster runs on this machine
        settings |= {"num_cpus": workers, "include_dashboard": False}
    try:
        _knock(address)
        ray.init(**settings)
    except (RuntimeError, ValueError, OverflowError, OSError) as error:
        raise ModelError(
            WHERE,
            expected=f"a Ray cluster at {address}" if address else "to start Ray on this machine",
            got=" ".join(str(error).split())[:240],
            do="check --address; `ray status` there says whether it runs" if address else None,
        ) from error


def _knock(address: str | None) -> None:
    """Raise OSError where nothing listens at an address: Ray itself would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _cores(ray: Any, each: int, *, asked: bool) -> int:
    """Cores that an actor reserves: one that reserves more than any node has would wait for ever."""
    most = max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)
    if asked and each > most:
        raise InputError(
            WHERE, expected=f"at most {most} threads a worker, the cores of the largest node", got=f"{each}"
        )
    return min(each, most)


def _streamed(ray: Any, waiting: Any, pipeline: Any, jobs: Iterator[Job], ahead: int) -> Iterator[Outcome]:
    """Put shards in as outcomes come out, so that never more than `ahead` are under way."""
    under_way = 0
    for job in jobs:
        if under_way == ahead:
            yield _outcome(ray.get(pipeline.next.remote()))
            under_way -= 1
        waiting.put(pickle.dumps(job))
        under_way += 1
    waiting.put(None)
    for _ in range(under_way):
        yield _outcome(ray.get(pipeline.next.remote()))


def _outcome(content: bytes) -> Outcome:
    found = pickle.loads(content)
    if isinstance(found, HeedmapError):
        raise found
    return found


class Pipeline:
    """Runs the pipeline of Ray Data on the cluster and hands out what its actors found, one shard a call."""

    def __init__(self, settings: Settings, threads: int, workers: int, needs: dict[str, int], waiting: Any) -> None:
        ray, data = library(), import_module("ray.data")
        strategies = import_module("ray.util.scheduling_strategies")
        context = data.DataContext.get_current()
        context.target_max_block_size = 1  # every shard goes on by itself, at once
        context.enable_progress_bars = False
        here = strategies.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        found = (
            data.from_items([{"queue": 0}])
            # what was taken out of the queue cannot be taken again: it lives and dies with this actor's node
            .map_batches(_taken, batch_size=1, fn_args=(waiting,), num_cpus=0, max_retries=0, scheduling_strategy=here)
            .map_batches(
                Worker,
                batch_size=1,
                fn_constructor_args=(settings, threads),
                compute=data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=_IN_FLIGHT),
                **needs,
            )
        )
        self._found = iter(found.iter_batches(batch_size=1, batch_format="numpy", prefetch_batches=0))

    def next(self) -> bytes:
        """The next outcome, or the error that a worker met, pickled."""
        return next(self._found)["outcome"][0]


def _taken(_: Any, waiting: Any) -> Iterator[dict[str, Any]]:
    """Shards out of the queue, each a batch of its own, until there is none."""
    while (job := waiting.get()) is not None:
        yield {"job": np.array([job], dtype=object)}


class Worker:
    """What each actor of the pool holds: the model, or why there is none, which is told with the first shard."""

    def __init__(self, settings: Settings, threads: int) -> None:
        self._held: Measurer | HeedmapError
        try:
            self._held = Measurer(settings, threads=threads)
        except HeedmapError as error:
            self._held = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"outcome": np.array([pickle.dumps(self._one(pickle.loads(job))) for job in batch["job"]], dtype=object)}

    def _one(self, job: Job) -> Outcome | HeedmapError:
        if isinstance(self._held, HeedmapError):
            return self._held
        try:
            return self._held.shard(job)
        except HeedmapError as error:
            return error
