"""``Surgery.attach``: the state of a surgery inside that of an optimiser.

The state is stored parameter by parameter, beside the optimiser's own (``exp_avg`` and the like), as tensors under the
names ``surgery.<method>.average0``, ``surgery.<method>.steps``, ... So tools that save, move or reshard the state of an
optimiser do the same with the surgery's.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from gradsurgery.torch.gather import Gatherer
from gradsurgery.torch.scalars import compute_dtype
from gradsurgery.torch.step import Part

PREFIX = "surgery."

Entries = dict[int, dict[str, Tensor]]
"""The surgery's share of an optimiser's state, by the id of the parameter."""


def unwrap_optimizer(optimizer: Any) -> Optimizer:
    """The ``torch.optim`` optimiser inside the wrappers of Accelerate or Lightning."""
    inner = optimizer
    while isinstance(getattr(inner, "optimizer", None), Optimizer):
        inner = inner.optimizer
    if not isinstance(inner, Optimizer):
        raise TypeError(f"attach needs an optimiser of torch.optim; got {optimizer!r}")
    return inner


_registered: "WeakKeyDictionary[Optimizer, list[tuple[Attachment, list[RemovableHandle]]]]" = WeakKeyDictionary()
"""The surgeries attached to an optimiser, and their hooks. A copy of an optimiser has no hooks."""


class Attachment:
    """A surgery attached to an optimiser.

    Args:
        optimizer: the optimiser, unwrapped.
        parts: the parts of the surgery, a live list.
        gatherer: holds the gradients that were gathered but not applied.
    """

    def __init__(self, optimizer: Optimizer, parts: Sequence[Part], gatherer: Gatherer) -> None:
        self.optimizer, self._parts, self._gatherer = optimizer, parts, gatherer
        self.loaded = False
        """Whether a state was loaded since the last step."""
        self._saves: int = 0

    def register(self) -> None:
        """Register the hooks, and load what an earlier ``optimizer.load_state_dict`` has left in the optimiser.

        A surgery that was attached with any of these parameters is detached.
        """
        optimizer, attached = self.optimizer, _registered.setdefault(self.optimizer, [])
        for other in list(attached):
            if _parameter_ids(other[0]._parts) & _parameter_ids(self._parts):
                attached.remove(other)
                for handle in other[1]:
                    handle.remove()
        try:
            handles = [
                optimizer.register_state_dict_post_hook(self._save),
                optimizer.register_load_state_dict_pre_hook(self._load),
            ]
        except AttributeError as error:  # a wrapper that has not called Optimizer.__init__
            raise self._no_hooks() from error
        try:
            self._check_saves()
            self.adopt()
        except BaseException:
            for handle in handles:
                handle.remove()
            raise
        attached.append((self, handles))

    def adopt(self) -> None:
        """Move the surgery's entries out of the optimiser's state: they are there after loading without the hooks."""
        found: Entries = {}
        for parameter in _parameters(self.optimizer):
            state = self.optimizer.state.get(parameter, {})
            if entry := {name: value for name, value in state.items() if str(name).startswith(PREFIX)}:
                found[id(parameter)] = entry
        dtypes = {parameter.dtype for parameter in _parameters(self.optimizer) if id(parameter) in found}
        if any(compute_dtype(dtype) != dtype for dtype in dtypes) or len(dtypes) > 1:
            raise ValueError(
                f"attach must come before optimizer.load_state_dict for parameters in "
                f"{' and '.join(sorted(map(str, dtypes)))}, in which the optimiser stores what it loads: attach, then "
                "load again"
            )
        found = {key: entry for key, entry in found.items() if key in _parameter_ids(self._parts)}
        if found:
            self._load_entries(found, set(map(id, _parameters(self.optimizer))))
        for parameter in _parameters(self.optimizer):
            for name in found.get(id(parameter), ()):
                del self.optimizer.state[parameter][name]

    def _check_saves(self) -> None:
        """Raise if the optimiser saves its state without running hooks."""
        if type(self.optimizer).state_dict is Optimizer.state_dict:
            return
        saves = self._saves
        with suppress(RuntimeError):  # of ZeroRedundancyOptimizer, whose state is spread over the processes
            self.optimizer.state_dict()
        if self._saves == saves:
            raise self._no_hooks()

    def _no_hooks(self) -> TypeError:
        return TypeError(
            f"attach needs an optimiser whose state_dict() runs hooks; got {type(self.optimizer).__name__}: save and "
            "load surgery.state_dict() beside it"
        )

    def _save(self, optimizer: Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
        self._saves += 1
        if self._gatherer.gradients:
            warnings.warn(
                "optimizer.state_dict() does not contain the gradients that the surgery has gathered but not applied: "
                "call it after surgery.apply()",
                stacklevel=5,
            )
        keys = dict(zip(map(id, _parameters(optimizer)), _parameter_keys(saved["param_groups"]), strict=True))
        # the inner dictionaries are the optimiser's own: replace them, do not write to them
        state = dict(saved["state"])
        for part in self._parts:
            entries = {keys[item]: entry for item, entry in _split_by_parameter(part).items() if item in keys}
            stepped = entries.keys() & saved["state"].keys()
            averaged = {keys[id(parameter)] for parameter in part.state.averaged() if id(parameter) in keys}
            everywhere = not stepped or part.state.steps == 0  # torch.distributed.checkpoint loads into what it finds
            for key, entry in entries.items():
                # an optimiser without the surgery takes a parameter that has any entries for one that it has stepped
                if everywhere or key in stepped or key in averaged:
                    state[key] = {**state.get(key, {}), **entry}
        return {**saved, "state": state}

    def _load(self, optimizer: Optimizer, saved: dict[str, Any]) -> dict[str, Any] | None:
        if _group_sizes(optimizer.param_groups) != _group_sizes(saved["param_groups"]):
            return None  # the optimiser raises
        _check_order(optimizer.param_groups, saved["param_groups"])
        ids_by_key = dict(zip(_parameter_keys(saved["param_groups"]), map(id, _parameters(optimizer)), strict=True))
        surgery_ids = _parameter_ids(self._parts)
        entries: Entries = {}
        state = {}
        for key, entry in saved["state"].items():
            surgery_entry, optimizer_entry = {}, entry
            if ids_by_key.get(key) in surgery_ids:  # another surgery may be attached for the other parameters
                surgery_entry = {name: value for name, value in entry.items() if str(name).startswith(PREFIX)}
                optimizer_entry = {name: value for name, value in entry.items() if name not in surgery_entry}
            if surgery_entry:
                entries[ids_by_key[key]] = surgery_entry
            if optimizer_entry or not surgery_entry:
                state[key] = optimizer_entry
        self._load_entries(entries, set(ids_by_key.values()))
        return {**saved, "state": state}

    def _load_entries(self, entries: Entries, optimizer_ids: set[int]) -> None:
        states = []
        for part in self._parts:
            if any(id(parameter) in entries for parameter in part.parameters):
                states.append((part, _join_entries(part, optimizer_ids, entries)))
            elif any(id(parameter) in optimizer_ids for parameter in part.parameters):
                warnings.warn(
                    "the state that is loaded into the optimiser has no entries of the attached surgery, so it was "
                    "saved without attach: the averages of the surgery stay as they are",
                    stacklevel=6,
                )
        for part, part_state in states:  # check all before loading any
            part.state.check(part_state)
        for part, part_state in states:
            part.load(part_state)
        self.loaded = True
        self._gatherer.clear()


def check_loaded(attachments: Sequence[Attachment]) -> None:
    """Before a step: adopt states that were loaded without hooks, and warn if not all optimisers were loaded."""
    for attachment in attachments:
        if type(attachment.optimizer).load_state_dict is not Optimizer.load_state_dict:
            attachment.adopt()
    loaded = [attachment.loaded for attachment in attachments]
    if any(loaded) and not all(loaded):
        warnings.warn(
            f"the surgery is attached to {len(loaded)} optimisers, and a state was loaded into {sum(loaded)}: load all "
            "of them, as the others keep their averages",
            stacklevel=5,
        )
    for attachment in attachments:
        attachment.loaded = False


def _parameter_ids(parts: Sequence[Part]) -> set[int]:
    return {id(parameter) for part in parts for parameter in part.parameters}


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _parameter_keys(param_groups: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The keys of the parameters in a saved state: numbers, or names from ``torch.distributed.checkpoint``."""
    return [key for group in param_groups for key in group["params"]]


