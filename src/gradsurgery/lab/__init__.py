"""The lab: problems, sweeps over methods, weights and seeds, and reports of the resulting Pareto fronts.

    gradsurgery list
    gradsurgery sweep lipschitz
    gradsurgery report lipschitz

From Python, ``gradsurgery.lab.problems.PROBLEMS`` holds the problems, ``gradsurgery.lab.sweeps.sweep`` trains a grid of
runs and ``gradsurgery.lab.store.Store`` reads what is stored. Importing any of these loads no jax.
"""

import os

# Our matrices are small: more threads in the linear algebra library cost more than they gain, above all on a busy
# machine. The library reads the variable when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
