"""Runs the cases of strict mode and tells the outcome of each as JSON, as strict.json
has what a GPU did: "ok" or the exception, and the warnings.

    python strict.py
"""

import json
import re
import warnings

from misuse import m
from strict_cases import attention_cases, integer_cases
from strict_determinism import determinism_cases

LONGEST = 330  # letters of a sentence in the record


def told(message):
    """Without where PyTorch's sources have it, which is another line in each release."""
    return re.sub(r"\s*\(Triggered internally at .*", "", str(message))[:LONGEST]


def outcome(call):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            call()
            m.synchronize()
            result = ["ok"]
        except Exception as error:
            result = [f"{type(error).__name__}: {str(error)[:LONGEST]}"]
    return result + [told(warning.message) for warning in given]


def main():
    outcomes = {}
    for cases in (attention_cases, integer_cases, determinism_cases):
        for label, call in cases():
            assert label not in outcomes, label
            outcomes[label] = outcome(call)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
