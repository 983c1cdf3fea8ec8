"""Gradient surgery for PyTorch: losses in, the direction in ``.grad`` out, any optimiser behind it.

    >>> import torch
    >>> import gradsurgery as gs, gradsurgery.torch as gst
    >>> model = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    >>> surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.1, rho=0.01))
    >>> x = torch.randn(16, 3)
    >>> for _ in range(3):
    ...     main_loss, aux_loss = model(x).square().mean(), model.weight.square().sum()
    ...     _ = surgery.backward(main_loss, aux_loss)      # gathers each loss's gradient apart
    ...     surgery.apply()                                # .grad is now the direction
    ...     optimizer.step(); optimizer.zero_grad()

A loss may also be a function that returns one: ``surgery.backward(main_fn, aux_fn)`` calls them in turn, so that one
graph lives at a time. That is the form for DistributedDataParallel.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'gradsurgery.torch needs torch: pip install "gradsurgery[torch]"', name=error.name
    ) from error

from gradsurgery.torch.surgery import Surgery

__all__ = ["Surgery"]
