"""Settings for the whole test run, made before jax starts."""

from contextlib import suppress

from hypothesis import settings

settings.register_profile("project", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("project")

with suppress(ModuleNotFoundError):
    import jax

    jax.config.update("jax_num_cpu_devices", 8)
