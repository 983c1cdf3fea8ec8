"""Datasets for the lab's problems.

``hub`` loads a dataset by hub id or from a local folder, ``holdout`` decides what is held out for evaluation,
``shuffle`` determines the order of examples, and ``cache`` keeps files that are computed from a dataset once. ``text``
and ``images`` turn datasets into batches.
"""
