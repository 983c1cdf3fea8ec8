"""Reports: Pareto fronts, tables and figures of stored runs."""
