"""What this machine has: cores, memory that can still be had, and the memory that a process has held."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch

if sys.platform != "win32":
    import resource

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_GROUP_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def total_memory() -> int:
    """Bytes of memory of this machine."""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 8 * 2**30  # a careful guess where the system does not tell


def available_memory() -> int:
    """Bytes that can be taken now without swapping: the system's estimate, or less where a container has a limit."""
    available = _system_available()
    for limit, used in _GROUP_LIMITS:
        if Path(limit).exists() and Path(used).exists():
            text = Path(limit).read_text().strip()
            if text.isdigit():
                available = min(available, int(text) - int(Path(used).read_text()))
    return max(available, 0)


def _system_available() -> int:
    info = Path("/proc/meminfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return total_memory() // 2


def resident_memory() -> int:
    """Bytes that this process holds now."""
    found = _status("VmRSS")
    return peak_memory() if found is None else found


def peak_memory() -> int:
    """The most bytes that this process has held since its start, or since `forget_peak`."""
    # not ru_maxrss where it can be helped: on Linux a process begins with that of the one that started it
    found = _status("VmHWM")
    if found is not None:
        return found
    if sys.platform == "win32":
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def forget_peak() -> None:
    """Let the peak begin anew (Linux; elsewhere it stays that of the whole process)."""
    if _CLEAR.exists():
        _CLEAR.write_text("5")


def limit_growth(most: int) -> None:
    """Let allocations of more than `most` further bytes fail in this process, instead of filling the machine."""
    if sys.platform == "win32":
        return
    held = _status("VmSize")
    if held is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = held + most
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))


def describe_machine() -> dict[str, Any]:
    """Processor, cores, threads, memory and versions, as plain data."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_bytes": total_memory(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.lower().startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _status(name: str) -> int | None:
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None
