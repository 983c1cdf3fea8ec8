"""What a step of a method costs, from its formula: the tables under "Cost" on the method pages.

    python docs/methods/cost.py "gs.bloop(lam=0.1, rho=0.01)"

The first pass over memory reads every vector that is in an inner product, the second every vector that is in the
direction or in the update of an average; it writes the direction and the averages.
"""

import sys

import gradsurgery as gs
from gradsurgery.plan import basis, plan, required_products

SYMBOLS = {"main": "g_main", "aux": "g_aux", "average": "m"}
NUMBERS = ("no", "one", "two", "three")


def cost(call: str) -> tuple[str, str, str, str]:
    """The inner products, passes over memory, words per parameter and state of a method, as a page has them."""
    method: gs.Method = eval(call, {"gs": gs})
    products = required_products(method, 1)
    names = basis(method, 1)
    averaged = {*names[: method.averages], *names[2:]}
    combined = {*plan(method, names, dot=lambda a, b: 1.0).weights, *averaged}
    reads = len({name for pair in products for name in pair}) + len(combined)
    writes = 1 + method.averages
    return (
        ", ".join(f"⟨{SYMBOLS[a]}, {SYMBOLS[b]}⟩" for a, b in products) or "none",
        "two" if products else "one",
        f"{reads + writes}: {reads} read, {writes} written",
        ", ".join(
            f"{NUMBERS[count]} {kind}{'s' * (count > 1)}"
            for count, kind in ((method.averages, "average"), (len(method.memory), "scalar"))
            if count
        )
        or "none",
    )


if __name__ == "__main__":
    print(" | ".join(cost(sys.argv[1])))
