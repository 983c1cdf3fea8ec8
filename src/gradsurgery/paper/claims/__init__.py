"""The claims ledger: every claim of the paper, measured on runs of the lab, with its spread over seeds.

    gradsurgery claims                    train what is missing at the scale demo, and print the verdicts
    gradsurgery claims C12 C13            some of them

A claim (``claim.py``) names a problem, a grid of runs, what is measured on them, and a rule, all fixed before the runs:
it holds if the 95 % interval over seeds is where the rule says, does not hold if it is elsewhere, and is undecided
otherwise. ``ledger/`` has the claims, one file per section of the paper.
"""
