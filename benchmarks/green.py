"""Which state of the code last passed its tests: `make test` notes it, benchmarks of any other state refuse to run.

python benchmarks/green.py     note the state that lies here now
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTE = ROOT / "build" / "green"
TESTED = ("src", "native", "tests", "pyproject.toml", "constraints.txt")


def state() -> str:
    """A hash over every file that the tests speak of, as it lies here, committed or not."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *TESTED]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    digest = hashlib.sha256()
    for name in sorted(filter(None, names)):
        path = ROOT / name
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"absent")
    return digest.hexdigest()


def is_green() -> bool:
    """Whether the code as it lies here has passed its tests."""
    return NOTE.is_file() and NOTE.read_text() == state()


def main() -> None:
    if not (ROOT / ".git").exists():
        sys.exit(0)  # a release unpacked: nothing tells its files from others
    NOTE.parent.mkdir(exist_ok=True)
    NOTE.write_text(state())


if __name__ == "__main__":
    main()
