"""Two dimensions, where the solution is known: mixed training is slow or wrong, Bloop is neither."""
