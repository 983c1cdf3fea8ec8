"""Parse arguments of the command line; a mistake raises a ``UserError`` of one sentence."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.objective import ROLES
from gradsurgery.lab.run import Setting

if TYPE_CHECKING:
    from gradsurgery.lab.analysis.allowance import Allowance


def parse_allowance(text: str) -> "Allowance":
    """``--allow``.

    Example:
        >>> parse_allowance("2%"), parse_allowance("0.01")
        (Allowance(limit=0.02, absolute=False), Allowance(limit=0.01, absolute=True))
    """
    from gradsurgery.lab.analysis.allowance import Allowance

    with suppress(ValueError):
        return Allowance(float(text.removesuffix("%")) / 100) if "%" in text else Allowance(float(text), absolute=True)
    raise UserError(f"the allowance for main must be a number from 0 or a percentage such as 2%; got {text}")


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
    """``--checkpoint-every`` and ``--time-limit``: seconds, or a number with its unit.

    Example:
        >>> parse_duration("90"), parse_duration("30m"), parse_duration("1.5h")
        (90.0, 1800.0, 5400.0)
    """
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    with suppress(ValueError):
        if (seconds := float(text.rstrip("smhd")) * units.get(text[-1:], 1)) >= 0:
            return seconds
    raise UserError(f"a time must be a number of seconds from 0, or one with s, m, h or d such as 30m; got {text}")


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
