"""Run both front ends' tests and then the benchmarks on an accelerator: ``make accelerator``.

    python -m benchmarks.accelerator [--device cuda] [--quick] [--tests PATH ...]

Leaves ``record.json``, ``chart.png`` and ``summary.md`` in a folder named after the device, beside our own records in
``docs/speed``. Paste the summary into an issue.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

import torch

TESTS = ("tests/torch_front", "tests/jax_front")


def main() -> int:
    """Run the tests, then the benchmarks; returns pytest's exit code."""
    parser = argparse.ArgumentParser(description="Test and measure gradsurgery on an accelerator.")
    parser.add_argument("--device", help="a device of PyTorch; the accelerator that it finds by default, or the CPU")
    parser.add_argument("--quick", action="store_true", help="one repetition of small benchmarks")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="the tests to run")
    parser.add_argument("--folder", type=Path, default=Path("docs/speed"), help="where to make the folder")
    options = parser.parse_args()
    device = options.device or str(torch.accelerator.current_accelerator(check_available=True) or "cpu")
    name = torch.cuda.get_device_name() if device.startswith("cuda") else device
    folder = options.folder / re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GRADSURGERY_DEVICE": device}

    results = folder / "tests.xml"
    # one process: tests share the memory of the device
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", f"--junitxml={results}", *options.tests]
    exit_code = subprocess.run(command, env=environment, check=False).returncode
    tests = summarize_tests(results)
    results.unlink()

    command = [sys.executable, "-m", "benchmarks", "--folder", str(folder), *(["--quick"] if options.quick else [])]
    subprocess.run(command, env=environment, check=True)
    record = json.loads((folder / "record.json").read_text())
    summary = f"# gradsurgery on {name}\n\n{tests}\n\n{summarize_record(record)}\n"
    (folder / "summary.md").write_text(summary)
    print(f"\n{summary}\nrecord, chart and summary: {folder}")
    return exit_code


def summarize_tests(results: Path) -> str:
    """How many tests passed, failed and were skipped, and which failed, from a JUnit file."""
    cases = list(ElementTree.parse(results).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    lines = [f"Tests: {len(cases) - len(failed) - skipped} passed, {len(failed)} failed, {skipped} skipped."]
    return "\n".join([*lines, *(f"- `{case.get('classname')}::{case.get('name')}`" for case in failed)])


def summarize_record(record: dict) -> str:
    """The machine, the versions and the medians of a record."""
    about = record["about"]
    lines = [
        f"Commit {about['commit'][:12]}, {about['when']}",
        f"Machine: {json.dumps(about['machine'])}",
        f"Versions: {json.dumps(about['versions'])}",
        "",
        "| measure | median | relative to |",
        "|---|---|---|",
    ]
    for measures in record["measures"].values():
        lines += [f"| {line['name']} | {median(line['ratios']):.3g} | {line['unit']} |" for line in measures]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
