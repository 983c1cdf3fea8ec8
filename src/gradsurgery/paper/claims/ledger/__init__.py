"""All claims, in the order of the paper. Add one to the file of its section, with the next free id."""

from gradsurgery.lab.errors import unknown
from gradsurgery.paper.claims.claim import Claim
from gradsurgery.paper.claims.ledger import algorithm, beyond, bias, joint, multitask, other_data, theory

__all__ = ["CLAIMS", "SCALES", "select"]

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for module in (algorithm, theory, bias, multitask, joint, other_data, beyond)
    for claim in module.CLAIMS
}
"""Id -> claim."""
SCALES = ("demo", "laptop")


def select(ids: list[str]) -> list[Claim]:
    """The claims with these ids; all of them for an empty list."""
    chosen = dict.fromkeys(claim_id.upper() for claim_id in ids)
    for claim_id in chosen:
        if claim_id not in CLAIMS:
            raise unknown("claim", claim_id, CLAIMS)
    return [CLAIMS[claim_id] for claim_id in chosen or CLAIMS]
