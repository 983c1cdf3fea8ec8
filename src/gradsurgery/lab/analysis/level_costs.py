"""What an auxiliary loss costs the ones above it: its λ against λ = 0 with all else equal, paired by seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradsurgery.lab.analysis.change import Change
from gradsurgery.lab.analysis.options import Option
from gradsurgery.lab.analysis.recommend import Advice
from gradsurgery.lab.lam import Weight, lam_number, named_numbers


@dataclass(frozen=True)
class LevelCost:
    """An option beside the same one without one of its auxiliary losses."""

    option: Option
    without: str
    """What the other one lacks, such as ``λ₂ = 0``."""
    changes: tuple[Change, ...]
    """Of main and of every auxiliary loss."""

    @property
    def name(self) -> str:
        """For example ``bloop, λ₁ = 0.3, λ₂ = 0.03 against λ₂ = 0``."""
        return f"{self.option.name} against {self.without}"


def level_costs(advice: Advice) -> list[LevelCost]:
    """For each method, at its recommended λ, what each λ of an auxiliary loss below the first changes."""
    chosen = (best.option for best in advice.recommendations if best.option)
    return [cost for best in chosen for cost in _of_method(advice.options.by_method[best.method], best)]


def _of_method(options: Sequence[Option], best: Option) -> Iterator[LevelCost]:
    lams = best.lam if isinstance(best.lam, tuple) else ()
    others = (option for option in options if option.variant._replace(lower=()) == best.variant._replace(lower=()))
    by_lam = {option.lam: option for option in others}
    for place in range(1, len(lams)):

        def with_lam(lam: Weight, place: int = place) -> tuple[Weight, ...]:
            return *lams[:place], lam, *lams[place + 1 :]

        without, name = by_lam.get(with_lam(0.0)), named_numbers(with_lam(0.0))[place][0]
        for lam in sorted({lam[place] for lam in by_lam if isinstance(lam, tuple)} - {0.0}, key=lam_number):
            option = by_lam.get(with_lam(lam))
            if without and option and option.main.against(without.main).seeds:
                yield LevelCost(option, f"{name} = 0", tuple(map(Change.against, option.changes, without.changes)))
