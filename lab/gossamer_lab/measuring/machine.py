"""Describes the machine and the checkout, so that results can be interpreted elsewhere."""

import hashlib
import os
import platform
import resource
import subprocess
from pathlib import Path
from typing import Any

from gossamer_lab import paths

_SYSCTLS = (
    "net.core.somaxconn",
    "net.core.netdev_max_backlog",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_congestion_control",
    "fs.file-max",
    "fs.nr_open",
    "vm.max_map_count",
    "kernel.threads-max",
    "kernel.pid_max",
)
_LIMITS = {
    "open files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "stack": resource.RLIMIT_STACK,
    "locked memory": resource.RLIMIT_MEMLOCK,
}


def _read(path: str) -> str | None:
    """Return a file's text without surrounding whitespace, None if it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _field(text: str | None, name: str) -> str | None:
    """Return the value of the first ``name: value`` or ``name=value`` line."""
    for line in (text or "").splitlines():
        key, _, value = line.replace("=", ":", 1).partition(":")
        if key.strip() == name:
            return value.strip().strip('"')
    return None


def _sysctls() -> dict[str, str]:
    """Return the values of the sysctls that this kernel has."""
    values = {name: _read("/proc/sys/" + name.replace(".", "/")) for name in _SYSCTLS}
    return {name: " ".join(value.split()) for name, value in values.items() if value is not None}


def _limits() -> dict[str, str]:
    """Return soft and hard limits of a process."""

    def word(value: int) -> str:
        return "unlimited" if value == resource.RLIM_INFINITY else str(value)

    return {
        name: " / ".join(word(value) for value in resource.getrlimit(kind))
        for name, kind in _LIMITS.items()
    }


def _git(*arguments: str) -> str | None:
    """Return the output of git for the checkout, None if it fails."""
    command = ("git", "-C", str(paths.CHECKOUT), *arguments)
    try:
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def _source(program: Path) -> dict[str, Any]:
    """Return what was measured: the commit, whether files differ from it, the program's digest."""
    status = _git("status", "--porcelain")
    return {
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(status) if status is not None else None,
        "program_sha256": hashlib.sha256(program.read_bytes()).hexdigest(),
    }


def describe(program: Path) -> dict[str, Any]:
    """Return the description of this machine and of the program that is measured."""
    cpu = _read("/proc/cpuinfo")
    flags = (_field(cpu, "flags") or "").split()
    governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    return {
        "processor": _field(cpu, "model name") or platform.machine(),
        "cores": os.cpu_count(),
        "cores_allowed": sorted(os.sched_getaffinity(0)),
        "virtual": "hypervisor" in flags,
        "governor": _read(governor),
        "memory": _field(_read("/proc/meminfo"), "MemTotal"),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "system": _field(_read("/etc/os-release"), "PRETTY_NAME"),
        "load_average": list(os.getloadavg()),
        "sysctls": _sysctls(),
        "limits": _limits(),
        "source": _source(program),
    }
