"""The grids of the paper's experiments."""

import numpy as np

COMPARED = ("mixed", "pcgrad", "dynamic_barrier", "bloop")
"""The methods that the paper compares."""


def powers_of_ten(low: float, high: float, count: int) -> tuple[float, ...]:
    """Numbers from 10^low to 10^high, evenly spaced on a logarithmic scale.

    Example:
        >>> powers_of_ten(-1, 1, 3)
        (0.1, 1.0, 10.0)
    """
    return tuple(float(10**exponent) for exponent in np.linspace(low, high, count))
