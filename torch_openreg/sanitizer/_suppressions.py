"""Suppressions: findings that a file leaves out.

A line is a kind of finding, a colon and a pattern as the shell's, or a comment that
begins with `#`. The pattern is compared with operators, with files and with functions of
all stacks:

    race:aten::record_something     # an operator
    race:*/legacy/loader.py         # a file
    leak:cache_*                    # a function
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from ._finding import CHECK_OF, Finding


class Suppressions:
    """The lines of a file of suppressions."""

    def __init__(self, path: str | Path | None) -> None:
        self.patterns: list[tuple[str, str]] = []
        lines = Path(path).read_text().splitlines() if path else []
        for number, text in enumerate(lines, 1):
            line = text.partition("#")[0].strip()
            kind, colon, pattern = line.partition(":")
            kinds = {*CHECK_OF, *CHECK_OF.values()}
            if not line:
                continue
            if not colon or not pattern.strip() or kind not in kinds:
                raise ValueError(
                    f"{path}:{number}: expected a kind of finding, a colon and a "
                    f"pattern, but got {text!r}; kinds are {', '.join(sorted(kinds))}"
                )
            self.patterns.append((kind, pattern.strip()))

    def cover(self, finding: Finding) -> bool:
        """Whether a suppression leaves the finding out."""
        return any(
            kind in (finding.kind, finding.check)
            and any(fnmatchcase(word, pattern) for word in _words(finding))
            for kind, pattern in self.patterns
        )


def _words(finding: Finding) -> Iterator[str]:
    stacks = [finding.allocated, finding.freed]
    for access in (finding.earlier, finding.later):
        if access:
            yield access.operator
            stacks += [access.frames, access.forward, access.replayed]
    for frames in stacks:
        for frame in frames:
            yield frame.file
            yield frame.function
