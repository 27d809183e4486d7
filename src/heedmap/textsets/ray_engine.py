"""Shards on a Ray cluster: a pool of actors that hold the model, on a running cluster or a local one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch

from heedmap.errors import HeedmapError, ModelError, UnsupportedError
from heedmap.textsets.engines import Engine
from heedmap.textsets.measurer import Measurer
from heedmap.textsets.outcome import Outcome
from heedmap.textsets.records import Job
from heedmap.textsets.settings import WHERE, Settings

_IN_FLIGHT = 2
"""Shards of each actor, so that the next one is there when it is done."""
_TRIES = 3


def library() -> Any:
    """The module `ray`. Raises UnsupportedError where it is not installed."""
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            WHERE, expected="the package ray for --engine ray", got="none", do='pip install "heedmap[ray]"'
        ) from error


def cluster(settings: Settings, workers: int, threads: int | None = None, address: str | None = None) -> Engine:
    """On Ray: `workers` actors, each with a GPU where the cluster has so many, else with `threads` cores.

    Results come back to the caller, which writes them: the nodes need the model, but no common file system. An actor
    whose node dies is started again elsewhere and its shards are done again, up to three times.

    Args:
        address: of a running cluster (`auto`, `ray://host:10001`); None starts one on this machine.

    Raises:
        UnsupportedError: ray is not installed.
        ModelError: the cluster cannot be reached, or an actor dies again and again.
    """
    ray = library()

    def run(jobs: Iterator[Job]) -> Iterator[Outcome]:
        own = not ray.is_initialized()
        if own:
            _connect(ray, address, workers)
        actors: list[Any] = []
        try:
            gpus = int(ray.cluster_resources().get("GPU", 0)) >= workers
            each = threads or max(1, torch.get_num_threads() // workers)
            kind = ray.remote(Measurer).options(
                num_cpus=each if address is not None else 1,
                num_gpus=1 if gpus else 0,
                max_restarts=-1,
                max_task_retries=_TRIES,
            )
            actors = [kind.remote(settings, None, each) for _ in range(workers)]
            yield from _shared(ray, actors, jobs)
        except HeedmapError:
            raise
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, HeedmapError):
                raise error.cause from None
            raise
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error.__cause__
            if isinstance(cause, HeedmapError):
                raise cause from None
            raise ModelError(
                WHERE,
                expected="a Ray cluster whose actors live",
                got=" ".join(str(error).split())[:300],
                do="run the same command again: finished shards are kept",
            ) from error
        finally:
            for actor in actors:
                ray.kill(actor)
            if own:
                ray.shutdown()

    return run


def _connect(ray: Any, address: str | None, workers: int) -> None:
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    if address is not None:
        settings = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    else:
        settings["num_cpus"] = workers
    try:
        ray.init(**settings)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ModelError(
            WHERE,
            expected=f"a Ray cluster at {address}" if address else "to start Ray on this machine",
            got=" ".join(str(error).split())[:240],
            do="check --address; `ray status` there says whether it runs" if address else None,
        ) from error


def _shared(ray: Any, actors: list[Any], jobs: Iterator[Job]) -> Iterator[Outcome]:
    """Give every actor work as long as there is some; yield what is done."""
    busy: dict[Any, Any] = {}
    free = actors * _IN_FLIGHT
    for job in jobs:
        if not free:
            done = ray.wait(list(busy), num_returns=1)[0][0]
            free.append(busy.pop(done))
            yield ray.get(done)
        actor = free.pop(0)
        busy[actor.shard.remote(job)] = actor
    while busy:
        done = ray.wait(list(busy), num_returns=1)[0][0]
        del busy[done]
        yield ray.get(done)
