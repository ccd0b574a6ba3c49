"""Rows of `python -m torch_openreg.ops`, from the library that is built.

    <!-- operators-table PrivateUse1 -->    each operator
    <!-- operators-counts PrivateUse1 -->   how many each tier has

For a key other than that of dense tensors only openreg's own kernels are listed:
those that PyTorch fills in for every backend are the same everywhere.
"""

from collections import Counter

from torch_openreg import ops


def operators(key):
    own = [tier for tier in ops.ALL_TIERS if tier not in ("composite", "other")]
    return ops.operators(key=key, tiers=() if key == ops.DENSE else own)


def operators_counts(key):
    tiers = Counter((operator.tier, operator.runs) for operator in operators(key))
    rows = (f"| {tier} | {runs} | {n} |" for (tier, runs), n in tiers.most_common())
    return "\n".join(["| tier | runs | operators |", "| --- | --- | ---: |", *rows])


def operators_table(key):
    found = operators(key)
    return ops.markdown(found) if found else "None yet."
