"""Sweeps: the runs of a grid, shared by workers, and their progress."""
