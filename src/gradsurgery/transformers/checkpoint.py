"""The surgery's state and the auxiliary loader's position, in files beside those of ``Trainer``."""

import warnings
from pathlib import Path

import torch
from transformers import TrainingArguments

import gradsurgery.torch as gst
from gradsurgery.transformers.aux_batches import AuxBatches
from gradsurgery.transformers.random_stream import RandomStream

SURGERY_FILE = "surgery.pt"
"""The state of the surgery."""
AUX_FILE = "aux_state_{}.pt"
"""For each process, the position of its auxiliary loader and its random numbers."""


def save_checkpoint(
    folder: str, args: TrainingArguments, surgery: gst.Surgery, batches: AuxBatches | None, forward: RandomStream
) -> None:
    """Save what a run needs to continue bit for bit; every process calls this."""
    Path(folder).mkdir(parents=True, exist_ok=True)  # another process may not have made it yet
    if args.should_save:
        torch.save(surgery.state_dict(), Path(folder, SURGERY_FILE))
    state = {"batches": None if batches is None else batches.state_dict(), "forward": forward.state_dict()}
    torch.save(state, Path(folder, AUX_FILE.format(args.process_index)))


def load_checkpoint(
    folder: str, args: TrainingArguments, surgery: gst.Surgery, batches: AuxBatches | None, forward: RandomStream
) -> None:
    """Continue from a checkpoint; warns if it was saved by plain ``Trainer``."""
    surgery_file, aux_file = Path(folder, SURGERY_FILE), Path(folder, AUX_FILE.format(args.process_index))
    missing = [file.name for file in (surgery_file, aux_file) if not file.exists()]
    if missing:
        warnings.warn(
            f"the checkpoint {folder} has no {' and no '.join(missing)}, so it was not saved by SurgeryTrainer with "
            "this number of processes: what is missing starts from scratch (averages at zero, the auxiliary loader at "
            "its first batch)",
            stacklevel=2,
        )
    if surgery_file.exists():
        surgery.load_state_dict(torch.load(surgery_file, map_location="cpu", weights_only=True))
    if aux_file.exists():
        state = torch.load(aux_file, map_location="cpu", weights_only=True)
        forward.load_state_dict(state["forward"])
        if batches is not None and state["batches"] is not None and not args.ignore_data_skip:
            batches.load_state_dict(state["batches"])
