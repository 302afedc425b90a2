"""Timing side by side: interleaved rounds, medians, and one table and JSON file per run."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Row:
    """One line of a benchmark's table.

    Attributes:
        shape: what was run.
        name: the op, a peer or a limit.
        microseconds: median of one call.
        note: what the reader should know, for example "limit" or the ratio to a peer.
    """

    shape: str
    name: str
    microseconds: float
    note: str = ""


def options(description: str | None, *targets: str, rounds: int = 31) -> argparse.Namespace:
    """What every benchmark takes on its command line: ``--target``, ``--out`` and ``--rounds``.

    Args:
        description: the module's docstring.
        targets: those it can measure; the first is the default.
        rounds: timings per row, unless the user asks for another number.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=targets, default=targets[0], help="what to measure (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="folder for the JSON file and the picture (default: none are written)")
    parser.add_argument("--rounds", type=int, default=rounds, help="timings per row (default: %(default)s)")
    return parser.parse_args()


def interleaved(
    calls: Mapping[str, Callable[[], object]], *, rounds: int = 15, inner: int = 1, warmup: int = 2
) -> dict[str, float]:
    """Median microseconds of each call, timed in turn so that a slow spell of the machine meets all alike.

    Args:
        calls: what to time, by name; CPU work only.
        rounds: how often each is timed.
        inner: calls per timing, for calls of a few microseconds.
        warmup: calls before the first timing.
    """
    for call in calls.values():
        for _ in range(warmup):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter_ns()
            for _ in range(inner):
                call()
            times[name].append((time.perf_counter_ns() - start) / 1e3 / inner)
    return {name: statistics.median(values) for name, values in times.items()}


def machine() -> dict[str, Any]:
    """What a figure was measured on: processor, threads, versions."""
    names = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    gpu = {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_initialized() else {}
    return {
        **gpu,
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def report(title: str, rows: Sequence[Row], out: Path | None, what: str = "median", limit: str = "") -> None:
    """Prints a table, and writes ``<title>.json`` and ``<title>.png`` into a folder.

    Args:
        title: name of the op and target; becomes the file name.
        rows: the measurements.
        out: the folder, made if it is missing; None writes nothing.
        what: where the microseconds come from, for the picture's axis.
        limit: name of the row that others of its shape are compared with; the picture draws a line there.
    """
    from rich.console import Console
    from rich.table import Table

    where = machine()
    table = Table("shape", "what", "us", "note", title=title, caption=", ".join(f"{k} {v}" for k, v in where.items()))
    for row in rows:
        table.add_row(row.shape, row.name, f"{row.microseconds:,.1f}", row.note)
    Console(width=120).print(table)
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"title": title, "machine": where, "rows": [asdict(row) for row in rows]}, indent=1)
    (out / f"{title}.json").write_text(text + "\n", encoding="utf-8")
    _picture(title, rows, out / f"{title}.png", what, limit)


def _picture(title: str, rows: Sequence[Row], path: Path, what: str, limit: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels = [f"{row.shape}\n{row.name}" for row in rows]
    figure, axes = pyplot.subplots(figsize=(9, 0.5 * len(rows) + 1.2))
    times = [row.microseconds for row in rows]
    on_white = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # where a dashed line would cross the words
    said = [f"{row.microseconds:,.1f}  {row.note}" for row in rows]
    axes.bar_label(axes.barh(labels, times), said, padding=4, fontsize=7, bbox=on_white)
    for row in rows:
        if row.name == limit:
            alike = [i for i, other in enumerate(rows) if other.shape == row.shape]
            axes.vlines(row.microseconds, alike[0] - 0.5, alike[-1] + 0.5, colors="C3", linestyles="dashed")
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(f"microseconds, {what} (log scale)")
    axes.set_title(title)
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.01)
    axes.set_xlim(min(times) / 2, max(times) * (4 * max(times) / min(times)) ** 0.7)  # the words have room at the right
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)
