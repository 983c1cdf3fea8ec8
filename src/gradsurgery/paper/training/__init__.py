"""Training: chunks of steps, batches, devices, several processes, checkpoints."""

import os

# Our matrices are small: more threads in the linear algebra library cost more than they gain, above all on a busy
# machine. The library that jax uses reads the variable when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
