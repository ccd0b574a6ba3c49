"""How many entries of each database of operators passed; gathered from all workers."""

from collections import Counter, defaultdict

TALLY = defaultdict(Counter)  # by suite and dtype


def pack():
    """The tally in plain types, as a worker can send it."""
    return [[*key, dict(counts)] for key, counts in TALLY.items()]


def add(packed):
    for suite, dtype, counts in packed:
        TALLY[suite, dtype].update(counts)


def lines():
    for (suite, dtype), counts in sorted(TALLY.items()):
        line = [f"{suite}, {dtype}: {counts['entries']} entries"]
        for direction in ("forward", "backward"):
            if total := counts[f"{direction} all"]:
                passed = counts[f"{direction} passed"]
                share = 100 * passed / total
                line.append(f"{direction} {passed} of {total} ({share:.1f} %)")
        expected = sum(n for key, n in counts.items() if key.endswith(" expected"))
        line.append(f"{expected} expected failures")
        if refused := counts["refused"]:
            line.append(f"{refused} refused as on the CPU")
        yield ", ".join(line)
