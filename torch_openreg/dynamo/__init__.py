"""The interface of the device for TorchDynamo, the front end of torch.compile.

Loaded when Dynamo is, so that `import torch` stays as short as without it.
"""

from torch_openreg._device_name import IS_CUDA
from torch_openreg._on_import import on_import


def _register_interface() -> None:
    from .interface import register

    register()


def _install_substitutes() -> None:
    from .tracing import install

    install()


def _install_flex_attention() -> None:
    from .flex_attention import install

    install()


def _install_recording_backend() -> None:
    from .cudagraphs import install

    install()


def _install_cache_folder() -> None:
    from .cache_folder import install

    install()


# docs:begin wait-for-dynamo
def install() -> None:
    """Let Dynamo know the device from the moment it is imported."""
    if not IS_CUDA:  # which it knows by itself
        on_import("torch._dynamo.device_interface", _register_interface)
        on_import("torch._dynamo", _install_substitutes)
        on_import("torch._dynamo.backends.cudagraphs", _install_recording_backend)
    on_import("torch.nn.attention.flex_attention", _install_flex_attention)
    on_import("torch._inductor.runtime.cache_dir_utils", _install_cache_folder)


# docs:end wait-for-dynamo
