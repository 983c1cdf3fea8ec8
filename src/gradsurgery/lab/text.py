"""How numbers and runs are written, the same in the terminal, on the page and in the docs."""

import math
from collections.abc import Iterable, Mapping, Sequence

from gradsurgery.lab.lam import Lam, lam_arguments, named_numbers
from gradsurgery.lab.run import RunSpec, Setting


def number(value: float, digits: int = 3) -> str:
    """A number for people: three significant digits, no trailing zeros, a power of ten where it is far from 1.

    Example:
        >>> [number(value) for value in (0.1, 1234.5, -0.00031623, 1e-4, float("nan"))]
        ['0.1', '1,234', '−3.16×10⁻⁴', '10⁻⁴', '–']
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    mantissa, exponent = f"{abs(value):.{digits - 1}e}".split("e")
    power = int(exponent)
    near = -3 <= power <= 4
    text = f"{abs(value):,.{max(digits - 1 - power, 0)}f}" if near else mantissa
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if not near:
        text = power_of_ten(power) if text == "1" else f"{text}×{power_of_ten(power)}"
    return text if value > 0 else f"−{text}"


def power_of_ten(power: int) -> str:
    """An integer power of ten, written with superscript characters.

    Example:
        >>> [power_of_ten(power) for power in (-4, 0, 1)]
        ['10⁻⁴', '1', '10']
    """
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return {0: "1", 1: "10"}.get(power, "10" + raised)


def duration(seconds: float) -> str:
    """A time for people, in the largest unit that fits.

    Example:
        >>> [duration(seconds) for seconds in (0.04, 1.25, 90, 600, 100_000)]
        ['0.04 s', '1.2 s', '1.5 min', '10 min', '28 h']
    """
    size, unit = next((pair for pair in ((3600, "h"), (60, "min")) if seconds >= pair[0]), (1, "s"))
    value = seconds / size
    return f"{value:.2g} {unit}" if value < 10 else f"{value:.0f} {unit}"


def hyperparameters(lam: Lam | None, rho: float | None, settings: Mapping[str, Setting] | None = None) -> list[str]:
    """λ and ρ with their values, for a method that has them; then settings.

    Example:
        >>> hyperparameters(0.3, 0.01), hyperparameters((0.3, 0.1), None)
        (['λ = 0.3', 'ρ = 0.01'], ['λ₁ = 0.3', 'λ₂ = 0.1'])
    """
    weight = [f"{name} = {number(value)}" for name, value in named_numbers(lam)]
    average = [] if rho is None else [f"ρ = {number(rho)}"]
    return [*weight, *average, *(f"{name} = {write_setting(value)}" for name, value in (settings or {}).items())]


def write_setting(value: Setting) -> str:
    """The value of a setting, as ``--set`` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def name_parts(spec: RunSpec) -> list[str]:
    """A run in the names of files.

    Example:
        >>> name_parts(RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=0.01, seed=2))
        ['bloop', 'lam=0.1', 'rho=0.01', 'seed=2']
    """
    numbers = {**lam_arguments(spec.lam), "rho": spec.rho, "seed": spec.seed}
    return [spec.method, *(f"{name}={value}" for name, value in numbers.items() if value is not None)]


def describe_run(spec: RunSpec) -> str:
    """A run in a few words.

    Example:
        >>> describe_run(RunSpec("lipschitz", "demo", "bloop", lam=0.1, rho=0.01, seed=2))
        'bloop, λ = 0.1, ρ = 0.01, seed 2'
    """
    return ", ".join([spec.method, *hyperparameters(spec.lam, spec.rho), f"seed {spec.seed}"])


def describe_runs(specs: Iterable[RunSpec]) -> list[str]:
    """Runs in one line per method and ρ.

    Example:
        >>> describe_runs(RunSpec("p", "s", "mixed", lam, None, seed) for lam in (0.1, 1.0) for seed in range(5))
        ['mixed: 10 runs (λ = 0.1, 1; seeds 0-4)']
    """
    by_name: dict[tuple[str, ...], list[RunSpec]] = {}
    for spec in specs:
        by_name.setdefault((spec.method, *hyperparameters(None, spec.rho)), []).append(spec)
    lines = []
    for name, runs in by_name.items():
        by_unit: dict[str, set[float]] = {}
        for spec in runs:
            for unit, value in named_numbers(spec.lam):
                by_unit.setdefault(unit, set()).add(value)
        grid = [f"{unit} = {', '.join(map(number, sorted(lams)))}" for unit, lams in by_unit.items()]
        seeds = _ranges(sorted({spec.seed for spec in runs}))
        lines.append(f"{', '.join(name)}: {count(len(runs), 'run')} ({'; '.join([*grid, seeds])})")
    return lines


def count(amount: int, thing: str) -> str:
    """A number of things.

    Example:
        >>> count(1, "run"), count(1200, "run")
        ('1 run', '1,200 runs')
    """
    return f"{amount:,} {thing}{'s' * (amount != 1)}"


def _ranges(seeds: Sequence[int]) -> str:
    """Seeds in increasing order, with neighbours as a range."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and parts[-1][-1] == seed - 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    texts = [f"{part[0]}-{part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts]
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(texts)}"
