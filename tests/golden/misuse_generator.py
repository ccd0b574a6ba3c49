"""Wrong uses of generators and their states."""

import pickle

import torch
from misuse import DEVICE, c, m, x


CALLS = {
    "cpu_generator": lambda: torch.randn(2, device=DEVICE, generator=torch.Generator()),
    "normal_cpu_generator": lambda: x(2).normal_(generator=torch.Generator()),
    "uniform_device_generator_on_cpu": lambda: c(2).uniform_(
        generator=torch.Generator(DEVICE)
    ),
    "randperm_cpu_generator": lambda: torch.randperm(
        4, device=DEVICE, generator=torch.Generator()
    ),
    "multinomial_cpu_generator": lambda: torch.multinomial(
        torch.ones(2, device=DEVICE), 1, generator=torch.Generator()
    ),
    "randint_cpu_generator": lambda: torch.randint(
        0, 3, (2,), device=DEVICE, generator=torch.Generator()
    ),
    "bernoulli_cpu_generator": lambda: torch.bernoulli(
        torch.full((2,), 0.5, device=DEVICE), generator=torch.Generator()
    ),
    "set_state_wrong_size": lambda: torch.Generator(DEVICE).set_state(
        torch.zeros(3, dtype=torch.uint8)
    ),
    "set_state_wrong_dtype": lambda: torch.Generator(DEVICE).set_state(torch.zeros(16)),
    "set_state_on_device": lambda: torch.Generator(DEVICE).set_state(
        torch.Generator(DEVICE).get_state().to(DEVICE)
    ),
    "set_rng_state_wrong_size": lambda: m.set_rng_state(
        torch.zeros(3, dtype=torch.uint8)
    ),
    "set_rng_state_cpu_device": lambda: m.set_rng_state(m.get_rng_state(), "cpu"),
    "set_rng_state_all_short": lambda: m.set_rng_state_all([]),
    "set_offset_unaligned": lambda: torch.Generator(DEVICE).set_offset(3),
    "seed_string": lambda: m.manual_seed("a"),
    "seed_float": lambda: m.manual_seed(1.7),
    "seed_negative": lambda: (m.manual_seed(-1), m.initial_seed())[1],
    "seed_too_large": lambda: torch.Generator(DEVICE).manual_seed(1 << 65),
    "default_generators_item_assignment": lambda: m.default_generators.__setitem__(
        0, torch.Generator(DEVICE)
    ),
    "pickle_generator": lambda: type(
        pickle.loads(pickle.dumps(torch.Generator(DEVICE)))
    ).__name__,
    "generator_device": lambda: str(torch.Generator(DEVICE).device),
}
