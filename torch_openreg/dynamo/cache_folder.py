"""The folder that torch.compile writes code to, and what to do where it cannot."""

import contextlib
import errno
from collections.abc import Iterator

from torch_openreg import _names

_REFUSALS = errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST


@contextlib.contextmanager
def say_where_to_write(*more: int) -> Iterator[None]:
    """Gives an error of the same type that names the folder and the way out.

    Args:
        more: further error numbers that say here that nothing can be written
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (*_REFUSALS, *more) or error.filename is None:
            raise
        raise OSError(
            error.errno,
            f"torch.compile cannot write its code to {error.filename}: "
            f"{error.strerror}. Set TORCHINDUCTOR_CACHE_DIR to a folder of your own.",
        ) from error


def install() -> None:
    from torch._inductor.runtime import cache_dir_utils

    # No file is looked for here, so one that is not found cannot be made: below /proc.
    refusing = say_where_to_write(errno.ENOENT)
    _names.replace(cache_dir_utils, "cache_dir", refusing)
