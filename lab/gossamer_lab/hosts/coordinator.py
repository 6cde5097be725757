"""The process that coordinates the hosts, as a client of dask.distributed.

    python -m gossamer_lab.hosts.coordinator SOCKET ADDRESS|COUNT

It connects to the scheduler at an address, or starts this many workers. Then it connects to the
socket, sends the number of workers, and answers requests; each message is a line of JSON. It is a
process of its own because dask.distributed uses threads, and the lab, which forks, has only one.
"""

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import dask
from distributed import Client, LocalCluster

from gossamer_lab.hosts.worker import Job, cancel_jobs, pin_to_core, read_clock, run_job

Json = dict[str, Any]
Result = TypeVar("Result")

_LONGEST_LINE = 1 << 28
_CLOCK_READINGS = 4
_LEAD_S = 0.1
"""From the request to the common start: time for the hosts to prepare."""
_LEAD_EACH_S = 0.015
_RECOVERY_S = 60.0
_POLL_S = 0.05
_CONNECT_TIMEOUT_S = 15.0
_CONNECTION_LOST = (OSError, asyncio.TimeoutError)
"""Errors when a host has died: its connection breaks."""
_WORKER_CONFIG = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    **dict.fromkeys(
        (f"distributed.worker.memory.{name}" for name in ("target", "spill", "pause", "terminate")),
        False,
    ),
}
"""Settings of workers on this machine: quick to start, and idle besides their loads."""


@contextlib.asynccontextmanager
async def _connected(target: str, folder: Path) -> AsyncIterator[Client]:
    """Connect to the scheduler at an address, or to a new one with this many local workers."""
    if not target.isdigit():
        async with Client(target, asynchronous=True, timeout=_CONNECT_TIMEOUT_S) as client:
            yield client
        return
    dask.config.set(_WORKER_CONFIG)
    async with (
        LocalCluster(
            n_workers=int(target),
            threads_per_worker=1,
            processes=True,
            asynchronous=True,
            dashboard_address=None,
            worker_dashboard_address=None,
            memory_limit=0,
            local_directory=str(folder),
        ) as cluster,
        Client(cluster, asynchronous=True) as client,
    ):
        yield client


async def _workers(client: Client) -> list[str]:
    """Return the addresses of the workers, in the order of their names."""
    known = (await client.scheduler.identity(n_workers=-1))["workers"]

    def place(address: str) -> tuple[int, str]:
        name = str(known[address]["name"])
        return len(name), name

    return sorted(known, key=place)


async def _call(
    client: Client, worker: str, function: Callable[..., Awaitable[Result]], *arguments: object
) -> Result:
    """Call a function on one worker; return its result."""
    results: dict[str, Result] = await client.run(function, *arguments, workers=[worker])
    return results[worker]


async def _offset(client: Client, worker: str) -> float:
    """Return how far a worker's clock is ahead, by the reading with the shortest round trip."""
    readings = []
    for _ in range(_CLOCK_READINGS):
        before = time.time()
        there = await _call(client, worker, read_clock)
        after = time.time()
        readings.append((after - before, there - (before + after) / 2))
    return min(readings)[1]


async def _await_recovery(client: Client, lost: list[str], count: int) -> None:
    """Wait until the scheduler has removed dead workers; local ones are replaced by then."""
    deadline = time.monotonic() + _RECOVERY_S
    while time.monotonic() < deadline:
        now = await _workers(client)
        if set(lost).isdisjoint(now) and (not client.cluster or len(now) == count):
            return
        await asyncio.sleep(_POLL_S)


async def _run_jobs(client: Client, workers: list[str], jobs: list[Job]) -> Json:
    """Start all jobs at a common time; wait for all of them, or until a host dies."""
    is_here = client.cluster is not None
    offsets = [0.0 if is_here else await _offset(client, worker) for worker in workers]
    start_s = time.time() + _LEAD_S + _LEAD_EACH_S * len(jobs)
    at = [i % len(workers) for i in range(len(jobs))]
    tasks = [
        asyncio.create_task(_call(client, workers[i], run_job, job, start_s + offsets[i]))
        for i, job in zip(at, jobs, strict=True)
    ]
    _, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    if left:
        await client.run(cancel_jobs, on_error="ignore")
        await asyncio.wait(left)
    errors = {i: error for i, task in enumerate(tasks) if (error := task.exception())}
    if errors:
        died = [i for i, error in errors.items() if isinstance(error, _CONNECTION_LOST)]
        other = [f"{jobs[i].host}: {error!r}" for i, error in errors.items() if i not in died]
        return {
            "died": [jobs[i].host for i in died],
            "lost": [workers[at[i]] for i in died],
            "failed": "; ".join(other),
        }
    results = [task.result() for task in tasks]
    for i, result in zip(at, results, strict=True):
        result["began_s"] -= offsets[i] + start_s
    return {"results": results}


async def _answer(client: Client, request: Json) -> Json:
    """Carry out a request: the jobs of one load."""
    jobs = [Job(**job) for job in request["jobs"]]
    if jobs[0].core is not None:
        pin_to_core(jobs[0].core)
    workers = await _workers(client)
    if not workers:
        return {"failed": "there are no client hosts"}
    try:
        answer = await _run_jobs(client, workers, jobs)
    except _CONNECTION_LOST as error:
        answer = {"died": [f"a host, before the load began ({error!r})"], "lost": [], "failed": ""}
    if answer.get("died"):
        await _await_recovery(client, answer["lost"], len(workers))
    return answer


async def _send(writer: asyncio.StreamWriter, answer: Json) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")
    await writer.drain()


async def _serve(path: str, target: str) -> None:
    """Answer requests until the connection is closed."""
    reader, writer = await asyncio.open_unix_connection(path, limit=_LONGEST_LINE)
    try:
        async with _connected(target, Path(path).parent) as client:
            await _send(writer, {"hosts": len(await _workers(client))})
            while line := await reader.readline():
                await _send(writer, await _answer(client, json.loads(line)))
    except OSError as error:
        await _send(writer, {"failed": str(error)})


async def _main(path: str, target: str) -> None:
    """Serve until the end, or until SIGTERM; the workers exit in either case."""
    serving = asyncio.ensure_future(_serve(path, target))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
