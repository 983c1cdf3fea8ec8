"""A byte-level language model on two corpora: a large, generic one and one that is small enough to overfit."""
