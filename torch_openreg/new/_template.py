"""Makes a copier template of the sources of the small backends.

The examples are the one place where this code is written. They become a template by
renaming: `mini` is where the new name goes, and the folder that a file comes from
says which option it belongs to.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent

# Folder of examples/ladder -> the option that it is.
OPTIONS = {
    "2_streams": "streams",
    "3_caching": "caching",
    "4_kernels": "kernels",
    "5_distributed": "process_group",
    "6_graphs": "graphs",
}
# Files that belong to an option of their own, or that only one half of them needs.
EXCEPTIONS = {
    "mini_backend/csrc/launch.h": "not streams",
    "4_kernels/csrc/autocast.cpp": "autocast",
    "4_kernels/torch_mini/amp.py": "autocast",
}
# The template has its own.
REPLACED = {"setup.py", "csrc/parts.h"}

# What torch.mychip has of each option.
ADDITIONS = """\
<% if streams %>
from .streams import (  # noqa: E402
    Event as Event,
    Stream as Stream,
    _is_in_bad_fork as _is_in_bad_fork,
    current_stream as current_stream,
    default_stream as default_stream,
    set_stream as set_stream,
    stream as stream,
    synchronize as synchronize,
)
<% endif -%>
<% if kernels %>
from . import dynamo as dynamo  # noqa: E402
from .random_state import (  # noqa: E402
    get_rng_state as get_rng_state,
    set_rng_state as set_rng_state,
)
<% endif -%>
<% if autocast %>
from .amp import get_amp_supported_dtype as get_amp_supported_dtype  # noqa: E402
<% endif -%>
<% if process_group %>
if torch.distributed.is_available():
    from . import distributed as distributed
<% endif -%>
"""


def sources() -> dict[str, Path]:
    """The folders that the template is made of: a checkout's, or those installed."""
    checkout = PACKAGE.parent
    if (checkout / "examples" / "ladder").is_dir():
        pool = checkout / "csrc" / "runtime" / "pool"
        template = PACKAGE / "new" / "template"
        examples = checkout / "examples"
    else:
        examples = PACKAGE / "share" / "new"
        pool, template = examples / "pool", examples / "template"
    ladder = {name: examples / "ladder" / name for name in OPTIONS}
    mini = examples / "mini_backend"
    return {"template": template, "mini_backend": mini, "pool": pool, **ladder}


def files(folder: Path) -> Iterator[Path]:
    """The sources in a folder, without what a build has left there."""
    for path in sorted(folder.rglob("*")):
        built = {"build", "__pycache__"} & set(path.relative_to(folder).parts)
        if path.is_file() and not built and path.suffix != ".so":
            yield path


def renamed(text: str) -> str:
    """With places for the new name."""
    text = re.sub(
        r"constexpr int kDevices = \d+", "constexpr int kDevices = <@ devices @>", text
    )
    text = text.replace("c10::openreg", "<@ name @>::pool")
    text = text.replace('"runtime/pool/', '"pool/')
    text = re.sub(r"(?<![a-z])mini(?![a-z])", "<@ name @>", text)
    text = re.sub(r"Mini(?=[A-Z])", "<@ Name @>", text)
    return re.sub(r"\bMINI\b", "<@ name|upper @>", text)


def place(name: str, condition: str | None) -> str:
    """The path of a file in the template; copier drops a file without a name."""
    *folders, last = name.split("/")
    if condition:
        last = f"<% if {condition} %>{last}<% endif %>"
    folders = [folder.replace("torch_mini", "torch_<@ name @>") for folder in folders]
    return "/".join([*folders, f"{last}.jinja"])


def template_files() -> Iterator[tuple[str, str]]:
    """Path in the template -> text, of everything that is made of the examples."""
    for part, folder in sources().items():
        for path in files(folder) if part != "template" else ():
            name = path.relative_to(folder).as_posix()
            if name in REPLACED:
                continue
            text = renamed(path.read_text())
            if name == "torch_mini/__init__.py":
                text += ADDITIONS
            if part == "pool":
                yield place(f"csrc/<% if caching %>pool<% endif %>/{name}", None), text
            else:
                key = f"{part}/{name}"
                yield place(name, EXCEPTIONS.get(key, OPTIONS.get(part))), text


def write_template(target: Path) -> None:
    """Fills a folder with the template, and removes what else is there but .git."""
    for path in target.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(sources()["template"], target, dirs_exist_ok=True)
    for name, text in template_files():
        path = target / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
