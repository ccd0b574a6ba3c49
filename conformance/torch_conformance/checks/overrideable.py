"""Level 7: modules whose operators PyTorch routes through an entry point that a backend
has to override, or that are views which no fallback can take."""

from torch import nn

from ..check import check
from .training import expect_same_pass, make

PAGE = "operators_tools.md"


@check(
    call="nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d",
    write="Kernels for `convolution_overrideable` and `convolution_backward_overrideable`: without them a convolution raises, and no fallback is asked.",
    page=PAGE,
)
def convolution(device):
    """A convolutional network gives the CPU's numbers, in both modes of batch norm."""
    module = make(
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64, 2),
        )
    )
    expect_same_pass(device, module, (2, 3, 8, 8))
    expect_same_pass(device, module.eval(), (2, 3, 8, 8))


@check(
    call="nn.LSTM, nn.GRU",
    write="Kernels for `_thnn_fused_lstm_cell` and `_thnn_fused_gru_cell`, which have none on the CPU, or the composite form.",
    page=PAGE,
)
def recurrent(device):
    """Recurrent networks give the CPU's numbers."""
    expect_same_pass(device, make(lambda: nn.LSTM(4, 5, batch_first=True)), (2, 3, 4))
    expect_same_pass(device, make(lambda: nn.GRU(4, 5)), (3, 2, 4))


@check(
    call="nn.TransformerEncoderLayer",
    write="A kernel for `_reshape_alias`, ATen's own does; `_fused_sdp_choice` for the"
    " device, or nothing: attention has a composite form.",
    page=PAGE,
)
def transformer(device):
    """A transformer layer gives the CPU's numbers."""
    layer = make(lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True))
    expect_same_pass(device, layer, (2, 5, 8))
