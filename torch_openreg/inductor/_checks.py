"""Checks of data in kernels with several threads.

A kernel checks indices and throws. An exception that leaves a loop of OpenMP, or a block
that one of its threads runs, ends the process; so it is caught in there, and thrown
again behind all of them.
"""

import re

_LOOP = re.compile(r"#pragma omp (?:parallel )?for(?: collapse\((\d+)\))?[^\n]*\n")
_SINGLE = re.compile(r"#pragma omp single[^\n]*\n\s*\{")
_CHECKS = re.compile(r"\bTORCH_CHECK\(")
_FUNCTION = 'extern "C"'

_FAILURE = """#include <atomic>
#include <stdexcept>
#include <string>

struct openreg_failure {
    std::atomic<bool> noted{false};
    std::string text;
    void note(const char* what) {
        if (!noted.exchange(true)) {
            text = what;
        }
    }
    void raise() const {
        if (noted.load()) {
            throw std::runtime_error(text);
        }
    }
};

"""
_CATCH = "} catch (const std::exception& error) { openreg_failed.note(error.what()); }"


def _end_of_block(source: str, start: int) -> int:
    """Where the block ends whose first character is at `start`."""
    depth = 1
    for place in range(start, len(source)):
        depth += {"{": 1, "}": -1}.get(source[place], 0)
        if depth == 0:
            return place
    raise ValueError("a block does not end")


def _body_of_loop(source: str, start: int, nested: int) -> int:
    """Where the body of a loop begins, which is the last of `nested` ones."""
    for _ in range(nested):
        start = source.index("{", source.index("for", start)) + 1
    return start


def throw_behind_loops(source: str) -> str:
    """The source of a kernel whose checks may fail on any thread."""
    if "#pragma omp " not in source or not _CHECKS.search(source):
        return source
    edits: list[tuple[int, str]] = []
    bodies = [
        _body_of_loop(source, loop.end(), int(loop[1] or 1))
        for loop in _LOOP.finditer(source)
    ]
    bodies += [block.end() for block in _SINGLE.finditer(source)]
    for body in bodies:
        edits += [(body, "try {"), (_end_of_block(source, body), _CATCH)]
    function = source.rindex(_FUNCTION)
    body = source.index("{", source.index(")", function)) + 1
    edits += [
        (function, _FAILURE),
        (body, "openreg_failure openreg_failed;"),
        (_end_of_block(source, body), "openreg_failed.raise();"),
    ]
    for place, text in sorted(edits, reverse=True):
        source = source[:place] + text + source[place:]
    return source
