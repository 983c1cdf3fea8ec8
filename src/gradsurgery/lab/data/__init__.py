"""Datasets for the lab's problems.

``hub`` loads a dataset by hub id or from a local folder, ``holdout`` decides what is held out for evaluation,
``shuffle`` in which order examples are seen, and ``cache`` keeps what is computed from a dataset once. ``text`` and
``images`` turn datasets into batches.
"""
