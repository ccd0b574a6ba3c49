"""The draws that were recorded on a GPU (philox.json), to be made on any device."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]
BOUNDS = [
    (0, 2),
    (0, 100),
    (0, 2**11),
    (0, 2**24),
    (0, 2**27),
    (0, 2**28 - 1),
    (0, 2**28),
    (0, 2**28 + 1),
    (0, 2**31 - 1),
    (-(2**31), 2**31 - 1),
    (0, 2**32 - 1),
    (0, 2**32),
    (0, 2**32 + 1),
    (-(2**62), 2**62),
    (-(2**63), 2**63 - 1),
]
# Around the number of elements that all threads of an H200 take at once.
DROPOUT_SIZES = [1, 2, 3, 4, 6, 7, 8, 100, 1001, 1002, 1004, 270336, 270338, 540672]
DROPOUT_SIZES += [540674, 1000000, 1000002, 1000003, 1081344, 1081346, 1081348]
DROPOUT_SIZES += [2000002, 3000000, 4000002]
RATES = [0.0, 0.7, 5.0, 40.0, 63.0, 64.0, 100.0, 1000.0, 4000.0, 5000.0]


def name_of(dtype):
    return str(dtype)[6:]


class Draws:
    """(name, function without arguments) of each, where a name begins with the kind."""

    def __init__(self, device):
        self.device = device

    def __iter__(self):
        for dtype in FLOATS + INTEGERS:
            yield from self.numbers(dtype)
        yield (
            "random_ int64 full",
            lambda: self.empty(1000, dtype=torch.int64).random_(-(2**63), None),
        )
        for dtype in FLOATS:
            yield from self.fills(dtype)
            yield from self.dropouts(dtype)
            yield from self.samples(dtype)
            yield from self.multinomials(dtype)
            yield from self.strided(dtype)
        yield from self.complex_numbers()
        yield from self.permutations()
        yield from self.modules()

    def empty(self, *size, **options):
        return torch.empty(*size, device=self.device, **options)

    def full(self, size, value, dtype=torch.float32):
        return torch.full(size, value, device=self.device, dtype=dtype)

    def linspace(self, begin, end, count, dtype):
        return torch.linspace(begin, end, count).to(dtype).to(self.device)

    def numbers(self, dtype):
        n = name_of(dtype)

        def make(size=1000):
            return self.empty(size, dtype=dtype)

        for size in (1000, 1000003):
            yield f"random_ {n} {size}", lambda size=size: make(size).random_()
        for low, high in BOUNDS:
            yield (
                f"random_ {n} {low} {high}",
                lambda low=low, high=high: make().random_(low, high),
            )
        yield f"random_ {n} to100 big", lambda: make(1000003).random_(100)
        yield f"bernoulli_ {n}", lambda: make(1000003).bernoulli_(0.3)
        yield f"geometric_ {n}", lambda: make(100003).geometric_(0.3)

    def fills(self, dtype):
        n = name_of(dtype)

        def make(size=1000):
            return self.empty(size, dtype=dtype)

        def rand(size):
            return torch.rand(size, device=self.device, dtype=dtype)

        def randn(size):
            return torch.randn(size, device=self.device, dtype=dtype)

        yield f"rand {n}", lambda: rand(1000003)
        yield f"uniform_ {n}", lambda: make(100003).uniform_(-1.5, 2.7)
        for size in (1000, 1000003):
            yield f"randn {n} {size}", lambda size=size: randn(size)
            yield (
                f"exponential_ {n} {size}",
                lambda size=size: make(size).exponential_(),
            )
        yield f"exponential_ {n} 1.7", lambda: make().exponential_(1.7)
        yield f"normal_ {n}", lambda: make().normal_(0.3, 1.7)
        yield f"cauchy_ {n}", lambda: make().cauchy_()
        yield f"cauchy_ {n} 0.5 3", lambda: make().cauchy_(0.5, 3)
        yield f"log_normal_ {n}", lambda: make().log_normal_()
        mean = self.linspace(-1, 1, 1000, dtype)
        std = self.linspace(0.1, 3, 1000, dtype)
        yield f"normal tt {n}", lambda: torch.normal(mean, std)
        yield f"normal tf {n}", lambda: torch.normal(mean, 2.0)
        yield f"normal ft {n}", lambda: torch.normal(1.0, std)

    def dropouts(self, dtype):
        n = name_of(dtype)
        for size in DROPOUT_SIZES:
            for p in (0.1, 0.5) if size < 1100 else (0.3,):
                yield (
                    f"native_dropout {n} {size} {p}",
                    lambda size=size, p=p: torch.native_dropout(
                        torch.ones(size, device=self.device, dtype=dtype), p, True
                    ),
                )

    def samples(self, dtype):
        n = name_of(dtype)
        p = self.linspace(0, 1, 1000003, dtype)
        yield f"bernoulli p {n}", lambda: torch.bernoulli(p)
        yield f"bernoulli_ p {n}", lambda: self.empty(1000003).bernoulli_(p)
        alpha = self.linspace(0.05, 12, 100003, dtype)
        yield f"gamma {n}", lambda: torch._standard_gamma(alpha)
        one = self.full((1000,), 2.5, dtype)
        yield f"gamma one {n}", lambda: torch._standard_gamma(one)
        for rate in RATES:
            rates = self.full((3000,), rate, dtype)
            yield f"poisson {n} {rate}", lambda rates=rates: torch.poisson(rates)
        for count, prob in ((5.0, 0.3), (100.0, 0.4), (40.0, 0.9)):
            counts = self.full((3000,), count, dtype)
            probs = self.full((3000,), prob, dtype)
            yield (
                f"binomial {n} {count} {prob}",
                lambda c=counts, p=probs: torch.binomial(c, p),
            )
        shares = self.full((100, 5), 1.5, dtype)
        yield f"dirichlet {n}", lambda: torch._sample_dirichlet(shares)
        x = self.linspace(-1, 1, 1000, dtype)
        yield f"rrelu {n}", lambda: F.rrelu(x, training=True)

        def with_noise():
            noise = torch.empty_like(x)
            return torch._C._nn.rrelu_with_noise(x, noise, 0.1, 0.3, True), noise

        yield f"rrelu noise {n}", with_noise

    def multinomials(self, dtype):
        n = name_of(dtype)
        w = (torch.arange(1, 101, device=self.device) % 17 + 1).to(dtype)
        rows = torch.stack([w, w.flip(0), torch.ones_like(w)])
        many = (torch.arange(5003, device=self.device) % 13).to(dtype)
        for again in (True, False):
            for label, weights, count in (
                ("1", w, 1),
                ("60", w, 60),
                ("rows", rows, 60),
                ("long", many, 1000),
            ):
                yield (
                    f"multinomial {n} {again} {label}",
                    lambda v=weights, c=count, a=again: torch.multinomial(v, c, a),
                )
        yield f"multinomial {n} True many", lambda: torch.multinomial(w, 100000, True)

    def strided(self, dtype):
        n = name_of(dtype)
        z = self.empty(64, 96, dtype=dtype)
        p = self.full((96, 64), 0.4)

        def permuted():
            made = torch.rand(3, 5, 7, device=self.device, dtype=dtype)
            return made.permute(2, 0, 1).uniform_()

        def fill(view, method, *arguments):
            getattr(view, method)(*arguments)
            return z

        yield f"uniform_ t {n}", lambda: fill(z.t(), "uniform_")
        yield f"uniform_ slice {n}", lambda: fill(z.zero_()[:, ::3], "uniform_")
        yield f"uniform_ perm {n}", permuted
        yield f"bernoulli_ p t {n}", lambda: fill(z.t(), "bernoulli_", p)

    def complex_numbers(self):
        for dtype, part in (
            (torch.complex64, torch.float32),
            (torch.complex128, torch.float64),
        ):
            for make in (torch.randn, torch.rand):
                yield (
                    f"{make.__name__} {dtype}",
                    lambda m=make, d=dtype, p=part: m(
                        1000, device=self.device, dtype=d
                    ).view(p),
                )

    def permutations(self):
        sizes = (0, 1, 2, 7, 100, 1000, 20000, 30000, 65536, 100003, 300000)
        cases = [
            (dtype, size)
            for size in sizes
            for dtype in (torch.int64, torch.int32, torch.float32)
        ]
        cases += [(dtype, 200) for dtype in (torch.int16, torch.uint8, torch.float16)]
        for dtype, size in cases:
            yield (
                f"randperm {dtype} {size}",
                lambda dtype=dtype, size=size: torch.randperm(
                    size, device=self.device, dtype=dtype
                ),
            )

    def modules(self):
        def attend():
            q = self.full((1, 2, 4, 8), 1.0)
            with sdpa_kernel(SDPBackend.MATH):
                return F.scaled_dot_product_attention(q, q, q, dropout_p=0.4)

        ones = self.full((100,), 1.0)
        image = self.full((2, 30, 2, 2), 1.0)
        yield "sdpa dropout MATH", attend
        yield "alpha_dropout", lambda: F.alpha_dropout(ones, 0.5, True)
        yield "dropout2d", lambda: F.dropout2d(image, 0.5, True)
        yield "dropout p1", lambda: F.dropout(ones, 1.0, True)
