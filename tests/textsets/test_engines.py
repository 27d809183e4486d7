"""The same set, whoever measures its shards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from tests.made_sets import json_lines, texts

from heedmap.errors import InputError, ModelError
from heedmap.textsets.engines import processes
from heedmap.textsets.records import jobs_of
from heedmap.textsets.scan import scan
from heedmap.textsets.settings import Settings
from heedmap.textsets.sources import Texts


def tables(folder: Path) -> dict[str, bytes]:
    """Every file of a set but its JSON, which says when it was made."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def given(model_folder, tmp_path_factory) -> dict[str, Any]:
    source = json_lines(tmp_path_factory.mktemp("given") / "texts.jsonl", [*texts(11, 12), ""])
    return {"texts": source, "model": str(model_folder()), "shard_texts": 3, "threads": 1}


@pytest.fixture(scope="module")
def alone(given, tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("alone") / "set"
    scan(**given, out=out)
    return tables(out)


def test_two_processes_make_the_set_of_one(given, alone, tmp_path: Path) -> None:
    scan(**given, out=tmp_path / "set", workers=2)
    assert tables(tmp_path / "set") == alone


def test_two_actors_of_ray_make_the_set_of_one(given, alone, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="make test-ray installs it")
    scan(**given, out=tmp_path / "set", workers=2, engine="ray")
    assert tables(tmp_path / "set") == alone


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_a_worker_that_is_killed_is_told_and_what_is_done_is_kept(given, alone, tmp_path: Path) -> None:
    def fatal(number: int, stage: str, shards: int, count: int) -> None:
        if stage == "measure" and shards == 1:
            children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
            for server in children.read_text().split():
                for worker in Path(f"/proc/{server}/task/{server}/children").read_text().split():
                    os.kill(int(worker), number)

    if not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():
        pytest.skip("needs Linux's list of children")
    with pytest.raises(ModelError, match="2 workers that live until the end"):
        scan(**given, out=tmp_path / "set", workers=2, progress=lambda *told: fatal(signal.SIGKILL, *told))
    scan(**given, out=tmp_path / "set")
    assert tables(tmp_path / "set") == alone


def test_what_fails_in_a_worker_is_told_as_it_was(given, tmp_path: Path) -> None:
    engine = processes(Settings(model=str(tmp_path / "nothing")), workers=2, threads=1)
    with pytest.raises(ModelError, match="nothing at"):
        list(engine(jobs_of(Texts(str(given["texts"])), 3)))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_workers_end_with_the_process_that_started_them(given, tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import os
        from heedmap.textsets.scan import scan
        def tell(stage, shards, texts):
            if stage == "measure" and shards == 1:
                server = open(f"/proc/{{os.getpid()}}/task/{{os.getpid()}}/children").read().split()
                workers = [open(f"/proc/{{one}}/task/{{one}}/children").read() for one in server]
                print(" ".join(workers), flush=True)
                os.kill(os.getpid(), 9)
        if __name__ == "__main__":
            scan({str(given["texts"])!r}, {given["model"]!r}, out={str(tmp_path / "set")!r}, shard_texts=1, workers=2,
                 threads=1, progress=tell)
        """
    )
    (tmp_path / "program.py").write_text(program)
    result = subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == -9, result.stderr
    workers = [int(number) for number in result.stdout.split()]
    assert len(workers) == 2
    for _ in range(100):
        alive = [number for number in workers if _runs(number)]
        if not alive:
            break
        time.sleep(0.1)
    assert alive == []


def _runs(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


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
