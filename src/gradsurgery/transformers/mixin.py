"""``SurgeryMixin``: the training step, logs, evaluation and checkpoints of ``SurgeryTrainer``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch._functorch.config
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import EvalLoopOutput

import gradsurgery.torch as gst
from gradsurgery.method import Method
from gradsurgery.transformers.aux_batches import AuxBatches
from gradsurgery.transformers.aux_loss import AuxLossFunction
from gradsurgery.transformers.checkpoint import load_checkpoint, save_checkpoint
from gradsurgery.transformers.checks import check_arguments, check_outputs, check_setup
from gradsurgery.transformers.random_stream import RandomStream

_DATA_SEED, _FORWARD_SEED = 1_000_003, 2_000_003
"""Added to ``args.seed``; large, because loaders add the epoch to their seed."""

if TYPE_CHECKING:
    _Base = Trainer
else:
    _Base = object


class SurgeryMixin(_Base):
    """What ``SurgeryTrainer`` adds to ``Trainer``, for other subclasses of ``Trainer``. Put it first among the bases.

        class SurgerySFTTrainer(SurgeryMixin, SFTTrainer): ...

    The arguments are those of ``SurgeryTrainer``. TRL's ``SFTTrainer`` prepares ``train_dataset`` only, so
    ``aux_dataset`` must be tokenized already (columns ``input_ids`` and, if prompts are masked, ``labels``). The
    metrics that it collects in ``compute_loss`` (``entropy``, ``mean_token_accuracy``, ``num_tokens``) are over the
    batches of both losses.
    """

    surgery: gst.Surgery
    """The surgery, from the start of ``train`` on."""
    _aux_batches: AuxBatches | None
    _aux_pending: list[dict[str, Any]]
    """The auxiliary micro-batches of this step that are still to come."""
    _aux_items: Tensor | int | None
    """The number of items in the auxiliary micro-batches of this step."""
    _outputs: Any
    """The outputs of the last forward pass, if ``compute_aux_loss`` takes them."""
    _loss_sums: dict[str, Tensor]
    """The losses since the last log, summed on the device."""
    _loss_steps: int

    def __init__(
        self,
        *args: Any,
        method: Method,
        aux_dataset: Any = None,
        compute_aux_loss: Callable[..., Tensor] | None = None,
        aux_batch_size: int | None = None,
        aux_eval_dataset: Any = None,
        average_dtype: torch.dtype | None = None,
        **kwargs: Any,
    ) -> None:
        check_arguments(method, aux_dataset, compute_aux_loss, aux_batch_size)
        self.method, self.average_dtype = method, average_dtype
        self.aux_dataset, self.aux_eval_dataset, self.aux_batch_size = aux_dataset, aux_eval_dataset, aux_batch_size
        self.compute_aux_loss = None if compute_aux_loss is None else AuxLossFunction(compute_aux_loss)
        self._resume_from: str | None = None
        self._evaluating_aux = False
        super().__init__(*args, **kwargs)
        check_setup(self)
        if self.args.torch_compile and self._shares_forward:
            torch._functorch.config.donated_buffer = False  # the graph of one forward pass serves two backward passes
        self._forward_stream = RandomStream(self.args.seed + _FORWARD_SEED, self.args.device)
        self.add_callback(_StartSurgery(self))

    def create_surgery(self, model: nn.Module) -> gst.Surgery:
        """The surgery on the wrapped model; override for ``compile=True``, ``measure=True`` or groups."""
        return gst.Surgery(model, self.method, average_dtype=self.average_dtype)

    def get_aux_dataloader(self) -> DataLoader[Any]:
        """The auxiliary loader, made as ``get_train_dataloader`` makes the training loader."""
        return self._get_dataloader(
            dataset=self.aux_dataset,
            description="Auxiliary",
            batch_size=self.aux_batch_size or self._train_batch_size,
            sampler_fn=self._get_train_sampler,  # type: ignore[arg-type]
            is_training=True,
        )

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Gather the gradients of both losses; in the last micro-batch of a step, leave the direction in ``.grad``."""
        losses: dict[str, Tensor] = {}
        aux_inputs, aux_items = self._next_aux_batch() if self._aux_batches else (inputs, num_items_in_batch)
        main = partial(self._record, losses, "main_loss", partial(self._main_loss, model, inputs, num_items_in_batch))
        aux = partial(self._record, losses, "aux_loss", partial(self._aux_loss, model, aux_inputs, aux_items))
        if self._shares_forward:
            self.surgery.backward(main(), aux())
        else:
            self.surgery.backward(main, aux)  # one graph is alive at a time, and DDP synchronises each
        self._outputs = None
        for name, value in losses.items():
            self._loss_sums[name] = self._loss_sums.get(name, 0) + value.float()
        if self.accelerator.sync_gradients:
            self.surgery.apply(scaler=self.accelerator.scaler)
            self._loss_steps += 1
        return losses["main_loss"]

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The main loss; the outputs are kept if ``compute_aux_loss`` takes them."""
        function = self.compute_aux_loss
        if function is None or not (self._evaluating_aux or function.takes_outputs):
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss, outputs = super().compute_loss(model, dict(inputs), True, num_items_in_batch)
        self._outputs = outputs
        if self._evaluating_aux:
            loss = self._call_aux_function(function, model, inputs, num_items_in_batch)
        return (loss, outputs) if return_outputs else loss

    @property
    def _shares_forward(self) -> bool:
        """True if both losses come from one forward pass; DDP would synchronise the first backward pass only."""
        function = self.compute_aux_loss
        return function is not None and function.takes_outputs and self.accelerator.num_processes == 1

    def _next_aux_batch(self) -> tuple[dict[str, Any], Tensor | int | None]:
        """The auxiliary micro-batch, and the number of items in all micro-batches of this step."""
        assert self._aux_batches is not None
        if not self._aux_pending:
            self._aux_pending, self._aux_items = self.get_batch_samples(
                self._aux_batches, self.current_gradient_accumulation_steps, self.args.device
            )
        return self._aux_pending.pop(0), self._aux_items

    def _main_loss(self, model: nn.Module, inputs: dict[str, Any], num_items: Tensor | int | None) -> Tensor:
        loss = self._trainer_loss(model, inputs, num_items)
        if not self._shares_forward:
            self._outputs = None
        return loss

    def _aux_loss(self, model: nn.Module, inputs: dict[str, Any], num_items: Tensor | int | None) -> Tensor:
        function = self.compute_aux_loss
        with self._forward_stream:
            if function is None:
                return self._trainer_loss(model, inputs, num_items)
            if function.takes_outputs and not self._shares_forward:
                self._trainer_loss(model, inputs, num_items)
            if function.takes_outputs:
                check_outputs(self._outputs, type(self).__name__)
            with self.compute_loss_context_manager():
                loss = self._call_aux_function(function, model, self._prepare_inputs(inputs), num_items)
        is_sum = function.takes_num_items and num_items is not None
        return loss if is_sum else loss / self.current_gradient_accumulation_steps

    def _call_aux_function(
        self, function: AuxLossFunction, model: nn.Module, inputs: dict[str, Any], num_items: Tensor | int | None
    ) -> Tensor:
        loss = function(model, inputs, self._outputs, num_items)
        if function.takes_num_items and num_items is not None and self.args.average_tokens_across_devices:
            loss = loss * self.accelerator.num_processes  # num_items is over all processes, and DDP averages
        return loss

    def _trainer_loss(self, model: nn.Module, inputs: dict[str, Any], num_items: Tensor | int | None) -> Tensor:
        """The loss whose gradient ``Trainer`` would compute, scaled for accumulation as ``Trainer`` scales it."""
        with self._capture_backward() as losses:
            super().training_step(model, inputs, num_items)
        if len(losses) != 1:
            raise RuntimeError(
                f"SurgeryMixin needs one call of accelerator.backward in training_step, but {type(self).__name__} made "
                f"{len(losses)}"
            )
        return losses[0]

    @contextmanager
    def _capture_backward(self) -> Iterator[list[Tensor]]:
        """Collects losses where ``training_step`` would call ``accelerator.backward``."""
        losses: list[Tensor] = []
        self.accelerator.backward = lambda loss, **_: losses.append(loss)
        try:
            yield losses
        finally:
            del self.accelerator.backward

    def _record(self, losses: dict[str, Tensor], name: str, compute: Callable[[], Tensor]) -> Tensor:
        """Compute a loss, record its value for the log, and scale it for float16."""
        loss = compute()
        losses[name] = loss.detach()
        return loss if self.accelerator.scaler is None else self.accelerator.scaler.scale(loss)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log; with ``loss``, add both losses and the surgery's diagnostics, averaged over the same steps."""
        if "loss" in logs and self._loss_steps:
            sums = self.accelerator.reduce(torch.stack(list(self._loss_sums.values())), reduction="mean")
            logs |= dict(zip(self._loss_sums, (sums / self._loss_steps).tolist(), strict=True))
            for name, value in self.surgery.diagnostics().items():
                if "mean_" in name:
                    logs[f"surgery/{name.replace('mean_', '')}"] = value.item()
            self.surgery.reset_means()
            self._loss_sums, self._loss_steps = {}, 0
        super().log(logs, start_time)

    def evaluation_loop(
        self,
        dataloader: DataLoader[Any],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Evaluate; on ``aux_eval_dataset`` too, reporting its loss as ``eval_aux_loss``."""
        output = super().evaluation_loop(dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix)
        if self.aux_eval_dataset is not None and description == "Evaluation":
            self._evaluating_aux = True
            try:
                with self._forward_stream:
                    # not get_eval_dataloader, which returns a cached loader if workers are persistent
                    loader = self.get_test_dataloader(self.aux_eval_dataset)
                    aux = super().evaluation_loop(
                        loader,
                        "Auxiliary evaluation",
                        prediction_loss_only=True,
                        metric_key_prefix=f"{metric_key_prefix}_aux",
                    )
            finally:
                self._evaluating_aux = False
            name = f"{metric_key_prefix}_aux_loss"
            if name not in aux.metrics:  # type: ignore[operator]
                raise ValueError(
                    "aux_eval_dataset must have examples with labels, without which Trainer computes no loss; got none"
                )
            output.metrics[name] = aux.metrics[name]  # type: ignore[index]
        self._outputs = None  # frees those of the last batch
        return output

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        save_checkpoint(output_dir, self.args, self.surgery, self._aux_batches, self._forward_stream)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        self._resume_from = checkpoint

    def _start(self) -> None:
        """Make the surgery and the auxiliary loader, when the model is wrapped; load their states to resume."""
        self.surgery = self.create_surgery(self.model_wrapped)
        self._forward_stream = RandomStream(self.args.seed + _FORWARD_SEED, self.args.device)
        self._aux_batches = None
        if self.aux_dataset is not None:
            stream = RandomStream(self.args.seed + _DATA_SEED, self.args.device)
            with stream:
                loader = self.get_aux_dataloader()
            self._aux_batches = AuxBatches(loader, stream)
        self._aux_pending = []
        self._aux_items = None
        self._outputs = None
        self._loss_sums, self._loss_steps = {}, 0
        if self._resume_from is not None:
            load_checkpoint(self._resume_from, self.args, self.surgery, self._aux_batches, self._forward_stream)
            self._resume_from = None


class _StartSurgery(TrainerCallback):
    """Starts the surgery when the model is wrapped and the checkpoint is loaded, and each step with new batches."""

    def __init__(self, trainer: SurgeryMixin) -> None:
        self._trainer = trainer

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self._trainer._start()

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self._trainer._aux_pending = []  # left over if a callback ended the epoch in the middle of a step
