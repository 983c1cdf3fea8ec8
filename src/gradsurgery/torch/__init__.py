"""Gradient surgery for PyTorch: losses in, a direction added to ``.grad``, and any optimiser after it.

    >>> import torch
    >>> import gradsurgery as gs, gradsurgery.torch as gst
    >>> model = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    >>> surgery = gst.Surgery(model, gs.bloop(lam=0.1, rho=0.01))
    >>> x = torch.randn(16, 3)
    >>> for _ in range(3):
    ...     main_loss, aux_loss = model(x).square().mean(), model.weight.square().sum()
    ...     _ = surgery.backward(main_loss, aux_loss)      # gathers the gradient of each loss
    ...     surgery.apply()                                # adds the direction to .grad
    ...     optimizer.step(); optimizer.zero_grad()

A loss may also be a function that returns one: ``surgery.backward(main_fn, aux_fn)`` calls them in turn, so that only
one graph is alive at a time. Use this form with DistributedDataParallel.

``surgery.attach(optimizer)`` saves and loads the surgery's state with the optimiser's. ``explain(surgery)`` summarises
the conflict between the losses and advises on the method.
"""

# How a step passes through the files of this package:
#
#   backward   gather     an ordinary backward pass for each loss, its gradients put aside
#   apply      layout     the vectors of the parameters that take part, in blocks
#              step       inner products (passes), the method's plan for them (formula), direction and averages (passes)
#              state      new masses and scalars
#              gather     the direction is added to .grad

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'gradsurgery.torch needs torch: pip install "gradsurgery[torch]"', name=error.name
    ) from error

from gradsurgery.torch.diagnostics import explain
from gradsurgery.torch.surgery import Surgery

__all__ = ["Surgery", "explain"]
