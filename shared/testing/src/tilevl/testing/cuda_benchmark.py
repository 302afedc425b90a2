"""Timing on a GPU: replays of captured calls over rotating inputs, host time of eager calls, and the copy limit.

All times are medians over rounds in which the calls take turns, so that a slow spell of the device meets all alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from tilevl.testing.benchmark import Row

SMALL_BAR = 1.3
"""Times of an empty kernel's replay that a small call may take."""
HOST_BAR = 15.0
"""Microseconds of the host that an eager call may take."""

Call = Callable[[], object]

_HOST_CALLS = 200  # few enough that the launch queue, about 1,000 deep, never makes the host wait


def empty_kernel() -> None:
    """Launches a kernel that does nothing: what any kernel costs at least."""
    torch.cuda._sleep(0)


def verdict(number: float, bar: float) -> str:
    """Words for a row's note: whether a number exceeds its bar."""
    return f"bar {bar:g}: {'held' if number <= bar else 'missed'}"


def compared(shape: str, times: Mapping[str, float], own: str, yardstick: str, bar: float) -> list[Row]:
    """Rows that give each time as a multiple of one of them.

    Args:
        shape: what was run.
        times: microseconds by name.
        own: the op, whose row says whether the bar is held; others' names may be followed by more words.
        yardstick: name of the time to compare with.
        bar: the multiple that the op should not exceed.
    """
    rows = []
    for name, microseconds in times.items():
        ratio = microseconds / times[yardstick]
        held = f"; {verdict(ratio, bar)}" if name == own else ""
        rows.append(Row(shape, name, microseconds, f"{ratio:.2f} of {yardstick}{held}"))
    return rows


def small_calls(shape: str, calls: Mapping[str, Call], own: str, rounds: int) -> list[Row]:
    """Rows of calls so small that what counts is what any kernel costs: a graph of one call, and the host's time.

    Args:
        shape: what is run.
        calls: by name.
        own: the op, which is held against an empty kernel and against ``HOST_BAR``.
        rounds: how often each is timed.
    """
    calls = {"an empty kernel": empty_kernel, **calls}
    replays = replayed({name: [call] for name, call in calls.items()}, rounds=rounds)
    rows = [
        Row(row.shape, f"{row.name}, replay", row.microseconds, row.note)
        for row in compared(shape, replays, own, "an empty kernel", SMALL_BAR)
    ]
    for name, microseconds in on_host(calls).items():
        held = f"; {verdict(microseconds, HOST_BAR)}" if name == own else ""
        rows.append(Row(shape, f"{name}, host", microseconds, f"eager call{held}"))
    return rows


def copy_bandwidth(size: int = 2**32, rounds: int = 15) -> float:
    """Bytes per second, read and written, of a device-to-device copy of ``size`` bytes."""
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda")
    into = torch.empty_like(source)
    microseconds = _median_of_events({"copy": [lambda: into.copy_(source)]}, rounds, 1)["copy"]
    return 2 * size / microseconds * 1e6


def replayed(calls: Mapping[str, Sequence[Call]], *, rounds: int = 31, repeat: int = 1) -> dict[str, float]:
    """Median microseconds of one call inside a replayed CUDA graph.

    Args:
        calls: by name, the same call on several sets of inputs, one after the other in one graph. Together the sets
            should be several times as large as the L2 cache, else the cache is measured. A single call is measured as
            a graph of its own, replayed ``repeat`` times in a row: then the launch of the graph counts.
        rounds: how often each is timed.
        repeat: replays per timing.
    """
    graphs: dict[str, list[Call]] = {}
    counts = {name: len(variants) for name, variants in calls.items()}
    for name, variants in calls.items():
        _warm_up(variants)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in variants:
                call()
        graphs[name] = [graph.replay]
    times = _median_of_events(graphs, rounds, repeat)
    return {name: times[name] / counts[name] for name in calls}


def on_device(calls: Mapping[str, Sequence[Call]], *, rounds: int = 31) -> dict[str, float]:
    """Median microseconds of one eager call, by device events; for calls that can't be captured.

    Args:
        calls: by name, the same call on several sets of inputs.
        rounds: how often each is timed.
    """
    for variants in calls.values():
        _warm_up(variants)
    times = _median_of_events(calls, rounds, 1)
    return {name: times[name] / len(variants) for name, variants in calls.items()}


def on_host(calls: Mapping[str, Call], *, rounds: int = 15) -> dict[str, float]:
    """Median microseconds that the host needs for one eager call, without waiting for the device."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        _warm_up([call])
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter_ns()
            for _ in range(_HOST_CALLS):
                call()
            times[name].append((time.perf_counter_ns() - start) / 1e3 / _HOST_CALLS)
    torch.cuda.synchronize()
    return {name: statistics.median(values) for name, values in times.items()}


def _warm_up(calls: Sequence[Call]) -> None:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def _median_of_events(calls: Mapping[str, Sequence[Call]], rounds: int, repeat: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 2):
        for name, variants in calls.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            for _ in range(repeat):
                for call in variants:
                    call()
            stop.record()
            stop.synchronize()
            if turn >= 2:
                times[name].append(start.elapsed_time(stop) * 1e3 / repeat)
    return {name: statistics.median(values) for name, values in times.items()}
