"""The template as a repository: copier compares its versions when it updates."""

import fcntl
import os
import subprocess
from pathlib import Path

from ._template import write_template


def git(folder: Path, *arguments: str) -> str:
    """The output of a git command; a sentence and the end of the process if it fails."""
    who = ("-c", "user.name=torch_openreg", "-c", "user.email=torch_openreg@localhost")
    command = ["git", "-C", str(folder), *who, *arguments]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit(
            "git was not found, and copier needs it: install git"
        ) from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"`{' '.join(command)}` failed: {error.stderr}") from None
    return done.stdout


def cache_folder() -> Path:
    """Where the repository is kept: a package remembers the path for its updates."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "torch_openreg" / "template"


def template_repository() -> Path:
    """The repository with the template of this version of the package on top."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two commands at a time
        if not (folder / ".git").exists():
            git(folder, "init", "-q")
        write_template(folder)
        git(folder, "add", "-A")
        if git(folder, "status", "--porcelain"):
            git(folder, "commit", "-q", "-m", "The template of torch_openreg")
            number = git(folder, "rev-list", "--count", "HEAD").strip()
            tree = git(folder, "rev-parse", "--short=8", "HEAD^{tree}").strip()
            # Another account counts for itself: the content makes the name unique.
            git(folder, "tag", f"v1.0.{number}+g{tree}")
    return folder


def has_version(folder: Path, name: str) -> bool:
    """Whether a package can be compared with the version it was made from."""
    return bool(name) and bool(git(folder, "tag", "--list", name))
