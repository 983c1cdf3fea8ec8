"""One of two processes that run examples in turn: ``python -m tests.torch_front.example_process PORT=SCRIPT ...``.

Sharing two processes saves two starts of PyTorch for each script. ``torchrun`` would set the same variables.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    for argument in sys.argv[1:]:
        port, script = argument.split("=")
        os.environ["MASTER_PORT"] = port
        print(f"## {script}", flush=True)
        runpy.run_path(script, run_name="__main__")
