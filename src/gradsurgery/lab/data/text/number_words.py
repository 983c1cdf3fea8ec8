"""Pairs to translate that need no download: numbers in English and in German words."""

import numpy as np


def cardinals(held_out: bool) -> list[tuple[str, str]]:
    """5,000 numbers below a million, of all lengths; held out, 500 others."""
    exponents = np.random.default_rng(0).uniform(0, 6, 12_000)
    return _part([int(10**exponent) for exponent in exponents], "cardinal", held_out, 5000, 500)


def years(held_out: bool) -> list[tuple[str, str]]:
    """200 of the years from 1000 to 2099; held out, 500 others. They are read in another way: twenty twenty-six."""
    return _part(list(range(1000, 2100)), "year", held_out, 200, 500)


def _part(numbers: list[int], kind: str, held_out: bool, train: int, test: int) -> list[tuple[str, str]]:
    from num2words import num2words

    different = np.random.default_rng(2).permutation(sorted(set(numbers))).tolist()
    assert len(different) >= train + test, len(different)
    chosen = different[train : train + test] if held_out else different[:train]
    return [(num2words(number, lang="en", to=kind), num2words(number, lang="de", to=kind)) for number in chosen]
