"""Groups of operators as models use them, small enough to compile in seconds."""

import torch
from torch.nn import functional as F

GROUPS = {}


def group(make_inputs):
    """Adds a function under its name, with what makes its inputs for a size."""

    def add(function):
        GROUPS[function.__name__] = function, make_inputs
        return function

    return add


def rows(n):
    return (numbers(n, 16),)


def numbers(*shape, grad=False, dtype=torch.float32):
    count = torch.Size(shape).numel()
    values = (torch.arange(count) * 0.7123).sin().view(shape).to(dtype)
    return values.requires_grad_(grad)


def trained(n):
    return (numbers(n, 16, grad=True),)


@group(trained)
def pointwise(x):
    return (x.sin() * x.sigmoid() + x.abs().sqrt()).clamp(-1, 1), torch.where(
        x > 0, x, -x
    )


@group(rows)
def reductions(x):
    return (
        *(x.sum(), x.mean(0), x.amax(1), x.argmin(0), x.prod(1), x.std(0)),
        *(x.logsumexp(1), (x > 0).any(0), x.norm(), x.var(1, correction=0)),
    )


@group(rows)
def argmax_of_a_transposed_view(x):
    return x.t().argmax(1), x.t().argmin(), x[:, ::2].argmax()


@group(rows)
def scans_and_sorts(x):
    return x.cumsum(0), x.cumprod(1), *x.sort(1), *x.topk(3, 1)


@group(lambda n: (numbers(n, 16, grad=True), numbers(8, 16, grad=True), numbers(8)))
def linear_and_gelu(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias))


@group(lambda n: (numbers(n, 16, grad=True), numbers(16, grad=True), numbers(16)))
def layer_norm(x, weight, bias):
    return F.layer_norm(x, (16,), weight, bias), F.rms_norm(x, (16,), weight)


@group(trained)
def softmax(x):
    return x.softmax(1), x.log_softmax(0)


@group(trained)
def views(x):
    return x.t()[1:, ::2] + 1, x.view(-1, 4, 4).permute(2, 0, 1).reshape(-1), x[:, 3]


@group(rows)
def mutation(x):
    x.add_(1)
    x[1:, 2] = 7
    x.t()[0].mul_(2)
    return x * 2


@group(rows)
def factories_and_constants(x):
    ones = torch.ones(x.shape[1], device=x.device)
    steps = torch.arange(x.shape[0], device=x.device, dtype=x.dtype)
    eye = torch.eye(3, device=x.device)
    return x + ones + steps[:, None], eye, torch.tensor([1.5, 2.5], device=x.device)


@group(lambda n: (numbers(n, 3, 8, 8, grad=True), numbers(4, 3, 3, 3, grad=True)))
def convolution_and_relu(x, weight):
    return F.conv2d(x, weight, padding=1, stride=2).relu()


@group(lambda n: (numbers(n, 3, 8, 8, grad=True),))
def pooling_and_padding(x):
    big = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
    return F.max_pool2d(big, 3, 2), F.adaptive_avg_pool2d(F.pad(x, (1, 2, 0, 1)), 4)


def heads(n):
    return tuple(numbers(n, 2, 5, 8, grad=True) for _ in "qkv")


@group(heads)
def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k * 2, v, is_causal=True)


@group(heads)
def attention_by_hand(q, k, v):
    scores = q @ k.transpose(-1, -2) / 8**0.5
    mask = torch.ones(5, 5, dtype=torch.bool, device=q.device).tril()
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v


@group(lambda n: (torch.arange(n) % 10, numbers(10, 8, grad=True)))
def embedding(index, weight):
    return F.embedding(index, weight), F.embedding_bag(index[None], weight, mode="sum")


@group(lambda n: (numbers(n, 16), torch.arange(n).flip(0) % 3))
def scatter_and_gather(x, index):
    table = torch.zeros(3, 16, device=x.device)
    some = index[:, None].expand(-1, 16)
    return (
        *(x.gather(0, some), table.scatter_add(0, some, x)),
        *(table.index_add(0, index, x), x[index], table.index_put((index,), x)),
    )


@group(lambda n: (torch.arange(n * 4).view(n, 4) - 7,))
def integers(x):
    return x // 3, x % 5, x << 2, x & 6, (x * x).sum(1), x.to(torch.uint8), x / 7


@group(lambda n: (numbers(n, 16), torch.tensor(2.5)))
def scalar_of_the_cpu(x, number):
    return x * number.cpu() + 1


@group(rows)
def copies_inside(x):
    there = x.cpu() * 2
    return there, there.to(x.device) + x


@group(rows)
def item(x):
    return x * x.sum().item()


@group(rows)
def boolean_mask(x):
    return torch.where(x > 0, x, 0).sum(0), x.masked_fill(x < 0, 2), x * (x > 0)


@group(lambda n: (numbers(n, 16, dtype=torch.bfloat16, grad=True),))
def bfloat16(x):
    return (x.exp() * 2 + x).softmax(1)


@group(lambda n: (numbers(n, 16, dtype=torch.float16, grad=True),))
def float16(x):
    return F.layer_norm(x * 3, (16,)).tanh()


@group(lambda n: (numbers(n, 16, dtype=torch.float64),))
def float64_and_fft(x):
    return torch.fft.rfft(x).abs() + 1, x.erf().cumsum(1)


@group(trained)
def cat_and_split(x):
    a, b = x.split([5, 11], 1)
    return torch.cat([b * 2, a], 1), torch.stack([x, x + 1]), *x.chunk(2, 1)


@group(lambda n: (numbers(4, 4) + 4 * torch.eye(4),))
def linear_algebra(x):
    spd = x @ x.t()
    return torch.linalg.cholesky(spd), torch.linalg.inv(x), torch.linalg.det(x)


@group(lambda n: (numbers(n, 16, grad=True), numbers(8, 16, grad=True)))
def autocast(x, weight):
    with torch.autocast(x.device.type, torch.bfloat16):
        return F.linear(x, weight).relu()


@group(trained)
def random_numbers(x):
    noise = torch.rand_like(x) + torch.randn(x.shape, device=x.device)
    return F.dropout(x, 0.5) + noise, torch.randint(0, 9, (4,), device=x.device)
