"""Several requests at a time for tests.bench.sparkv.streaming: processes that share the cores, and one shaped link."""

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from tests.bench.compression import opened
from tests.bench.sparkv.controller import Controller, controller
from tests.bench.sparkv.execute import execute
from tests.bench.sparkv.layerwise import layerwise
from tests.bench.sparkv.links import Link, Remote, far_side
from tests.bench.sparkv.schedule import StreamPlan, UnitCosts, replay

_START_S = 600.0  # until all have loaded the model


@dataclass(frozen=True, slots=True)
class Way:
    """A way to answer: its name, the level of its streams, its costs and plan, and whether the plan is controlled."""

    name: str
    level: int
    costs: UnitCosts
    plan: StreamPlan
    is_controlled: bool

    def control(self) -> Controller:
        """Return a new controller, which changes nothing where the plan is not controlled."""
        if self.is_controlled:
            return controller(self.costs, self.plan, replay(self.costs, self.plan).finish)
        return Controller(self.costs, self.plan, inf, 0)


@dataclass(frozen=True, slots=True)
class Request:
    """What each process answers: a model by its folder, the blocks of a prompt, and the ways, so many times each."""

    model: str
    prompt: Sequence[Sequence[int]]
    ways: Sequence[Way]
    rounds: int


def at_once(request: Request, link: Link, file: Path, count: int, *, isolated: bool = True) -> Iterator[dict[str, Any]]:
    """Yield the seconds of each way if `count` processes begin it together: the median request, and the last one."""
    context = get_context("spawn")
    with far_side(link, file, isolated=isolated) as (remote, shaped):
        barrier, pipes = context.Barrier(count), [context.Pipe(duplex=False) for _ in range(count)]
        address = remote.connection.getpeername()
        processes = [context.Process(target=_answer, args=(request, address, barrier, end)) for _, end in pipes]
        for process, (_, end) in zip(processes, pipes, strict=True):
            process.start()
            end.close()  # so that one which dies is noticed
        try:
            times = [_received(begin) for begin, _ in pipes]
        finally:
            for process in processes:
                process.terminate()
                process.join()
    for number, way in enumerate(request.ways):
        own = [seconds[number :: len(request.ways)] for seconds in times]
        rounds = list(zip(*own, strict=True))
        yield {
            "mbps": link.mbps, "link": shaped, "way": way.name, "level": way.level, "at_once": count, "n": len(rounds),
            "seconds": round(median(median(one) for one in rounds), 3),
            "last": round(median(map(max, rounds)), 3),
        }  # fmt: skip


def _received(begin: Connection) -> list[float]:
    found: list[float] = begin.recv()
    return found


def _answer(request: Request, address: tuple[str, int], barrier: Barrier, end: Connection) -> None:
    """Answer in every way in turn, each time together with the others, and send the seconds."""
    seconds, lengths = list[float](), sum(map(len, request.prompt))
    with opened(request.model) as model, socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        remote = Remote(connection)
        execute(layerwise(model, lengths), request.prompt, request.ways[0].control(), remote)  # warms up
        for way in list(request.ways) * request.rounds:
            run, remote.level = layerwise(model, lengths), way.level
            barrier.wait(_START_S)
            began = perf_counter()
            execute(run, request.prompt, way.control(), remote)
            seconds.append(perf_counter() - began)
    end.send(seconds)
