"""Run every benchmark, print one table, leave a JSON record and a chart: ``python -m benchmarks [--quick]``."""

import argparse
import json
import os
import platform
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import (
    apply_jax,
    apply_torch,
    count,
    count_jax,
    lipschitz_epoch,
    memory,
    scaling,
    trainer,
    two_heads,
    whole_step,
)
from benchmarks.chart import draw
from benchmarks.harness import DEVICE, Measure, Plan, device_name

BENCHMARKS = (
    apply_torch,
    apply_jax,
    count,
    count_jax,
    memory,
    whole_step,
    two_heads,
    trainer,
    lipschitz_epoch,
    scaling,
)


def main() -> None:
    """Run the benchmarks, print the table, write the record and the chart."""
    parser = argparse.ArgumentParser(description="How fast gradsurgery is, as ratios.")
    parser.add_argument("--quick", action="store_true", help="one repetition of small cases, to check that they run")
    parser.add_argument(
        "--folder", type=Path, default=Path("docs/speed"), help="where to write the record and the chart"
    )
    options = parser.parse_args()
    plan = Plan(options.quick)
    torch.set_num_threads(plan.threads)
    if DEVICE != "cpu":
        torch.set_default_device(DEVICE)
    console = Console()
    table = Table("measure", "median", "range", "relative to", "goal", "", box=None)
    lines: dict[str, list[Measure]] = {}
    for benchmark in BENCHMARKS:
        name = benchmark.__name__.rpartition(".")[2]
        console.print(f"{name} …", style="dim")
        lines[name] = benchmark.measure(plan)
        for line in lines[name]:
            spread = f"{min(line.ratios):.3g} … {max(line.ratios):.3g}" if len(line.ratios) > 1 else ""
            verdict = ("reached" if line.reaches_goal else "missed") if line.goal else ""
            table.add_row(line.name, f"{line.median:.3g}", spread, line.unit, line.goal, verdict)
    console.print(table)
    options.folder.mkdir(parents=True, exist_ok=True)
    measures = {name: [asdict(line) for line in benchmark] for name, benchmark in lines.items()}
    record = {"about": environment(), "measures": measures}
    (options.folder / "record.json").write_text(json.dumps(record, indent=1) + "\n")
    draw(lines, options.folder / "chart.png")
    console.print(f"record and chart: {options.folder}", highlight=False)


def environment() -> dict[str, object]:
    """The date, commit, versions and machine of a measurement."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    names = ("gradsurgery", "torch", "torchjd", "jax", "jaxlib", "optax", "numpy", "transformers", "accelerate")
    return {
        "when": datetime.now(UTC).date().isoformat(),
        "commit": commit.stdout.strip(),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in names},
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "device": device_name(),
        },
    }


if __name__ == "__main__":
    main()
