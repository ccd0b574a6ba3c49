"""Code that pages quote, from the file that has it.

    <!-- code ../csrc/x.cpp#name -->        between the markers `docs:begin` and `docs:end`
    <!-- code ../x.py from "a" to "b" -->   from the line with a to the line with b
    <!-- code ../x.py before "b" -->        from the top to the line above the one with b
    <!-- code ../x.py def name -->          a function or class of Python
    <!-- code ../x.toml -->                 the whole file

` as text` at the end gives it another language than that of its suffix.
"""

import ast
import re
import textwrap
from pathlib import Path

LANGUAGES = {
    ".c": "c",
    ".cmake": "cmake",
    ".cpp": "cpp",
    ".h": "cpp",
    ".inl": "cpp",
    ".py": "python",
    ".sh": "bash",
    ".toml": "toml",
    ".txt": "cmake",
}
MARKER = re.compile(r"docs:(begin|end) ([\w-]+)")
PLACE = re.compile(
    r"(?P<path>[^\s#]+)(?:#(?P<marker>[\w-]+))?(?: def (?P<object>\w+))?"
    r'(?: from "(?P<first>.*?)")?(?: to "(?P<last>.*?)")?(?: before "(?P<stop>.*?)")?'
    r"(?: as (?P<language>\w+))?"
)


class Excerpt:
    """The part of a file that a comment on a page names."""

    def __init__(self, page: Path, words: str):
        place = PLACE.fullmatch(words)
        if not place:
            raise ValueError(f"{page.name}: cannot read `code {words}`")
        vars(self).update(place.groupdict())
        self.page, self.words = page, words
        self.file = (page.parent / self.path).resolve()

    def __repr__(self):
        where = self.marker or self.object or self.first or ""
        return f"{self.page.name}:{self.file.name}:{where}"

    def line_with(self, words: str, lines: list[str]) -> int:
        """The number of the only line that has the words."""
        found = [i for i, line in enumerate(lines) if words in line]
        if len(found) != 1:
            raise ValueError(f"{self}: {len(found)} lines have `{words}`")
        return found[0]

    def lines(self) -> list[str]:
        text = self.file.read_text()
        lines = text.splitlines()
        begin, end = 0, len(lines)
        if self.marker:
            begin = self.marked("begin", lines) + 1
            end = self.marked("end", lines)
        elif self.object:
            (node,) = (
                node
                for node in ast.parse(text).body
                if getattr(node, "name", None) == self.object
            )
            begin, end = node.lineno - 1, node.end_lineno
        else:
            begin = self.line_with(self.first, lines) if self.first else 0
            end = self.line_with(self.last, lines) + 1 if self.last else end
            end = self.line_with(self.stop, lines) if self.stop else end
        return [line for line in lines[begin:end] if not MARKER.search(line)]

    def marked(self, kind: str, lines: list[str]) -> int:
        wanted = (kind, self.marker)
        found = [
            i
            for i, line in enumerate(lines)
            if (marker := MARKER.search(line)) and marker.groups() == wanted
        ]
        if len(found) != 1:
            raise ValueError(f"{self}: {len(found)} lines have `docs:{kind}`")
        return found[0]

    def markdown(self) -> str:
        text = textwrap.dedent("\n".join(self.lines())).strip("\n")
        if not text:
            raise ValueError(f"{self}: nothing to show")
        language = self.language or LANGUAGES[self.file.suffix]
        return f"```{language}\n{text}\n```"
