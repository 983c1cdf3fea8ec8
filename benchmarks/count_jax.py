"""Words that a jitted step moves per parameter, counted in the module that XLA compiles: the same on every machine.

A step is the surgery, Adam and the addition to the parameters, with the state donated. Each instruction of the compiled
module reads its operands from memory and writes its results, so their sizes add up to the traffic. No device is needed:
XLA compiles for accelerators too, wherever its compilers for them are found. In a folder apart, JAX does not look for
devices at every start:

    version=$(python -c "import jax; print(jax.__version__)")
    pip install --no-deps --target compilers jax-cuda12-plugin==$version jax-cuda12-pjrt==$version libtpu
    PYTHONPATH=compilers JAX_PLATFORMS=cpu python -m benchmarks.count_jax
"""

import math
import os
import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.experimental import topologies

import gradsurgery as gs
import gradsurgery.jax as gsj
from benchmarks.harness import Measure, Plan

SHAPES = [(8192, 8192), (8192,)]  # too large for a TPU's on-chip memory
CASES: dict[str, tuple[optax.GradientTransformation | None, int]] = {
    "no surgery": (None, 0),
    "mixed": (gsj.surgery(gs.mixed(lam=0.1)), 1),
    "bloop": (gsj.surgery(gs.bloop(lam=0.1)), 1),
    "bloop, average in bfloat16": (gsj.surgery(gs.bloop(lam=0.1), average_dtype=jnp.bfloat16), 1),
    "bloop, relative lam": (gsj.surgery(gs.bloop(lam=gs.relative(0.3))), 1),
    "bloop, two levels": (gsj.surgery(gs.bloop(lam=(0.1, 0.01))), 2),
    "pcgrad with an average": (gsj.surgery(gs.pcgrad(lam=0.1, rho=0.01)), 1),
}
"""A surgery, and the number of auxiliary gradients to give it."""

H100 = """
platform_name: "CUDA"
device_description_str: "NVIDIA H100 80GB HBM3"
dnn_version_info { major: 9 minor: 8 }
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  registers_per_block_limit: 65536
  registers_per_core_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  l2_cache_size: 52428800
  memory_bandwidth: 3352320000000
  device_memory_size: 84978434048
}
"""
"""What XLA wants to know about the GPU that it compiles for."""


def measure(plan: Plan) -> list[Measure]:
    """The words of each case on each platform that XLA can compile for here."""
    return [
        Measure(f"jax on {platform}: {case}, with Adam's update", [words(case, device())], "words per parameter")
        for platform, device in platforms().items()
        for case in (list(CASES)[2:3] if plan.quick else CASES)
    ]


def platforms() -> dict[str, Callable[[], jax.Device]]:
    """The platforms that XLA can compile for here, each with a function that makes a device to compile for."""
    found = {"CPU": lambda: jax.devices("cpu")[0]}
    if find_spec("jax_plugins") and find_spec("jax_plugins.xla_cuda12"):
        found["H100"] = lambda: _first_device("cuda", "h100", topology="1x1x1", target_config=H100)
    if find_spec("libtpu"):
        # or libtpu would ask a metadata server for the host it runs on
        os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost"}
        found["TPU v5e"] = lambda: _first_device("tpu", "v5e:2x2")
    return found


def words(case: str, device: jax.Device) -> float:
    """The words of four bytes that a step reads and writes per parameter."""
    surgery, aux_count = CASES[case]
    tx = optax.chain(*([surgery] if surgery else []), optax.adam(1e-3))

    def step(params: Any, state: Any, main: Any, *aux: Any) -> Any:
        updates, state = tx.update(main, state, params, **({"aux": aux} if aux else {}))
        return optax.apply_updates(params, updates), state

    sharding = jax.sharding.SingleDeviceSharding(device)
    params = [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding) for shape in SHAPES]
    state = jax.tree.map(lambda leaf: leaf.update(sharding=sharding), jax.eval_shape(tx.init, params))
    compiled = jax.jit(step, donate_argnums=(0, 1)).lower(params, state, *[params] * (1 + aux_count)).compile()
    return bytes_moved(compiled.as_text()) / 4 / sum(map(math.prod, SHAPES))


def bytes_moved(module: str) -> int:
    """The sizes of the operands and results of all instructions in the entry computation of a compiled module."""
    entry = re.search(r"^ENTRY .*?^}", module, re.DOTALL | re.MULTILINE)
    assert entry
    sizes: dict[str, int] = {}
    moved = 0
    for name, result, operation, operands in INSTRUCTION.findall(entry[0]):
        sizes[name] = _size(result)
        if operation not in FREE:
            moved += sizes[name] + sum(sizes[operand] for operand in re.findall(r"%([\w.-]+)", operands))
    return moved


INSTRUCTION = re.compile(r"^ *(?:ROOT )?%([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*?)\)(?:,|$)", re.MULTILINE)
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "copy-done", "slice-done"}
"""Instructions that move nothing, or whose traffic is counted where they start."""


def _size(shapes: str) -> int:
    """The bytes of an array or of a tuple of arrays, as in ``(f32[8,4]{1,0}, bf16[])``."""
    return sum(
        math.prod(int(length) for length in lengths.split(",") if length) * max(int(bits or 8) // 8, 1)
        for bits, lengths in re.findall(r"\b(?:pred|[a-z]+(\d+))\[([\d,]*)\]", shapes)
    )


def _first_device(platform: str, name: str, **options: Any) -> jax.Device:
    return topologies.get_topology_desc(topology_name=name, platform=platform, **options).devices[0]


if __name__ == "__main__":
    for line in measure(Plan()):
        print(f"{line.median:6.1f}  {line.name}")
