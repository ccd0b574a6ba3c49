"""Rewrites MyST's directives as Markdown that every renderer shows.

An author may type a `literalinclude`, a `code-block` with a caption or a `figure`;
`make docs-sync` turns it into the comments of code_excerpts.py, a file name above a
fence, or an image with its caption below.
"""

import re
from pathlib import Path

from code_excerpts import LANGUAGES

INCLUDE = re.compile(r"^```\{literalinclude\} +(\S+)\n((?::.*\n)*)```$", re.M)
CAPTIONED = re.compile(r"^```\{code-block\} (\w+)\n:caption: (\S+)\n\n", re.M)
FIGURE = re.compile(r"^```\{figure\} (\S+)\n((?::[^\n]*\n)*)\n?(.*?)```$", re.M | re.S)
WORDS = {"start-at": "from", "end-at": "to", "end-before": "before"}


def options(text):
    return dict(re.findall(r'^:([\w-]+): *"?(.*?)"?$', text, re.M))


def include(found):
    given = options(found[2])
    place = found[1]
    if "start-after" in given:
        place += "#" + given["start-after"].removeprefix("docs:begin ")
    elif "pyobject" in given:
        place += " def " + given["pyobject"]
    else:
        place += "".join(
            f' {word} "{given[name]}"' for name, word in WORDS.items() if name in given
        )
    language = given.get("language")
    if language and language != LANGUAGES.get(Path(found[1]).suffix):
        place += f" as {language}"
    return f"<!-- code {place} -->\n<!-- end -->"


def figure(found):
    alternative = options(found[2]).get("alt", "")
    caption = " ".join(found[3].split())
    return f"![{alternative}]({found[1]})\n\n*{caption}*"


def plain(text):
    text = INCLUDE.sub(include, text)
    text = CAPTIONED.sub(r"`\2`:\n\n```\1\n", text)
    return FIGURE.sub(figure, text)
