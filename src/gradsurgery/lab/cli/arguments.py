"""Parse arguments of the command line; a mistake raises a ``UserError`` of one sentence."""

import math
from collections.abc import Sequence
from contextlib import suppress

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.objective import ROLES
from gradsurgery.lab.run import Setting


def parse_allowance(text: str) -> tuple[float, bool]:
    """``--allow``: the amount, and whether it is a difference rather than a fraction of main alone.

    Example:
        >>> parse_allowance("2%"), parse_allowance("0.01")
        ((0.02, False), (0.01, True))
    """
    try:
        allow = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        allow = math.nan
    if not 0 <= allow < math.inf:
        raise UserError(f"the allowance for main must be a number from 0 or a percentage such as 2%; got {text}")
    return allow, not text.endswith("%")


def parse_workers(text: str) -> int:
    """``--workers``."""
    return _whole_number("the number of workers", text, least=0)


def parse_cores(text: str) -> int:
    """``--cores-per-run``."""
    return _whole_number("the number of cores per run", text, least=1)


def parse_gpus(text: str) -> int:
    """``--gpus-per-run``."""
    return _whole_number("the number of GPUs per run", text, least=0)


def _whole_number(meaning: str, text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise UserError(f"{meaning} must be a whole number from {least}; got {text}")
    return int(text)


def parse_seconds(text: str) -> float:
    """``--checkpoint-every``."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise UserError(f"the time between checkpoints must be a number of seconds from 0; got {text}")
    return seconds


def parse_metric(text: str) -> tuple[str, str]:
    """``--maximise`` and ``--minimise``: main or aux, and its metric.

    Example:
        >>> parse_metric("main=accuracy_test")
        ('main', 'accuracy_test')
    """
    role, _, metric = text.partition("=")
    if role not in ROLES or not metric:
        raise UserError(f"a metric must be given as main=METRIC or aux=METRIC; got {text}")
    return role, metric


def metrics_by_loss(metrics: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The metrics of ``--maximise`` or ``--minimise``, given any number of times, by main and aux."""
    by_loss = dict(metrics)
    if len(by_loss) < len(metrics):
        raise UserError(f"main and aux must have one metric each; got {', '.join(map('='.join, metrics))}")
    return by_loss


def parse_duration(text: str) -> float:
    """``--time-limit``: seconds, or a number with its unit.

    Example:
        >>> parse_duration("90"), parse_duration("30m"), parse_duration("1.5h")
        (90.0, 1800.0, 5400.0)
    """
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    try:
        seconds = float(text.rstrip("smhd")) * units[text[-1] if text[-1:] in units else "s"]
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < math.inf:
        raise UserError(f"a time limit must be a number above 0 with s, m, h or d, such as 30m; got {text}")
    return seconds


def parse_parameters(items: Sequence[str]) -> dict[str, Setting]:
    """``--slurm NAME=VALUE``: numbers where they are numbers.

    Example:
        >>> parse_parameters(["timeout_min=60", "mem_gb=1.5", "slurm_partition=gpu"])
        {'timeout_min': 60, 'mem_gb': 1.5, 'slurm_partition': 'gpu'}
    """
    return {name: _number_or_text(str(value)) for name, value in parse_settings(items).items()}


def _number_or_text(text: str) -> Setting:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def split_names(text: str) -> list[str]:
    """Names separated by commas."""
    return [item for item in map(str.strip, text.split(",")) if item]


def parse_settings(items: Sequence[str]) -> dict[str, str | list[str]]:
    """``--set NAME=VALUE``, given any number of times; a name that is given again has several values.

    Example:
        >>> parse_settings(["rate=0.1,0.3", "name=a", "name=b"])
        {'rate': '0.1,0.3', 'name': ['a', 'b']}
    """
    values: dict[str, list[str]] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"a setting must be given as NAME=VALUE; got {item!r}")
        values.setdefault(name, []).append(value)
    return {name: of_name[0] if len(of_name) == 1 else of_name for name, of_name in values.items()}
