"""A warning about trainable parameters that a loss reaches and that no surgery trains."""

import gc
import warnings
from collections.abc import Sequence

from torch import Tensor
from torch.nn import Module

SHOWN = 5
"""The number of parameters that the warning names."""


def warn_uncovered(uncovered: Sequence[Tensor]) -> None:
    """Warn, at the caller of ``Surgery.backward``, how many parameters are left out, and name the first few."""
    count, names = len(uncovered), _names(uncovered)
    shown = ", ".join(names[:SHOWN]) + (", ..." if count > SHOWN else "")
    warnings.warn(
        f"this Surgery does not train {count} trainable parameter{'s' * (count != 1)} that the losses reach ({shown}): "
        f"add {'them' if count != 1 else 'it'} to params, or call requires_grad_(False) if this is intended",
        stacklevel=4,
    )


def _names(parameters: Sequence[Tensor]) -> list[str]:
    """The name of each parameter in the outermost module that holds it, or its shape."""
    names: dict[int, str] = {}
    wanted = {id(parameter) for parameter in parameters}
    # a parameter does not know the modules that hold it, so search all live objects; this happens once
    for module in [item for item in gc.get_objects() if issubclass(type(item), Module)]:
        for name, parameter in module.named_parameters():
            if id(parameter) in wanted and name.count(".") >= names.get(id(parameter), "").count("."):
                names[id(parameter)] = name
    return [names.get(id(parameter), f"of shape {tuple(parameter.shape)}") for parameter in parameters]
