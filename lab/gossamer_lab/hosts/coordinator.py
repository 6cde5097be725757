"""The process that holds the hosts together, as a client of dask.distributed.

    python -m gossamer_lab.hosts.coordinator SOCKET ADDRESS|COUNT

It joins the scheduler at an address, or has so many workers of its own. Then it connects to the
socket, says so in a line, and answers requests, a line of JSON each. The lab itself has only one
thread, since it forks; what uses dask.distributed has many.
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

from gossamer_lab.hosts.part import Part, clock, give_up, keep_to, perform

Json = dict[str, Any]
Said = TypeVar("Said")

_LONGEST_LINE = 1 << 28
_CLOCK_READINGS = 4
_LEAD_S = 0.1
"""From the request to the common start: hosts prepare meanwhile."""
_LEAD_EACH_S = 0.015
_RECOVERY_S = 60.0
_LOOK_AGAIN_S = 0.05
_JOIN_S = 15.0
_GONE = (OSError, asyncio.TimeoutError)
"""What a host that has died leaves: a broken connection."""
_QUIET = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    **dict.fromkeys(
        (f"distributed.worker.memory.{name}" for name in ("target", "spill", "pause", "terminate")),
        False,
    ),
}
"""Workers of our own are started quickly, and do little beside their loads."""


@contextlib.asynccontextmanager
async def _joined(where: str, folder: Path) -> AsyncIterator[Client]:
    """Be a client of the scheduler at an address, or of one with so many workers here."""
    if not where.isdigit():
        async with Client(where, asynchronous=True, timeout=_JOIN_S) as client:
            yield client
        return
    dask.config.set(_QUIET)
    async with (
        LocalCluster(
            n_workers=int(where),
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


async def _at(
    client: Client, worker: str, act: Callable[..., Awaitable[Said]], *given: object
) -> Said:
    """Have one worker do something; return what it says."""
    said: dict[str, Said] = await client.run(act, *given, workers=[worker])
    return said[worker]


async def _offset(client: Client, worker: str) -> float:
    """Return how far a worker's clock is ahead, by the reading that took the least time."""
    readings = []
    for _ in range(_CLOCK_READINGS):
        before = time.time()
        there = await _at(client, worker, clock)
        after = time.time()
        readings.append((after - before, there - (before + after) / 2))
    return min(readings)[1]


async def _await_recovery(client: Client, gone: list[str], count: int) -> None:
    """Wait until workers that have died are forgotten; our own are replaced by then."""
    deadline = time.monotonic() + _RECOVERY_S
    while time.monotonic() < deadline:
        now = await _workers(client)
        if set(gone).isdisjoint(now) and (not client.cluster or len(now) == count):
            return
        await asyncio.sleep(_LOOK_AGAIN_S)


async def _perform_all(client: Client, workers: list[str], parts: list[Part]) -> Json:
    """Have all parts begin at one time, and wait for all, or for the first host that dies."""
    is_here = client.cluster is not None
    offsets = [0.0 if is_here else await _offset(client, worker) for worker in workers]
    start_s = time.time() + _LEAD_S + _LEAD_EACH_S * len(parts)
    at = [i % len(workers) for i in range(len(parts))]
    tasks = [
        asyncio.create_task(_at(client, workers[i], perform, part, start_s + offsets[i]))
        for i, part in zip(at, parts, strict=True)
    ]
    _, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    if left:
        await client.run(give_up, on_error="ignore")
        await asyncio.wait(left)
    errors = {i: error for i, task in enumerate(tasks) if (error := task.exception())}
    if errors:
        died = [i for i, error in errors.items() if isinstance(error, _GONE)]
        other = [f"{parts[i].host}: {error!r}" for i, error in errors.items() if i not in died]
        return {
            "died": [parts[i].host for i in died],
            "gone": [workers[at[i]] for i in died],
            "failed": "; ".join(other),
        }
    results = [task.result() for task in tasks]
    for i, result in zip(at, results, strict=True):
        result["began_s"] -= offsets[i] + start_s
    return {"results": results}


async def _answer(client: Client, request: Json) -> Json:
    """Carry out a request: the parts of one load."""
    parts = [Part(**part) for part in request["parts"]]
    if parts[0].core is not None:
        keep_to(parts[0].core)
    workers = await _workers(client)
    if not workers:
        return {"failed": "there are no client hosts"}
    try:
        answer = await _perform_all(client, workers, parts)
    except _GONE as error:
        answer = {"died": [f"a host, before the load began ({error!r})"], "gone": [], "failed": ""}
    if answer.get("died"):
        await _await_recovery(client, answer["gone"], len(workers))
    return answer


async def _say(writer: asyncio.StreamWriter, answer: Json) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")
    await writer.drain()


async def _serve(path: str, where: str) -> None:
    """Answer requests until the other side has no more."""
    reader, writer = await asyncio.open_unix_connection(path, limit=_LONGEST_LINE)
    try:
        async with _joined(where, Path(path).parent) as client:
            await _say(writer, {"hosts": len(await _workers(client))})
            while line := await reader.readline():
                await _say(writer, await _answer(client, json.loads(line)))
    except OSError as error:
        await _say(writer, {"failed": str(error)})


async def _main(path: str, where: str) -> None:
    """Serve until the end, or until SIGTERM; the workers end in either case."""
    serving = asyncio.ensure_future(_serve(path, where))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
