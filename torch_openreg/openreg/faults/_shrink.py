"""The smallest part of a set that still makes something fail."""

from collections.abc import Callable


def smallest(items: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A part of ``items`` that still fails, of which no single item can be left out.

    This is delta debugging: parts and their complements are tried, from halves down to
    single items, the later ones first. ``fails`` is called with lists in the order of ``items``, never twice
    with the same one; ``items`` itself is known to fail.
    """
    known: dict[tuple[int, ...], bool] = {}

    def still_fails(part: list[int]) -> bool:
        key = tuple(part)
        if key not in known:
            known[key] = fails(part)
        return known[key]

    if still_fails([]):
        return []
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        starts = reversed(range(0, len(items), size))
        pieces = [items[start : start + size] for start in starts]
        rests = [[i for i in items if i not in set(piece)] for piece in pieces]
        for smaller in pieces + rests:
            if len(smaller) < len(items) and still_fails(smaller):
                parts = 2 if smaller in pieces else max(parts - 1, 2)
                items = smaller
                break
        else:
            if parts >= len(items):
                break
            parts = min(2 * parts, len(items))
    return items
