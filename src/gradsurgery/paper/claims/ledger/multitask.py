"""Section 5.3, "Multi-task learning", and the appendix's two datasets."""

from gradsurgery.paper.claims.claim import Claim, Grid, Statistic
from gradsurgery.paper.claims.fronts import best_mixture
from gradsurgery.paper.claims.ledger.bias import BOTH
from gradsurgery.paper.claims.ledger.criteria import ALIKE, FIVE, THREE, ahead
from gradsurgery.paper.claims.rule import Rule

# Three λ in each grid, at laptop around those where mixed's losses are lowest: these runs take long.
CLAIMS = (
    Claim(
        id="C19",
        sentence="On Cifar10Mnist, Bloop gets a slightly improved Pareto front.",
        section="5.3 Multi-task learning",
        problem="cifar10mnist",
        grids={
            "demo": Grid("demo", THREE, BOTH, lams=(1.0, 3.0, 10.0)),
            "laptop": Grid("laptop", THREE, BOTH, lams=(0.3, 1.0, 3.0)),
        },
        statistics=ahead("bloop", "mixed", "train"),
        decides="A slight lead needs more seeds, or the scale paper: ResNet18, 100 epochs of batches of 256.",
    ),
    Claim(
        id="C20",
        sentence=(
            "On two datasets with little conflict (ImageNet and CIFAR-10), Bloop leads to the same Pareto front as "
            "the other methods."
        ),
        section="C Additional Experiment",
        problem="imagenet-cifar10",
        grids={
            "demo": Grid("demo", THREE, BOTH, lams=(0.3, 1.0, 3.0)),
            "laptop": Grid("laptop", FIVE, BOTH, lams=(0.3, 1.0, 10.0)),
        },
        statistics=tuple(
            Statistic(
                f"lowest {name} over λ, bloop / mixed − 1, train",
                best_mixture("bloop", "mixed", "train", t),
                Rule(-ALIKE, ALIKE),
                percent=True,
            )
            for name, t in (("main", 0.0), ("(main + aux) / 2", 0.5))
        ),
        decides="More seeds. The fronts have one or two points, too few for a hypervolume.",
    ),
)
