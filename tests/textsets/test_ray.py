"""On Ray the same set, whatever becomes of its actors; each test needs a Ray of two workers on this machine."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.made_sets import json_lines, tables, texts

from heedmap.errors import InputError, ModelError, UnsupportedError
from heedmap.textsets import ray_engine
from heedmap.textsets.ray_engine import cluster
from heedmap.textsets.records import jobs_of
from heedmap.textsets.scan import scan
from heedmap.textsets.settings import Settings
from heedmap.textsets.sources import Texts

NEEDED = "make test-ray installs it"


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A Ray that runs already, which a scan takes and leaves as it is."""
    library = pytest.importorskip("ray", reason=NEEDED)
    library.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield library
    library.shutdown()


@pytest.fixture(scope="module")
def given(model_folder, tmp_path_factory) -> dict[str, Any]:
    source = json_lines(tmp_path_factory.mktemp("given") / "texts.jsonl", [*texts(11, 12), ""])
    return {"texts": source, "model": str(model_folder()), "shard_texts": 1, "threads": 1}


def actors() -> list[int]:
    """Processes of the pool that descend from this one."""
    parents, names = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                names[int(folder.name)] = (folder / "cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue

    def ours(number: int) -> bool:
        while number in parents and number != os.getpid():
            number = parents[number]
        return number == os.getpid()

    return [number for number, name in names.items() if name.startswith("ray::MapWorker") and ours(number)]


def gone() -> bool:
    """Whether the actors of the pool end, soon after what they worked for."""
    for _ in range(100):
        if not actors():
            return True
        time.sleep(0.1)
    return False


def test_a_ray_of_its_own_makes_the_set_of_one(given, alone, tmp_path: Path) -> None:
    library = pytest.importorskip("ray", reason=NEEDED)
    before = library.is_initialized()
    scan(**given, out=tmp_path / "set", workers=2, engine="ray")
    assert tables(tmp_path / "set") == alone
    assert library.is_initialized() == before


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_a_shard_of_an_actor_that_is_killed_is_done_again_alone(ray, given, alone, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    def fatal(stage: str, shards: int, count: int) -> None:
        if stage == "measure":
            told.append((shards, count))
            if shards == 2:
                os.kill(actors()[0], signal.SIGKILL)

    scan(**given, out=tmp_path / "set", workers=2, engine="ray", progress=fatal)
    assert tables(tmp_path / "set") == alone
    assert told == [(number, number) for number in range(1, 13)]  # each once
    assert gone()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_what_interrupts_the_caller_ends_the_actors_and_keeps_what_is_done(ray, given, alone, tmp_path: Path) -> None:
    def interrupt(stage: str, shards: int, count: int) -> None:
        if shards == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(**given, out=tmp_path / "set", workers=2, engine="ray", progress=interrupt)
    assert gone()
    scan(**given, out=tmp_path / "set")
    assert tables(tmp_path / "set") == alone


def test_what_fails_in_an_actor_is_told_as_it_was(ray, given, tmp_path: Path) -> None:
    engine = cluster(Settings(model=str(tmp_path / "nothing")), workers=2, threads=1)
    with pytest.raises(ModelError, match="nothing at"):
        list(engine(jobs_of(Texts(str(given["texts"])), 3)))
    with pytest.raises(InputError, match="layers"):
        scan(**given, out=tmp_path / "set", layers=[9], workers=2, engine="ray")
    assert ray.is_initialized()


class DiesLoading(Settings):
    """Kills the process that reads its model's name, as want of memory would."""

    deadly = "model"

    def __getattribute__(self, name: str) -> Any:
        if name == super().__getattribute__("deadly"):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getattribute__(name)


class DiesMeasuring(DiesLoading):
    """Kills the process that has loaded the model and cuts texts."""

    deadly = "max_tokens"


@pytest.mark.parametrize("when", [DiesLoading, DiesMeasuring])
def test_actors_that_die_again_and_again_are_told(ray, given, monkeypatch: pytest.MonkeyPatch, when) -> None:
    monkeypatch.setattr(ray_engine, "_RESTARTS", 2)
    monkeypatch.setattr(ray_engine, "_TRIES", 1)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    engine = cluster(when(model=given["model"]), workers=2, threads=1)
    with pytest.raises(ModelError, match=r"a Ray cluster whose actors live, got .*; run the same command again"):
        list(engine(jobs_of(Texts(str(given["texts"])), 3)))
    assert gone()


def test_an_actor_reserves_no_more_cores_than_a_node_has(ray) -> None:
    assert ray_engine._cores(ray, 64, asked=False) == 2
    with pytest.raises(InputError, match="at most 2 threads a worker, the cores of the largest node, got 3"):
        ray_engine._cores(ray, 3, asked=True)


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9"])
def test_where_no_cluster_listens_is_told_at_once(address: str) -> None:
    library = pytest.importorskip("ray", reason=NEEDED)
    with pytest.raises(ModelError, match=f"a Ray cluster at {address}, got .*refused; check --address"):
        ray_engine._connect(library, address, 2)


@pytest.mark.parametrize("lacking", ["ray", "ray.data"])
def test_without_the_library_the_way_out_is_named(
    given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setitem(sys.modules, lacking, None)
    with pytest.raises(UnsupportedError, match=r'pip install "heedmap\[ray\]"'):
        scan(**given, out=tmp_path / "set", workers=2, engine="ray")
    assert not (tmp_path / "set" / "shards").exists()
