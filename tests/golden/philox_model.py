"""How an NVIDIA H200 makes random numbers: a model in NumPy of what was recorded.

A draw is a function of the seed, the offset and the number of a thread. The model has
float32 and the integers; philox.json says what each draw gave (the offset afterwards,
digests of the results, or the error; some first values), philox_hardware.json has the
tables of the functional unit.

What the model leaves out was found too. gamma and poisson: element i is thread i, which
takes words one by one; offsets grow by 12 and 20. binomial: blocks of 128 threads, each
with 8 elements that lie 128 apart, and uniform numbers of the low 24 bits; 44.
bernoulli of tensors: element i has word i % 4 of thread i / 4; 12. randperm: random_()
keys of 32 or 64 bits, of which ceil(log2(n - (6 n^2 + 1) / (12 log 0.9))) are sorted by,
and islands of equal keys are shuffled by the thread of their first place; 4, then n.
"""

import json
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
MULTIPROCESSORS, THREADS_EACH, BLOCK = 132, 2048, 256
HARDWARE = {
    name: np.array(rows)
    for name, rows in json.loads((FOLDER / "philox_hardware.json").read_text()).items()
}


# --- words --------------------------------------------------------------------------


def philox(seed, offset, threads):
    """The four words that each thread takes at an offset: an array of 4 columns."""
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = np.asarray(threads, np.uint64)
    a, b, d = np.full_like(c, offset // 4), np.zeros_like(c), np.zeros_like(c)
    first, second = seed % 2**32, seed >> 32
    for _ in range(10):
        one, two = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b = (two >> shift) ^ b ^ np.uint64(first), two & low
        c, d = (one >> shift) ^ d ^ np.uint64(second), one & low
        first = (first + 0x9E3779B9) % 2**32
        second = (second + 0xBB67AE85) % 2**32
    return np.stack([a, b, c, d], axis=1).astype(np.uint32)


def grid(count):
    """How many threads draw so many numbers."""
    most = MULTIPROCESSORS * (THREADS_EACH // BLOCK)
    return min(most, -(-count // BLOCK)) * BLOCK


def fill(seed, count, make, unroll=4):
    """What a kernel makes that fills a tensor; `make` turns words into `unroll` columns.
    The numbers of a thread are as far apart as there are threads."""
    threads = np.arange(grid(count))
    rounds = range(-(-count // (len(threads) * unroll)))
    parts = [make(philox(seed, 4 * r, threads)).T.reshape(-1) for r in rounds]
    return np.concatenate(parts)[:count]


def dropout_mask(seed, count, p, itemsize):
    """Which elements native_dropout keeps, in the order of the memory. Threads read as
    many elements at once as are 16 bytes and divide the count."""
    width = 16 // itemsize
    while count % width:
        width //= 2
    blocks, words = max(1, width // 4), 2 if width == 2 else 4
    threads = np.arange(grid(count))
    kept, at_once = [], len(threads) * words * blocks
    for r in range(-(-count // at_once)):
        drawn = [philox(seed, 4 * (r * blocks + b), threads) for b in range(blocks)]
        numbers = np.concatenate([d[:, :words] for d in drawn], axis=1)
        numbers = numbers.T if width == 1 else numbers
        kept.append(uniform(numbers).reshape(-1) < np.float32(1 - p))
    return np.concatenate(kept)[:count]


# --- functions of the hardware ------------------------------------------------------


def fused(a, b, c):
    """a * b + c with one rounding."""
    wide = [np.asarray(x, np.float32).astype(np.longdouble) for x in (a, b, c)]
    return (wide[0] * wide[1] + wide[2]).astype(np.float32)


def truncated(value):
    """To 24 bits, towards zero."""
    fraction, exponent = np.frexp(np.asarray(value, np.float64))
    return np.ldexp(np.trunc(fraction * 2**24), exponent - 24).astype(np.float32)


def interpolate(table, place):
    """The value at a place of 23 bits: 64 pieces, each with a value, a slope and a
    curvature. The square lacks the products of bits below 2^19."""
    value, slope, curvature = np.moveaxis(HARDWARE[table][place >> 17], -1, 0)
    x = place & 0x1FFFF
    square = np.zeros_like(x)
    for bit in range(10, 17):
        products = ((x & ((1 << bit) - 1)) >> (18 - bit)) + (1 << (2 * bit - 19))
        square += np.where((x >> bit) & 1, products, 0)
    return (value << 12) + slope * x + curvature * square


def log2(x):
    """lg2.approx of a positive normal number: in units of 2^-38, a negative number
    negated bit by bit."""
    bits = x.view(np.int32).astype(np.int64)
    value = ((bits >> 23) - 127 << 38) + interpolate("log2", bits & 0x7FFFFF) + 837
    size = truncated((np.where(value < 0, ~value, value) >> 2) * 2.0**-36)
    return np.where(x == 1, np.float32(0), np.where(value < 0, -size, size))


def exp2(x):
    """ex2.approx: in units of 2^-38."""
    steps = np.trunc(np.abs(x).astype(np.float64) * 2**23).astype(np.int64)
    place = np.where(x < 0, ~steps, steps)
    fraction = truncated(interpolate("exp2", place & 0x7FFFFF) + 2018)
    return np.ldexp(fraction, (place >> 23).astype(np.int32) - 38)


def sine(angle, quarters=0):
    """sin.approx from 0 to 2 pi, or with 1 cos.approx: 2^25 steps in a turn, in units of
    2^-37."""
    turns = truncated(angle.astype(np.float64) * np.float64(np.float32(0.15915494)))
    step = np.floor(turns.astype(np.float64) * 2**25).astype(np.int64)
    step += quarters << 23
    quarter, within = step >> 23, step & 0x7FFFFF
    place = np.where(quarter & 1, 0x7FFFFF - within, within)
    value = truncated(interpolate("sine", place) * 2.0**-37)
    return np.where(quarter & 2, -value, value)


def log(x):
    """CUDA's logf(), which is code."""
    coefficients = [0xBE055027, 0x3E1039F6, 0xBDF8CDCC, 0x3E0F2955, 0xBE2AD8B9]
    coefficients += [0x3E4CED0B, 0xBE7FFF22, 0x3EAAAA78, 0xBF000000]
    first, *others = np.array(coefficients, np.uint32).view(np.float32)
    bits = x.view(np.int32)
    scaled = (bits - 0x3F2AAAAB) & np.int32(-0x800000)
    rest = (bits - scaled).view(np.float32) - np.float32(1)
    total = first
    for coefficient in others:
        total = fused(total, rest, coefficient)
    exponent = scaled.astype(np.float32) * np.float32(2**-23)
    return fused(exponent, np.log(2), fused(rest * total, rest, rest))


# --- numbers --------------------------------------------------------------------------


def uniform(words):
    """In (0, 1]."""
    return fused(words.astype(np.float32), 2.0**-32, 2.0**-33)


def normal(words):
    """Box-Muller of pairs: the sine, then the cosine."""
    unit = np.float32(2**-32) * np.float32(2 * np.pi)
    columns = []
    for pair in (0, 2):
        angle = fused(words[:, pair + 1].astype(np.float32), unit, unit / 2)
        size = np.sqrt(np.float32(-2) * log(uniform(words[:, pair])))
        columns += [sine(angle) * size, sine(angle, 1) * size]
    return np.stack(columns, axis=1)


def fast_log(x):
    return log2(x) * np.float32(np.log(2))


def exponential(words, rate):
    u, half = uniform(words), np.float32(2**-24)
    logs = np.where(u >= 1 - half, -half, fast_log(u))
    return np.float32(-1) / np.float32(rate) * logs


def log_normal(words, mean, std):
    return exp2(fused(normal(words), std, mean) * np.float32(np.log2(np.e)))


def geometric(words, p):
    scale = fast_log(np.array([1 - p], np.float32))
    return np.ceil(fast_log(uniform(words)) / scale)


def integers(words, low, high):
    """Of pairs of words if the range is 2^28 or more."""
    if high - low < 2**28:
        return (words % np.uint32(high - low)).astype(np.int64) + low
    pairs = words.astype(np.uint64)
    wide = (pairs[:, ::2] << np.uint64(32)) | pairs[:, 1::2]
    return (wide % np.uint64(high - low)).astype(np.int64) + low
