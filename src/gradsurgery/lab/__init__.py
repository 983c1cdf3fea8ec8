"""The lab: problems, sweeps over methods and weights, and the Pareto fronts that come of them.

    gradsurgery list
    gradsurgery sweep lipschitz
    gradsurgery report

From Python, ``gradsurgery.lab.problems.PROBLEMS`` holds the problems, ``gradsurgery.lab.sweeps.sweep.sweep`` runs them.
"""

import os

# our matrices are small: threads of the linear algebra under jax would cost more than they bring, much more on a busy
# machine, where they wait for one another. Read when that library is loaded, so set before.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
