"""Beyond the paper: Bloop against rivals that are newer than it, on the problems where it leads most clearly."""

from gradsurgery.lab.method import register_method
from gradsurgery.paper.claims.claim import Claim, Grid
from gradsurgery.paper.claims.ledger.bias import LIPSCHITZ_LAMS
from gradsurgery.paper.claims.ledger.criteria import FIVE, ahead
from gradsurgery.paper.weights.cautious import cautious

SECTION = "beyond the paper"
REGISTERED = "2026-11-18 (8931734)"
CAUTIOUS = register_method(cautious)
CAUTIOUS_LAMS = (1e-3, 3e-3, 1e-2, 3e-2, 0.1)
"""With these, on seed 100, the front of cautious weight decay overlaps with Bloop's."""

CLAIMS = (
    Claim(
        id="C32",
        sentence="Training networks with small weights, Bloop’s front is better than priority-constrained descent’s.",
        section=SECTION,
        problem="weights",
        grids={"laptop": Grid("laptop", FIVE, ("bloop", "pcd"), registered=REGISTERED)},
        statistics=ahead("bloop", "pcd", "train"),
        decides="More τ where the fronts overlap.",
    ),
    Claim(
        id="C33",
        sentence="Training smooth networks, Bloop’s front is better than priority-constrained descent’s.",
        section=SECTION,
        problem="lipschitz",
        grids={"laptop": Grid("laptop", FIVE, ("bloop", "pcd"), LIPSCHITZ_LAMS, registered=REGISTERED)},
        statistics=ahead("bloop", "pcd", "train"),
        decides="More τ where the fronts overlap.",
    ),
    Claim(
        id="C34",
        sentence="Training networks with small weights, Bloop’s front is better than cautious weight decay’s.",
        section=SECTION,
        problem="weights",
        grids={"laptop": Grid("laptop", FIVE, ("bloop", CAUTIOUS), CAUTIOUS_LAMS, registered=REGISTERED)},
        statistics=ahead("bloop", CAUTIOUS, "train"),
        decides="Other optimisers: cautious weight decay was proposed for Adam, Lion and Muon; here it follows SGD.",
    ),
)
