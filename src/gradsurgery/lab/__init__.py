"""The lab: problems, sweeps over methods and weights, and the Pareto fronts that come of them."""