def _group_sizes(param_groups: Sequence[Mapping[str, Any]]) -> list[int]:
    return [len(group["params"]) for group in param_groups]


def _check_order(groups: Sequence[Mapping[str, Any]], saved: Sequence[Mapping[str, Any]]) -> None:
    """Raise if a state has the optimiser's parameters in another order, as far as both have names."""
    for group, saved_group in zip(groups, saved, strict=True):
        names, saved_names = group.get("param_names", []), saved_group.get("param_names", [])
        if names != saved_names and sorted(names) == sorted(saved_names):
            raise ValueError(
                "the state that is loaded must have the parameters in the optimiser's order; got another order of the "
                "same names: register a hook that sorts them before surgery.attach(optimizer)"
            )


def _split_by_parameter(part: Part) -> Entries:
    """The state by the id of the parameter; scalars are repeated, as optimisers repeat their step count."""
    saved = part.state.snapshot()
    prefix = f"{PREFIX}{saved['method']}."
    scalars = {f"{prefix}steps": torch.tensor(saved["steps"])}
    if saved["memory"]:
        scalars[f"{prefix}memory"] = torch.stack(saved["memory"])
    entries = {}
    for index, parameter in enumerate(part.parameters):
        own = {
            f"{prefix}average{number}": level[index] for number, level in enumerate(saved["averages"]) if index in level
        }
        if index in saved["mass"]:
            own[f"{prefix}mass"] = saved["mass"][index]
        if own or parameter.requires_grad:
            entries[id(parameter)] = {**own, **{name: value.clone() for name, value in scalars.items()}}
    return entries


