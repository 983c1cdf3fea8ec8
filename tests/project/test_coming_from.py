"""Our snippets run, and where the other library is installed, train like its snippet beside them."""

import re
from functools import partial
from pathlib import Path

import jax.numpy as jnp
import optax
import pytest
import torch
from numpy.testing import assert_allclose
from torch.nn.functional import mse_loss

import gradsurgery as gs

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
BLOCKS = re.findall(r"^```\{code-block\} python\n:caption: ([\w-]+)\n\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
PAIRS = [(name, theirs, ours) for (name, theirs), (_, ours) in zip(BLOCKS[::2], BLOCKS[1::2], strict=True)]


def make_namespace():
    """The names that the snippets use: a model with two conflicting losses, its optimiser and its data."""
    torch.manual_seed(0)
    trunk, heads = torch.nn.Linear(4, 3), torch.nn.ModuleList([torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)])
    model = torch.nn.ModuleList([trunk, heads])
    heads[1].load_state_dict(heads[0].state_dict())
    x, target = torch.randn(8, 4), torch.randn(8, 1)
    labels = {"main": target, "aux": 0.2 * torch.randn(8, 1) - target}  # in conflict
    features = trunk(x)
    return {
        "model": model,
        "trunk": trunk,
        "heads": heads,
        "features": features,
        "main_loss": mse_loss(heads[0](features), labels["main"]),
        "aux_loss": mse_loss(heads[1](features), labels["aux"]),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "train_loader": [(x, labels)],
        "loss_fn": mse_loss,
    }


def train_with(snippet):
    names = make_namespace()
    exec(compile(snippet, "coming-from.md", "exec"), names)
    return [parameter.detach() for parameter in names["model"].parameters()]


def test_the_losses_conflict_in_the_trunk():
    names = make_namespace()
    main, aux = (
        torch.cat(
            [
                gradient.flatten()
                for gradient in torch.autograd.grad(names[loss], names["trunk"].parameters(), retain_graph=True)
            ]
        )
        for loss in ("main_loss", "aux_loss")
    )
    assert main @ aux < 0


def test_every_library_has_a_pair_of_snippets():
    assert {name for name, _ in BLOCKS[1::2]} == {"gradsurgery"}
    assert [name for name, _, _ in PAIRS] == ["Pytorch-PCGrad", "TorchJD", "TorchJD", "LibMTL", "ml-bloop"]


@pytest.mark.parametrize(("theirs", "ours"), [pair[1:] for pair in PAIRS if pair[0] == "TorchJD"])
def test_torchjd_and_ours_train_alike(theirs, ours):
    pytest.importorskip("torchjd")
    start = [parameter.detach() for parameter in make_namespace()["model"].parameters()]
    for before, expected, actual in zip(start, train_with(theirs), train_with(ours), strict=True):
        assert not torch.equal(before, actual)
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_pcgrad_is_the_sum_of_the_corrected_gradients():
    (ours,) = [pair[2] for pair in PAIRS if pair[0] == "Pytorch-PCGrad"]
    (torchjd, _) = [pair[2] for pair in PAIRS if pair[0] == "TorchJD"]
    for first, second in zip(train_with(ours), train_with(torchjd), strict=True):
        assert torch.equal(first, second)


def test_the_loop_in_place_of_libmtl_trains_trunk_and_heads():
    (ours,) = [pair[2] for pair in PAIRS if pair[0] == "LibMTL"]
    start = [parameter.detach() for parameter in make_namespace()["model"].parameters()]
    assert not any(torch.equal(before, after) for before, after in zip(start, train_with(ours), strict=True))


def test_the_transformation_in_place_of_ml_bloop_takes_a_step():
    (ours,) = [pair[2] for pair in PAIRS if pair[0] == "ml-bloop"]
    main, aux = jnp.array([1.0, 0.0]), jnp.array([-5.0, 2.0])
    names = {"optax": optax, "params": jnp.zeros(2), "main_grads": main, "aux_grads": aux}
    exec(compile(ours, "coming-from.md", "exec"), names)
    assert_allclose(names["params"], -0.1 * gs.Reference(gs.bloop(lam=0.3, rho=0.1))(main, aux), rtol=1e-6)


ROWS = re.findall(r"^\| TorchJD's `(.*?)` \| `(.*?)` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("theirs", "ours"), ROWS)
def test_a_row_of_the_table_gives_the_same_direction(theirs, ours):
    aggregation = pytest.importorskip("torchjd.aggregation")
    pair = torch.tensor([[1.0, 0.5, 0.0], [-3.0, 2.0, 1.0]], dtype=torch.float64)
    expected = eval(theirs, {**vars(aggregation), "tensor": partial(torch.tensor, dtype=torch.float64)})(pair)
    assert_allclose(gs.Reference(eval(ours, {"gs": gs}))(*pair.numpy()), expected.numpy(), atol=1e-3)


def test_the_table_has_five_rows_for_torchjd():
    assert len(ROWS) == 5
