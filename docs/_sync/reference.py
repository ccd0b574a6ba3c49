"""The reference, made from the code: C functions, Python names, variables.

<!-- c-api event.h -->
<!-- python-api torch_openreg.openreg.memory without torch_openreg.openreg -->
<!-- environment-variables -->
"""

import importlib
import inspect
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
INCLUDE = ROOT / "third_party" / "openreg" / "include"
TEMPLATES = INCLUDE / "openreg.inl"
# Where the environment is read, each with the pattern of the place that does it.
READERS = {
    ROOT / "third_party/openreg/csrc/config.cpp": r'Variable(?: \w+)?\("(OPENREG_\w+)"',
    ROOT / "csrc/runtime/OpenRegPhilox.cpp": r'get_env\("(OPENREG_\w+)"',
    ROOT / "csrc/aten/native/Strict.cpp": r'get_env\("(OPENREG_\w+)"',
    ROOT / "csrc/executor/FallbackCount.cpp": r'get_env\("(OPENREG_\w+)"',
    ROOT / "csrc/executor/LibraryWorkspaces.cpp": r'setting\("(CUBLASLT_\w+)"',
    ROOT / "csrc/distributed/Settings.cpp": r'(?:check|get)_env\("(OPENREG_\w+)"',
    ROOT / "csrc/distributed/Rendezvous.cpp": r'get_env\("(OPENREG_\w+)"',
    ROOT / "csrc/device_process/main.cpp": r'getenv\("(OPENREG_\w+)"',
    ROOT / "torch_openreg/_device_name.py": r'get\("(OPENREG_\w+)"',
    ROOT / "torch_openreg/cuda/_start.py": r'get\("(OPENREG_\w+)"',
    ROOT / "torch_openreg/cuda/_settings.py": r'get\("(CU\w+)"',
    ROOT / "torch_openreg/sanitizer/_environment.py": r'get\("(OPENREG_\w+)"',
}


class Function(NamedTuple):
    name: str
    declaration: str
    comment: str  # without asterisks, slashes and the twin

    twin: str | None


def headers():
    return [*sorted((INCLUDE / "openreg").glob("*.h")), TEMPLATES]


def strip_comment(text):
    """A doc comment as plain lines, without its asterisks and slashes."""
    lines = (
        re.sub(r"^\s*(/\*\*|\*/|\*|///)\s?", "", line) for line in text.split("\n")
    )
    return "\n".join(lines).removesuffix("*/").strip()


def make_function(comment, declaration):
    (name,) = re.findall(r"\b(or[A-Z]\w+)\s*\(", declaration)[:1]
    text = strip_comment(comment)
    twin = re.search(r"CUDA twin:\s((?:(?!CUDA twin:)[^.]|\.(?!\s|$))+)\.\s*$", text)
    declaration = re.sub(r"^\s*OPENREG_EXPORT\s+", "", declaration)
    return Function(
        name,
        declaration.strip() + ";",
        text[: twin.start()].strip() if twin else text,
        " ".join(twin[1].split()) if twin else None,
    )


def functions(header):
    """The functions of a header, or the templates of openreg.inl."""
    text = header.read_text()
    if header == TEMPLATES:
        found = re.findall(
            r"((?:^///.*\n)+)^(template <[^>]*>\norError_t or\w+\([^{]*\))", text, re.M
        )
    else:
        text = re.sub(r"^#define(?:.*\\\n)*.*\n", "", text, flags=re.M)
        # A doc comment belongs to a function if nothing stands between them.
        found = re.findall(
            r"(?:(/\*\*(?:(?!\*/).)*\*/)\s*)?(OPENREG_EXPORT\b[^;{]*?\bor\w+\s*\([^;]*\))",
            text,
            re.S,
        )
    return [make_function(*parts) for parts in found]


def contract():
    """What holds for every function, from the top of openreg.h."""
    comment = re.search(r"/\*\*.*?\*/", (INCLUDE / "openreg.h").read_text(), re.S)[0]
    text = strip_comment(comment).partition("What holds for every function:\n")[2]
    codes = re.sub(r"^  (or\w+) +", r"  - `\1`: ", text, flags=re.M)
    return re.sub(r"\n {4,}", "\n    ", codes)


def code_span(text):
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def c_markdown(function):
    """A function as Markdown: declaration, sentences, arguments, returns."""
    head, *rest = re.split(r"^(?=@)", function.comment, flags=re.M)
    lines = ["```c", function.declaration, "```", "", escape(head)]
    after = ""
    rows = {"param": [], "return": []}
    for part in rest:
        # What follows a blank line is no longer about the argument.
        part, _, tail = part.partition("\n\n")
        after += tail and tail + "\n\n"
        tag, text = part.split(maxsplit=1)
        text = " ".join(text.split())
        if tag.startswith("@param"):
            name, text = text.split(maxsplit=1)
            rows["param"].append(f"| `{name}` | {escape(text)} |")
        else:
            code = re.match(r"(or\w+|the (?:device|capture)'s error)\s+", text)
            told = escape(text[code.end() :]) if code else escape(text)
            name = f"`{code[1]}`" if code and code[1][:2] == "or" else code and code[1]
            rows["return"].append(f"| {name or 'the value'} | {told} |")
    for head, kind in (("argument", "param"), ("returns", "return")):
        if rows[kind]:
            lines += ["", f"| {head} | |", "| --- | --- |", *rows[kind], ""]
    twin = code_span(function.twin) if function.twin not in (None, "none") else "none"
    lines += ["", escape(after), "", f"CUDA twin: {twin}."]
    return "\n".join(lines)


