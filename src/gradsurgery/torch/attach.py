"""``Surgery.attach``: the state of a surgery inside that of an optimiser, and a guard on ``optimizer.step()``.

The state is stored parameter by parameter, beside the optimiser's own (``exp_avg`` and the like), as tensors under the
names ``surgery.<method>.average0``, ``surgery.<method>.steps``, ... So whatever saves, moves or reshards the state of
an optimiser does the same with the surgery's.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

PREFIX = "surgery."


class Stateful(Protocol):
    """Parameters, and the state of the method that trains them."""

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters, in the order of the snapshot."""

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state."""

    def load(self, saved: Mapping[str, Any]) -> None:
        """Load a state, checked first."""


def unwrap_optimizer(optimizer: Any) -> Optimizer:
    """The ``torch.optim`` optimiser inside the wrappers of Accelerate or Lightning."""
    inner = optimizer
    while isinstance(getattr(inner, "optimizer", None), Optimizer):
        inner = inner.optimizer
    if not isinstance(inner, Optimizer):
        raise TypeError(f"attach takes an optimiser of torch.optim, but got {optimizer!r}")
    return inner


def attach(optimizer: Optimizer, parts: Sequence[Stateful], has_gradients: Callable[[], bool]) -> None:
    """Register the hooks.

    Args:
        optimizer: the optimiser, unwrapped.
        parts: the parts of the surgery, a live list.
        has_gradients: returns whether there are gradients that were gathered and not applied.
    """

    def check_step(*_: Any) -> None:
        if has_gradients():
            raise RuntimeError(
                "optimizer.step() was called with gradients that the surgery has gathered but not applied: call "
                "surgery.apply() before optimizer.step()"
            )

    def save(optimizer: Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
        if has_gradients():
            warnings.warn(
                "optimizer.state_dict() does not contain the gradients that the surgery has gathered and not applied: "
                "call it after surgery.apply()",
                stacklevel=5,
            )
        entries = {key: entry for part in parts for key, entry in _split(part).items()}
        # the inner dictionaries are the optimiser's own: replace them, do not write to them
        state = dict(saved["state"])
        for parameter, index in zip(_parameters(optimizer), _keys(saved["param_groups"]), strict=True):
            if id(parameter) in entries:
                state[index] = {**state.get(index, {}), **entries[id(parameter)]}
        return {**saved, "state": state}

    def load(optimizer: Optimizer, saved: dict[str, Any]) -> dict[str, Any] | None:
        parameters, keys = _parameters(optimizer), _keys(saved["param_groups"])
        if len(parameters) != len(keys):
            return None  # the optimiser raises
        entries, state = {}, {}
        ids_by_key = dict(zip(keys, map(id, parameters), strict=True))
        for key, entry in saved["state"].items():
            of_surgery = {name: value for name, value in entry.items() if str(name).startswith(PREFIX)}
            if of_surgery and key in ids_by_key:
                entries[ids_by_key[key]] = of_surgery
            if len(of_surgery) < len(entry) or not of_surgery:
                state[key] = {name: value for name, value in entry.items() if name not in of_surgery}
        optimizer_ids = set(map(id, parameters))
        for part in parts:
            if any(id(parameter) in optimizer_ids for parameter in part.parameters):
                _load(part, optimizer_ids, entries)
        return {**saved, "state": state}

    optimizer.register_step_pre_hook(check_step)
    optimizer.register_state_dict_post_hook(save)
    optimizer.register_load_state_dict_pre_hook(load)


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _keys(param_groups: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The keys of the parameters in a saved state: numbers, or names from ``torch.distributed.checkpoint``."""
    return [key for group in param_groups for key in group["params"]]


def _split(part: Stateful) -> dict[int, dict[str, Tensor]]:
    """The state by the id of the parameter; scalars are repeated, as optimisers do with their count of steps."""
    saved = part.snapshot()
    prefix = f"{PREFIX}{saved['method']}."
    scalars = {f"{prefix}steps": torch.tensor(saved["steps"]), f"{prefix}mass": saved["mass"]}
    if saved["memory"]:
        scalars[f"{prefix}memory"] = torch.stack(saved["memory"])
    entries = {}
    for index, parameter in enumerate(part.parameters):
        averages = {
            f"{prefix}average{number}": level[index] for number, level in enumerate(saved["averages"]) if index in level
        }
        if averages or parameter.requires_grad:
            entries[id(parameter)] = {**averages, **{name: value.clone() for name, value in scalars.items()}}
    return entries


def _load(part: Stateful, optimizer_ids: set[int], entries: Mapping[int, Mapping[str, Tensor]]) -> None:
    """Load a part from an optimiser's state; parameters of other optimisers keep their averages.

    Args:
        part: the part.
        optimizer_ids: the ids of the optimiser's parameters.
        entries: the surgery's share of the saved state, by the id of the parameter.
    """
    entries_by_index = {index: entries[id(p)] for index, p in enumerate(part.parameters) if id(p) in entries}
    if not entries_by_index:
        warnings.warn(
            "the state that the optimiser loads has no part of the surgery that is attached to it, so it was saved "
            "without attach: the averages of the surgery stay as they are",
            stacklevel=6,
        )
        return
    fields: dict[str, Tensor] = {}
    methods = set()
    for entry in entries_by_index.values():
        for name, value in entry.items():
            method, field = name.removeprefix(PREFIX).rsplit(".", 1)
            methods.add(method)
            fields[field] = value
    saved = part.snapshot()
    averages = [
        {index: average for index, average in level.items() if id(part.parameters[index]) not in optimizer_ids}
        for level in saved["averages"]
    ]
    count = len([field for field in fields if field.startswith("average")])
    averages += [{} for _ in range(count - len(averages))]
    for index, entry in entries_by_index.items():
        for name, value in entry.items():
            field = name.rsplit(".", 1)[1]
            if field.startswith("average"):
                averages[int(field.removeprefix("average"))][index] = value
    part.load(
        {
            "method": " and ".join(sorted(methods)),
            "shapes": saved["shapes"],
            "steps": int(fields["steps"]),
            "mass": fields["mass"],
            "memory": list(fields["memory"].unbind()) if "memory" in fields else [],
            "averages": averages[:count],
        }
    )
