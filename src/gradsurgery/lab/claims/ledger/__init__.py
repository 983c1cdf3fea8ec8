"""All claims, in the order of the paper. Add one to the file of its section, with the next free id."""

from gradsurgery.lab.claims.claim import Claim
from gradsurgery.lab.claims.ledger import algorithm, bias, joint, multitask, theory
from gradsurgery.lab.errors import unknown

__all__ = ["CLAIMS", "SCALES", "select"]

CLAIMS: dict[str, Claim] = {
    claim.id: claim for module in (algorithm, theory, bias, multitask, joint) for claim in module.CLAIMS
}
"""Id -> claim."""
SCALES = ("demo", "laptop")


def select(ids: list[str]) -> list[Claim]:
    """The claims with these ids, or all without any."""
    chosen = dict.fromkeys(given.upper() for given in ids)
    for given in chosen:
        if given not in CLAIMS:
            raise unknown("claim", given, CLAIMS)
    return [CLAIMS[given] for given in chosen or CLAIMS]
