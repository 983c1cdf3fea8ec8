"""The paper's problems and claims, as a client of the lab.

    gradsurgery sweep lipschitz           train a problem of the paper
    gradsurgery claims                    measure what the paper claims

One folder for each problem: ``problem`` declares it and imports no jax, ``train`` builds its losses, model and data,
``figure`` draws what only this problem has. They share ``training``, ``models`` and ``data``; ``claims`` is the ledger.
"""

from importlib.util import find_spec

_NEEDED = (
    "jax",
    "optax",
    "flax",
    "orbax",
    "grain",
    "datasets",
    "PIL",
    "sklearn",
    "tokenizers",
    "sacrebleu",
    "num2words",
)

for _name in _NEEDED:
    if find_spec(_name) is None:
        raise ModuleNotFoundError(f'gradsurgery.paper needs {_name}: pip install "gradsurgery[paper]"', name=_name)
