"""Better fronts on data that nothing was tuned on, with the settings of the claim that they repeat, as C15 is."""

from gradsurgery.paper.claims.claim import Claim, Grid
from gradsurgery.paper.claims.ledger.bias import BOTH
from gradsurgery.paper.claims.ledger.criteria import FIVE, THREE, ahead
from gradsurgery.paper.claims.ledger.joint import REGISTERED

CLAIMS = (
    Claim(
        id="C29",
        sentence="Training networks with small weights, Bloop leads to a better front on other images.",
        section="5.2 Imposing an explicit bias; other data",
        problem="weights",
        grids={"laptop": Grid("laptop", FIVE, BOTH, settings={"main_data": "uoft-cs/cifar10"}, registered=REGISTERED)},
        statistics=ahead("bloop", "mixed", "train"),
        decides="CIFAR-10 in place of MNIST; any dataset of images and labels can be tried with --set main_data=….",
    ),
    Claim(
        id="C30",
        sentence="With two labels for one image, Bloop gets a better front with other digits.",
        section="5.3 Multi-task learning; other data",
        problem="cifar10mnist",
        grids={
            "laptop": Grid(
                "laptop", THREE, BOTH, lams=(0.3, 1.0, 3.0), settings={"aux_data": "digits"}, registered=REGISTERED
            )
        },
        statistics=ahead("bloop", "mixed", "train"),
        decides="The digits of scikit-learn in place of MNIST's. A slight lead needs more seeds.",
    ),
    Claim(
        id="C31",
        sentence="Pre-training a transformer, Bloop gets a better front on two other corpora.",
        section="5.4 Joint training on two datasets; other data",
        problem="language",
        grids={
            "laptop": Grid(
                "laptop",
                THREE,
                BOTH,
                lams=(0.4, 0.8, 1.6, 3.2),
                settings={"main_data": "reuters", "aux_data": "python-topics"},
                registered=REGISTERED,
            )
        },
        statistics=ahead("bloop", "mixed", "train"),
        decides="News as the large corpus and Python's help topics as the small one; more seeds.",
    ),
)
