"""``Surgery.attach``: the state of a surgery inside that of an optimiser, and a guard on ``optimizer.step()``.

The state is stored parameter by parameter, beside the optimiser's own (``exp_avg`` and the like), as tensors under the
names ``surgery.<method>.average0``, ``surgery.<method>.steps``, ... So tools that save, move or reshard the state of an
optimiser do the same with the surgery's.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from gradsurgery.torch.gradients import Gatherer
from gradsurgery.torch.part import Part

PREFIX = "surgery."


def unwrap_optimizer(optimizer: Any) -> Optimizer:
    """The ``torch.optim`` optimiser inside the wrappers of Accelerate or Lightning."""
    inner = optimizer
    while isinstance(getattr(inner, "optimizer", None), Optimizer):
        inner = inner.optimizer
    if not isinstance(inner, Optimizer):
        raise TypeError(f"attach takes an optimiser of torch.optim, but got {optimizer!r}")
    return inner


_attached: WeakKeyDictionary[Optimizer, list[tuple[Sequence[Part], list[RemovableHandle]]]] = WeakKeyDictionary()
"""The parts of the surgeries attached to an optimiser, and their hooks. A copy of an optimiser has no hooks."""


def attach(optimizer: Optimizer, parts: Sequence[Part], gatherer: Gatherer) -> None:
    """Register the hooks, once. A surgery that was attached with any of these parameters is detached.

    Args:
        optimizer: the optimiser, unwrapped.
        parts: the parts of the surgery, a live list.
        gatherer: holds the gradients that were gathered but not applied.
    """
    surgeries = _attached.setdefault(optimizer, [])
    if any(other is parts for other, _ in surgeries):
        return
    for other, handles in list(surgeries):
        if _parameter_ids(other) & _parameter_ids(parts):
            for handle in handles:
                handle.remove()
            surgeries.remove((other, handles))

    def check_step(*_: Any) -> None:
        if gatherer.gradients:
            raise RuntimeError(
                "optimizer.step() was called with gradients that the surgery has gathered but not applied: call "
                "surgery.apply() before optimizer.step()"
            )

    def save(optimizer: Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
        if gatherer.gradients:
            warnings.warn(
                "optimizer.state_dict() does not contain the gradients that the surgery has gathered but not applied: "
                "call it after surgery.apply()",
                stacklevel=5,
            )
        entries = {key: entry for part in parts for key, entry in _split_by_parameter(part).items()}
        # the inner dictionaries are the optimiser's own: replace them, do not write to them
        state = dict(saved["state"])
        for parameter, index in zip(_parameters(optimizer), _parameter_keys(saved["param_groups"]), strict=True):
            if id(parameter) in entries:
                state[index] = {**state.get(index, {}), **entries[id(parameter)]}
        return {**saved, "state": state}

    def load(optimizer: Optimizer, saved: dict[str, Any]) -> dict[str, Any] | None:
        if _group_sizes(optimizer.param_groups) != _group_sizes(saved["param_groups"]):
            return None  # the optimiser raises
        ids_by_key = dict(zip(_parameter_keys(saved["param_groups"]), map(id, _parameters(optimizer)), strict=True))
        surgery_ids = _parameter_ids(parts)
        entries, state = {}, {}
        for key, entry in saved["state"].items():
            surgery_entry, optimizer_entry = {}, entry
            if ids_by_key.get(key) in surgery_ids:  # another surgery may be attached for the other parameters
                surgery_entry = {name: value for name, value in entry.items() if str(name).startswith(PREFIX)}
                optimizer_entry = {name: value for name, value in entry.items() if name not in surgery_entry}
            if surgery_entry:
                entries[ids_by_key[key]] = surgery_entry
            if optimizer_entry or not surgery_entry:
                state[key] = optimizer_entry
        optimizer_ids = set(ids_by_key.values())
        states = []
        for part in parts:
            if any(id(parameter) in entries for parameter in part.parameters):
                states.append((part, _join_entries(part, optimizer_ids, entries)))
            elif any(id(parameter) in optimizer_ids for parameter in part.parameters):
                warnings.warn(
                    "the state that is loaded into the optimiser has no entries of the attached surgery, so it was "
                    "saved without attach: the averages of the surgery stay as they are",
                    stacklevel=5,
                )
        for part, part_state in states:  # check all before loading any
            part.check(part_state)
        for part, part_state in states:
            part.load(part_state)
        gatherer.clear()
        return {**saved, "state": state}

    handles = [
        optimizer.register_step_pre_hook(check_step),
        optimizer.register_state_dict_post_hook(save),
        optimizer.register_load_state_dict_pre_hook(load),
    ]
    surgeries.append((parts, handles))


def _parameter_ids(parts: Sequence[Part]) -> set[int]:
    return {id(parameter) for part in parts for parameter in part.parameters}


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _parameter_keys(param_groups: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The keys of the parameters in a saved state: numbers, or names from ``torch.distributed.checkpoint``."""
    return [key for group in param_groups for key in group["params"]]


def _group_sizes(param_groups: Sequence[Mapping[str, Any]]) -> list[int]:
    return [len(group["params"]) for group in param_groups]


def _split_by_parameter(part: Part) -> dict[int, dict[str, Tensor]]:
    """The state by the id of the parameter; scalars are repeated, as optimisers repeat their step count."""
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


def _join_entries(part: Part, optimizer_ids: set[int], entries: Mapping[int, Mapping[str, Tensor]]) -> dict[str, Any]:
    """The state of a part from that of an optimiser; parameters of other optimisers keep their averages.

    Args:
        part: the part.
        optimizer_ids: the ids of the optimiser's parameters.
        entries: the surgery's share of the saved state, by the id of the parameter.
    """
    entries_by_index = {index: entries[id(p)] for index, p in enumerate(part.parameters) if id(p) in entries}
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
    return {
        "method": " and ".join(sorted(methods)),
        "shapes": saved["shapes"],
        "steps": int(fields["steps"]),
        "mass": fields["mass"],
        "memory": list(fields["memory"].unbind()) if "memory" in fields else [],
        "averages": averages[:count],
    }
