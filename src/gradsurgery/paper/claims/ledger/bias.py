"""Section 5.2, "Imposing an explicit bias during training": smooth networks and small weights."""

from gradsurgery.paper.claims.claim import Claim, Grid
from gradsurgery.paper.claims.ledger.criteria import FIVE, THREE, ahead, alike
from gradsurgery.paper.grid import COMPARED

SECTION = "5.2 Imposing an explicit bias"
BOTH = ("mixed", "bloop")
LIPSCHITZ_LAMS = (10**-3, 10**-2, 10**-1.5, 10**-1, 10**-0.5, 1.0)
"""At laptop: below 0.001 mixed trains like main alone."""
LIPSCHITZ = {"demo": Grid("demo", FIVE, COMPARED), "laptop": Grid("laptop", THREE, COMPARED, LIPSCHITZ_LAMS)}
LIPSCHITZ_BOTH = {"demo": Grid("demo", FIVE, BOTH), "laptop": Grid("laptop", FIVE, BOTH, LIPSCHITZ_LAMS)}
WEIGHTS = {"demo": Grid("demo", THREE, BOTH), "laptop": Grid("laptop", FIVE, BOTH)}
OTHER_IMAGES = {
    "demo": Grid("demo", THREE, BOTH, settings={"main_data": "photographs"}),
    "laptop": Grid("laptop", THREE, BOTH, LIPSCHITZ_LAMS, settings={"main_data": "uoft-cs/cifar10"}),
}
LONGER = "The scale paper: 100 epochs instead of 10 at laptop."

CLAIMS = (
    Claim(
        id="C12",
        sentence="Training smooth networks, Bloop leads to a significantly better Pareto front on the training loss.",
        section=SECTION,
        problem="lipschitz",
        grids=LIPSCHITZ_BOTH,
        statistics=ahead("bloop", "mixed", "train"),
        decides=LONGER,
    ),
    Claim(
        id="C13",
        sentence="Training smooth networks, Bloop’s front on the test loss is slightly better.",
        section=SECTION,
        problem="lipschitz",
        grids=LIPSCHITZ_BOTH,
        statistics=ahead("bloop", "mixed", "test"),
        decides=LONGER,
    ),
    Claim(
        id="C14",
        sentence="Training smooth networks, PCGrad and DB perform similarly to the mixed method.",
        section=SECTION,
        problem="lipschitz",
        grids=LIPSCHITZ,
        statistics=(*alike("pcgrad", "mixed", "train"), *alike("dynamic_barrier", "mixed", "train")),
        decides="More seeds, or λ closer together: interpolation between few points adds to the difference.",
    ),
    Claim(
        id="C15",
        sentence="Training smooth networks, Bloop leads to a better front on other images.",
        section=f"{SECTION}; other data",
        problem="lipschitz",
        grids=OTHER_IMAGES,
        statistics=ahead("bloop", "mixed", "train"),
        decides="More seeds; any dataset of images and labels can be tried with --set main_data=….",
    ),
    Claim(
        id="C16",
        sentence=(
            "Training networks with small weights, Bloop leads to a significantly better Pareto front on the "
            "training loss."
        ),
        section=SECTION,
        problem="weights",
        grids=WEIGHTS,
        statistics=ahead("bloop", "mixed", "train"),
        decides="ResNet50 on ImageNet, the scale paper. At demo a narrow residual network sees 320 images.",
    ),
    Claim(
        id="C17",
        sentence="Training networks with small weights, Bloop’s front on the test loss is significantly better.",
        section=SECTION,
        problem="weights",
        grids=WEIGHTS,
        statistics=ahead("bloop", "mixed", "test"),
        decides="ResNet50 on ImageNet, the scale paper. At demo a narrow residual network sees 320 images.",
    ),
    Claim(
        id="C18",
        sentence="Training networks with small weights, PCGrad and DB have similar performance to the mixed method.",
        section="B Experimental Details, Imagenet training with L2 regularization",
        problem="weights",
        grids={"laptop": Grid("laptop", THREE, COMPARED)},
        statistics=(*alike("pcgrad", "mixed", "train"), *alike("dynamic_barrier", "mixed", "train")),
        decides="More seeds, or λ closer together: interpolation between few points adds to the difference.",
    ),
)
