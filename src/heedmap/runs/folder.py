"""Folders that appear whole or not at all: written beside their place, flushed, locked, renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from heedmap.errors import RunError, StorageError
from heedmap.runs.manifest import is_run, listed_files
from heedmap.runs.schema import FILES, WIDER

if sys.platform != "win32":
    import fcntl

PARTIAL = ".partial"
REPLACED = ".replaced"


def partial_path(path: Path) -> Path:
    """Where the run at `path` is written until it is whole."""
    return path.with_name(path.name + PARTIAL)


def replaced_path(path: Path) -> Path:
    """Where the earlier run at `path` waits while the new one takes its place."""
    return path.with_name(path.name + REPLACED)


@contextlib.contextmanager
def storage(where: str, path: Path) -> Iterator[None]:
    """Turn the operating system's refusals (disk full, no permission) into a StorageError."""
    try:
        yield
    except (RunError, StorageError):
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        way = "free some space or choose another folder" if full else "choose another folder"
        above = next((place for place in path.parents if os.path.lexists(place)), path)
        in_the_way = os.path.isfile(above)  # noqa: PTH113 — Path raises where it may not look
        raise StorageError(
            where,
            expected=f"to write {path}",
            got=f"{above}, which is a file" if in_the_way else error.strerror or str(error),
            do=f"{way}; nothing half-written is left",
        ) from error


def check_target(path: Path, *, overwrite: bool, where: str) -> None:
    """Raise RunError where a run may not be written: something stands there that is not ours to replace.

    A link is followed: it may lead to a run, or to a place where one may be made.
    """
    if path.name in ("", ".."):
        raise RunError(
            where, expected="a name for the folder of the run", got=f"'{path}'", do="choose one, such as runs/cat"
        )
    place = Path(os.path.realpath(path))
    if path.name.endswith((PARTIAL, REPLACED)) or place.name.endswith((PARTIAL, REPLACED)):
        raise RunError(
            where,
            expected=f"a folder name that does not end in {PARTIAL} or {REPLACED}",
            got=str(path),
            do="choose another name; these belong to runs that are being written",
        )
    if not os.path.lexists(place) or _is_empty(place):
        return
    if not overwrite:
        raise RunError(
            where,
            expected="a path where nothing stands yet",
            got=f"{path}, which exists",
            do="choose another folder, or overwrite=True if it is a run that may go",
        )
    if not is_run(place):
        raise RunError(
            where,
            expected="a heedmap run to replace",
            got=f"{path}, which is none",
            do="choose another folder; heedmap replaces nothing but its own runs",
        )
    if foreign := _foreign(place):
        raise RunError(
            where,
            expected=f"a run to replace that holds a run's files only, at {path}",
            got=f"{foreign} in it",
            do="move it elsewhere or choose another folder; heedmap deletes nothing that it did not write",
        )


def _is_empty(path: Path) -> bool:
    """Whether this is a folder with nothing in it, which a run may take the place of."""
    return path.is_dir() and not any(path.iterdir())


def _foreign(folder: Path) -> str | None:
    """The name of something in a folder that heedmap did not write there."""
    known = FILES | listed_files(folder)
    for item in sorted(folder.iterdir()):
        if item.name.removesuffix(WIDER) not in known or not stat.S_ISREG(item.lstat().st_mode):
            return item.name
    return None


class PartialFolder:
    """The folder `NAME.partial` that one writer fills; a lock that dies with its process keeps others out."""

    def __init__(self, path: Path, *, where: str) -> None:
        """Make the folder, or take over what a dead process left there."""
        self.target = path
        self.path = partial_path(path)
        self._where = where
        self._made: list[Path] = []
        try:
            with storage(where, self.path):
                self._made = _make_folders(path.parent)
                self._lock = self._make()
                self._recover()
        except BaseException:
            _remove_empty(self._made)
            raise

    def _make(self) -> int:
        while True:
            with contextlib.suppress(FileExistsError):
                self.path.mkdir()
            if not stat.S_ISDIR(self.path.lstat().st_mode):
                raise self._in_the_way("which is no folder")
            try:
                lock = _lock(self.path)
            except BlockingIOError:
                raise RunError(
                    self._where,
                    expected=f"to be the only writer of {self.target}",
                    got=f"another one at work in {self.path}",
                    do="wait for it or choose another folder",
                ) from None
            except FileNotFoundError:
                continue  # its writer finished between the two calls
            if foreign := _foreign(self.path):
                _unlock(lock)
                raise self._in_the_way(f"which holds {foreign}")
            if lock is None or _same(lock, self.path):
                break
            _unlock(lock)
        for item in self.path.iterdir():
            item.unlink()
        return -1 if lock is None else lock

    def _in_the_way(self, what: str) -> RunError:
        return RunError(
            self._where,
            expected=f"{self.path} to be free or left over from an interrupted run",
            got=f"{self.path}, {what}",
            do="move it away or choose another folder",
        )

    def _recover(self) -> None:
        """Finish what a killed writer began: put the earlier run back, or remove it if the new one stands."""
        replaced = replaced_path(self.target)
        if is_run(replaced) and not _foreign(replaced):
            if os.path.lexists(self.target):
                shutil.rmtree(replaced)
            else:
                replaced.rename(self.target)

    def publish(self, *, overwrite: bool) -> None:
        """Give the folder its final name, in place of an earlier run if that may go."""
        check_target(self.target, overwrite=overwrite, where=self._where)
        replaced = replaced_path(self.target)
        with storage(self._where, self.target):
            sync_folder(self.path)
            if _is_empty(self.target):
                self.target.rmdir()
            earlier = self.target.exists()
            try:
                if earlier:
                    self.target.rename(replaced)
                self.path.rename(self.target)
            except BaseException:
                if earlier and not os.path.lexists(self.target):
                    replaced.rename(self.target)
                raise
            sync_folder(self.target.parent)
            self._release()
            if earlier:
                shutil.rmtree(replaced)

    def discard(self) -> None:
        """Remove the folder and all that was written."""
        if self._lock is None:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        _remove_empty(self._made)
        self._release()

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        _unlock(lock)


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it that are missing; those that were made, the innermost first."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _remove_empty(folders: list[Path]) -> None:
    """Remove these folders, innermost first, as far as nothing else has been put into them."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _lock(folder: Path) -> int | None:
    """Lock a folder against other writers; the lock goes when its process does, however it ends."""
    if sys.platform == "win32":
        return None  # open files cannot be removed there, so a second writer fails on them
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _unlock(lock: int | None) -> None:
    if lock is not None and lock >= 0:
        os.close(lock)


def _same(lock: int, folder: Path) -> bool:
    """Whether the locked folder is still the one at this path."""
    try:
        now = folder.lstat()
    except FileNotFoundError:
        return False
    held = os.fstat(lock)
    return (held.st_dev, held.st_ino) == (now.st_dev, now.st_ino)


def sync_file(path: Path) -> None:
    """Flush a closed file to the disk."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """Flush a folder's list of names to the disk, where the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
