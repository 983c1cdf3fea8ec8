"""Gradient surgery for PyTorch: losses in, a direction added to ``.grad``, and any optimiser after it.

    >>> import torch
    >>> import gradsurgery as gs, gradsurgery.torch as gst
    >>> model = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    >>> surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.1, rho=0.01))
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

A step runs through the files of this package in order: ``gradients`` (gather), then for the ``part`` of each method
``blocks`` (lay out), ``passes`` (inner products), ``formula`` (plan), ``passes`` (combine), ``state``.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'gradsurgery.torch needs torch: pip install "gradsurgery[torch]"', name=error.name
    ) from error

from gradsurgery.torch.explain import explain
from gradsurgery.torch.surgery import Surgery

__all__ = ["Surgery", "explain"]