def _join_entries(part: Part, optimizer_ids: set[int], entries: Mapping[int, Mapping[str, Tensor]]) -> dict[str, Any]:
    """The state of a part from that of an optimiser; parameters of other optimisers keep their averages.

    Args:
        part: the part.
        optimizer_ids: the ids of the optimiser's parameters.
        entries: the surgery's share of the saved state, by the id of the parameter.
    """
    saved = part.state.snapshot()
    elsewhere = {index for index, parameter in enumerate(part.parameters) if id(parameter) not in optimizer_ids}
    mass = {index: value for index, value in saved["mass"].items() if index in elsewhere}
    averages = [{index: value for index, value in level.items() if index in elsewhere} for level in saved["averages"]]
    scalars: dict[str, Tensor] = {}
    methods, levels = set(), 0
    for index, parameter in enumerate(part.parameters):
        for name, value in entries.get(id(parameter), {}).items():
            method, field = name.removeprefix(PREFIX).rsplit(".", 1)
            methods.add(method)
            if field == "mass":
                mass[index] = value
            elif field.startswith("average"):
                level = int(field.removeprefix("average"))
                levels = max(levels, level + 1)
                averages += [{} for _ in range(levels - len(averages))]
                averages[level][index] = value
            else:
                scalars[field] = value
    return {
        "method": " and ".join(sorted(methods)),
        "names": saved["names"],
        "shapes": saved["shapes"],
        "steps": int(scalars["steps"]),
        "mass": mass,
        "memory": list(scalars["memory"].unbind()) if "memory" in scalars else [],
        "averages": averages[:levels],
    }
