"""Hints for a better sweep, read off the options of a recommendation."""

from collections.abc import Iterator

from gradsurgery.lab.analysis.options import Option, Options
from gradsurgery.lab.lam import Tau, lam_name, lam_number
from gradsurgery.lab.text import number


def hints(options: Options, best: Option | None) -> Iterator[str]:
    """One sentence for each thing that the user can change; ``best`` is the recommended option, if there is one."""
    aux = options.criteria.aux.name
    if options.unrecorded:
        runs = "a finished run has" if options.unrecorded == 1 else f"{options.unrecorded} finished runs have"
        yield f"Not compared: {runs} no row with {options.criteria.names}."
    if not options.seeds_differ:
        yield "All seeds gave the same numbers: is the seed used?"
    all_options = [option for candidates in options.by_method.values() for option in candidates]
    if all_options and all(option.aux.excess(absolute=True).mean >= 0 for option in all_options):
        yield f"No {options.lam_name} improves {aux}: does the method get the right loss?"
    if best is None or best.lam is None:
        return
    name, tried = lam_name(best.lam), options.tried[best.method]
    of_method = [option for option in options.by_method[best.method] if option.lam is not None]
    if best.main.seeds > 1 and len(of_method) > 1 and options.seeds_differ and _is_plateau(best, of_method):
        lams = sorted(lam_number(option.lam) for option in of_method if option.lam is not None)
        ends = f"{number(lams[0])} to {number(lams[-1])}"
        yield f"{best.method} has the same {aux} from {name} = {ends}, within the spread over seeds."
    elif best.lam != Tau(1.0) and len(of_method) > 1 and lam_number(best.lam) == max(map(lam_number, tried)):
        yield f"The best {name} of {best.method} is the largest tried: a larger one may improve {aux} further."


def _is_plateau(best: Option, options: list[Option]) -> bool:
    """True if no option has an aux that is certainly worse or better than that of the best."""
    pairs = [(best.aux, option.aux) for option in options]
    return not any(first.against(second).is_better() or second.against(first).is_better() for first, second in pairs)
