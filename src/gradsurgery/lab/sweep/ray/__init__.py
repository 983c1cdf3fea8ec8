"""Sweeps on a Ray cluster: the ``driver`` submits a ``task`` for each run, and alone writes the store."""
