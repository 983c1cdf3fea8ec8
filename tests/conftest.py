"""Settings for the whole test run, made before jax starts."""

import os
from importlib.util import find_spec
from pathlib import Path

from hypothesis import settings

settings.register_profile("project", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("project")

# what one process has compiled, the others need not
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

if find_spec("jaxlib"):  # not jax: the folder of its tests would be found
    import jax

    jax.config.update("jax_num_cpu_devices", 8)
