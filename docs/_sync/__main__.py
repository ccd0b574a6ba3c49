"""Writes generated text into the pages of the guide: `make docs-sync`.

A page has two comments, and what is between them is written by this command:

    <!-- code ../csrc/runtime/OpenRegGuard.h#guard -->
    <!-- end -->

code.py, reference.py, torch_tables.py and operators_table.py describe the first
comment. MyST's directives for code and pictures are rewritten as plain Markdown
(directives.py). With `--check` nothing is written; pages that are not current are
listed, and the exit status is 1.
"""

import re
import sys
from pathlib import Path

import operators_table
import reference
import torch_tables
from code_excerpts import Excerpt
from directives import plain

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^<!-- ([a-z-]+)((?: .+?)?) -->\n(.*?)^<!-- end -->$", re.M | re.S)
MAKERS = {
    "c-api": reference.c_api,
    "python-api": reference.python_api,
    "environment-variables": reference.environment_variables,
    "device-profiles": reference.device_profiles,
    "stubs-table": torch_tables.stubs_table,
    "kinds-table": torch_tables.kinds_table,
    "operators-table": operators_table.operators_table,
    "operators-counts": operators_table.operators_counts,
}


def pages() -> list[Path]:
    own = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [*sorted((ROOT / "docs").glob("*.md")), *own]


def made(page: Path, kind: str, words: str) -> str:
    """What belongs between the comments."""
    if kind == "code":
        return Excerpt(page, words).markdown()
    if kind not in MAKERS:
        raise ValueError(
            f"{page.name}: no `{kind}`; there are code, {', '.join(MAKERS)}"
        )
    text = re.sub(r"\n{3,}", "\n\n", MAKERS[kind](*words.split()).strip())
    return f"\n{text}\n"


def current(page: Path) -> str:
    """The text of a page as it should be."""

    def block(found: re.Match[str]) -> str:
        kind, words = found[1], found[2].strip()
        head = found[0].split("\n", 1)[0]
        text = re.sub(r"[ \t]+$", "", made(page, kind, words), flags=re.M)
        return f"{head}\n{text}\n<!-- end -->"

    return BLOCK.sub(block, plain(page.read_text()))


def main() -> None:
    stale = [
        (page, text) for page in pages() if (text := current(page)) != page.read_text()
    ]
    if "--check" in sys.argv[1:]:
        for page, _ in stale:
            print(
                f"{page.relative_to(ROOT)} is not current; `make docs-sync` writes it"
            )
        sys.exit(bool(stale))
    for page, text in stale:
        page.write_text(text)
        print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
