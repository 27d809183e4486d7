"""The same set, whoever measures its shards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.made_sets import json_lines, tables, texts

from heedmap.errors import InputError, ModelError, UnsupportedError
from heedmap.textsets import engines
from heedmap.textsets.crew import Crew, context_of
from heedmap.textsets.engines import processes
from heedmap.textsets.records import jobs_of
from heedmap.textsets.scan import scan
from heedmap.textsets.settings import Settings
from heedmap.textsets.sources import Texts

LISTED = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()


@pytest.fixture(scope="module")
def given(model_folder, tmp_path_factory) -> dict[str, Any]:
    source = json_lines(tmp_path_factory.mktemp("given") / "texts.jsonl", [*texts(11, 12), ""])
    return {"texts": source, "model": str(model_folder()), "shard_texts": 3, "threads": 1}


def test_two_processes_make_the_set_of_one(given, alone, tmp_path: Path) -> None:
    scan(**given, out=tmp_path / "set", workers=2)
    assert tables(tmp_path / "set") == alone


@pytest.mark.skipif(not LISTED, reason="needs Linux's list of children")
def test_a_worker_that_is_killed_is_told_and_what_is_done_is_kept(given, alone, tmp_path: Path) -> None:
    def fatal(stage: str, shards: int, count: int) -> None:
        if stage == "measure" and shards == 1:
            for worker in workers():
                os.kill(worker, signal.SIGKILL)

    with pytest.raises(ModelError, match="2 workers that live until the end"):
        scan(**given, out=tmp_path / "set", workers=2, progress=fatal)
    scan(**given, out=tmp_path / "set")
    assert tables(tmp_path / "set") == alone


def test_what_fails_in_a_worker_is_told_as_it_was(given, tmp_path: Path) -> None:
    engine = processes(Settings(model=str(tmp_path / "nothing")), workers=2, threads=1)
    with pytest.raises(ModelError, match="nothing at"):
        list(engine(jobs_of(Texts(str(given["texts"])), 3)))


def scan_and_die(arguments: dict[str, Any], found: Path) -> None:
    """A scan whose process is killed after the first shard; it writes down its workers before."""

    def tell(stage: str, shards: int, texts: int) -> None:
        if stage == "measure" and shards == 1:
            found.write_text(" ".join(map(str, workers())))
            os.kill(os.getpid(), signal.SIGKILL)

    scan(**arguments, workers=2, progress=tell)


def workers() -> list[int]:
    """Processes that the servers which this process started have started."""
    children = "/proc/{0}/task/{0}/children"
    servers = Path(children.format(os.getpid())).read_text().split()
    return [int(number) for server in servers for number in Path(children.format(server)).read_text().split()]


@pytest.mark.skipif(not LISTED, reason="needs Linux's list of children")
def test_workers_end_with_the_process_that_started_them(given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # where the process finds this file
    arguments = given | {"out": tmp_path / "set", "shard_texts": 1}
    process = context_of(engines.__name__).Process(target=scan_and_die, args=(arguments, tmp_path / "workers"))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    numbers = [int(number) for number in (tmp_path / "workers").read_text().split()]
    assert len(numbers) == 2
    for _ in range(100):
        alive = [number for number in numbers if _runs(number)]
        if not alive:
            break
        time.sleep(0.1)
    assert alive == []


def _runs(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def talking(size: int) -> Any:
    """A worker whose answers are too long for any pipe to hold."""
    return lambda task: bytes(size) if task else raise_(task)


def raise_(task: Any) -> None:
    raise LookupError(f"no {task}")


def test_a_worker_that_is_killed_in_the_middle_of_its_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    crew = Crew(context_of(engines.__name__), 2, talking, 50_000_000)
    answers = crew.results(iter(range(1, 100)))
    assert len(next(answers)) == 50_000_000
    time.sleep(1)  # both are at their next answer, which nobody reads
    for worker in crew._workers:
        worker.process.kill()
    with pytest.raises(ModelError, match="2 workers that live until the end"):
        list(answers)


def test_an_error_comes_back_as_it_was_with_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    crew = Crew(context_of(engines.__name__), 2, talking, 10)
    with pytest.raises(LookupError, match="no 0") as raised:
        list(crew.results(iter([1, 2, 0, 3])))
    assert "in raise_" in raised.value.__notes__[0]
    assert all(worker.process.exitcode is not None for worker in crew._workers)


def test_what_goes_wrong_with_the_tasks_is_told_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])

    def tasks() -> Iterator[int]:
        yield from (1, 2, 3)
        raise ConnectionResetError("the hub")

    with pytest.raises(ConnectionResetError, match="the hub"):
        list(Crew(context_of(engines.__name__), 2, talking, 10).results(tasks()))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"engine": "spark"}, "an engine among local, ray, got 'spark'"),
        ({"address": "auto"}, "an address with the engine ray"),
        ({"workers": 0}, "workers"),
        ({"keep": -1}, "keep"),
        ({"budget": 0}, "budget as a whole number of 1 or more, got 0"),
        ({"statistics": ["argmin"]}, "'argmin'"),
        ({"statistics": "all"}, "statistics that give a head one number in each text, got 'all'"),
        ({"statistics": ["top_keys"]}, "got 'top_keys'"),
        ({"limit": 0}, "a limit of 1 or more texts"),
        ({"by": "word"}, "by among line, file, got 'word'"),
    ],
)
def test_what_cannot_be_is_refused_before_a_model_is_loaded(given, tmp_path: Path, change, line: str) -> None:
    with pytest.raises(InputError) as caught:
        scan(**given | change, out=tmp_path / "set")
    assert line in str(caught.value)
    assert not (tmp_path / "set").exists()


def test_a_model_in_memory_is_measured_in_one_process(given, tmp_path: Path, tiny_model) -> None:
    with pytest.raises(InputError, match="a model by name or folder for several workers"):
        scan(**given | {"model": tiny_model("bert")}, out=tmp_path / "set", workers=2)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C reaches a group of processes here")
@pytest.mark.parametrize("after", [0.0, 1.5, 3.0, 4.5])
def test_an_interruption_while_workers_start_is_one_line(after: float, tmp_path: Path, model_folder) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"Sentence {number} of a set that takes a while.\n" for number in range(20_000)))
    command = [sys.executable, "-m", "heedmap", "scan", texts, "--model", model_folder(), "--workers", "2"]
    scanning = subprocess.Popen(
        [*command, "--shard-texts", "500", "--out", tmp_path / "set"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "set" / "plan.json").exists():  # from then on Ctrl-C is the scan's
        time.sleep(0.05)
    time.sleep(after)
    os.killpg(scanning.pid, signal.SIGINT)
    told = scanning.communicate(timeout=60)[1].splitlines()
    assert scanning.returncode == 130
    assert told[-1] == "[heedmap] interrupted"
    assert all(line.startswith("kept in ") for line in told[:-1]), told


def test_without_ray_nothing_is_begun(given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(UnsupportedError, match=r"the package ray with Ray Data .*pip install"):
        scan(**given, out=tmp_path / "set", engine="ray")
    assert not (tmp_path / "set").exists()