def escape(text):
    return re.sub(r"(?<!`)<(?!`)", r"\\<", text).replace("|", r"\|")


class Variable(NamedTuple):
    name: str
    file: Path
    meaning: str
    default: str


def variables():
    """What the code reads, with the comment that says what it means:

    // OPENREG_X: its meaning. Default: something.

    In Python the comment begins with a "#".
    """
    found = []
    for file, pattern in READERS.items():
        text = file.read_text()
        for name in re.findall(pattern, text):
            mark = "#" if file.suffix == ".py" else "//"
            comment = re.search(
                rf"^ *{mark} {name}: (.*\n(?: *{mark} .*\n)*)", text, re.M
            )
            words = " ".join(re.sub(f"^ *{mark}", "", comment[1], flags=re.M).split())
            meaning, default = re.fullmatch(r"(.*)\. Default: (.*)\.", words).groups()
            found.append(Variable(name, file, meaning, default))
    return found


def signature(thing):
    try:
        return str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""


# A table between lines of "=", or what stands after "::".
LITERAL = re.compile(r"^=+(?:  =+)+\n(?:.+\n?)+|(?<=::\n\n)(?: {4}.*\n*)+", re.M)


def docstring(thing):
    """The docstring as Markdown: `Args:` becomes a list, tables and code become blocks."""
    text = inspect.getdoc(thing) or ""
    lines, begin = [], 0
    for found in LITERAL.finditer(text):
        block = textwrap.dedent(found[0]).rstrip()
        lines += [*prose(text[begin : found.start()]), "```text", block, "```", ""]
        begin = found.end()
    return "\n".join([*lines, *prose(text[begin:])])


def prose(text):
    lines = []
    for line in text.splitlines():
        line = re.sub(r":(?:\w+:)+`~?([^`]+)`", r"`\1`", line)
        line = re.sub("::$", ":", line)
        argument = re.match(r"    (\w+): (.*)", line)
        if re.fullmatch(r"(Args|Attributes|Returns|Raises|Yields):", line):
            lines += ["", f"*{line}*", ""]
        elif argument:
            lines.append(f"- `{argument[1]}`: {argument[2]}")
        else:
            lines.append(line.strip() if line.startswith("    ") else line)
    return lines


def python_markdown(module, name):
    thing = getattr(module, name)
    if inspect.ismodule(thing):
        return f"**`{name}`**\n\n{docstring(thing)}\n"
    if not callable(thing):
        plain = isinstance(thing, (bool, int, str))
        told = repr(thing) if plain else type(thing).__name__
        return f"**`{name}`**\n\nIs `{told}`.\n"
    own = inspect.isclass(thing) and not thing.__module__.startswith("torch_openreg")
    lines = [f"**`{name}{'' if own else signature(thing)}`**", ""]
    if own:
        return "\n".join([*lines, f"Is `torch.{thing.__name__}`.", ""])
    lines += [docstring(thing), ""]
    if inspect.isclass(thing):
        attributes = []
        for method, value in vars(thing).items():
            value = value.fget if isinstance(value, property) else value
            value = getattr(value, "__func__", value)
            if method[0] != "_" and callable(value) and inspect.getdoc(value):
                first = docstring(value).split("\n\n")[0]
                attributes.append(f"- `{method}`: {' '.join(first.split())}")
        if attributes and "*Attributes:*" not in lines[2]:
            lines += ["*Attributes:*", ""]
        lines += attributes
    return "\n".join(lines)


def c_api(name):
    """All functions of a header; of openreg.h what holds for every function."""
    if name == "openreg.h":
        return contract()
    (header,) = (path for path in headers() if path.name == name)
    entries = (f"### {f.name}\n\n{c_markdown(f)}" for f in functions(header))
    return "\n\n".join(entries)


def python_api(module, _without="", other=None):
    """All names of a module, less those that another has."""
    module = importlib.import_module(module)
    left_out = importlib.import_module(other).__all__ if other else ()
    names = [name for name in module.__all__ if name not in left_out]
    return "\n\n".join(python_markdown(module, name).strip() for name in names)


def environment_variables():
    rows = ["| variable | meaning | default |", "| --- | --- | --- |"]
    rows += (f"| `{v.name}` | {v.meaning} | {v.default} |" for v in variables())
    return "\n".join(rows)


def device_profiles():
    """The named devices of libopenreg, with their figures."""
    source = (ROOT / "third_party/openreg/csrc/profile.cpp").read_text()
    number = r"(\d+)(?: \* k(\w+))?"
    found = re.findall(
        rf'\{{"(\w+)",\s+device\(\s+"(.+?)",\s+{number},\s+(\d+),\s+(\d+),\s+(\d+),',
        source,
    )
    rows = ["| profile | name | memory | capability | processors |"]
    rows.append("| --- | --- | ---: | ---: | ---: |")
    for profile, name, amount, unit, major, minor, processors in found:
        gib = int(amount) / {"MiB": 1024, "GiB": 1}[unit]
        rows.append(
            f"| `{profile}` | {name} | {gib:.1f} GiB | {major}.{minor} | {processors} |"
        )
    return "\n".join(rows)
