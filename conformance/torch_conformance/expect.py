"""What checks expect, in sentences that name the value and what it should be.

Plain `assert` would vanish under `python -O` and say nothing of the values.
"""

import threading

import torch


class Failed(AssertionError):
    """The device does not do what the check asks."""


def expect(condition, sentence):
    """Fails with the sentence unless the condition holds."""
    if not condition:
        raise Failed(sentence)


def expect_equal(found, expected, what):
    """Fails unless both are equal; for tensors see Device.expect_close()."""
    if not (type(found) is type(expected) or isinstance(found, type(expected))):
        raise Failed(f"{what} is {found!r}, not {expected!r}")
    if found != expected:
        raise Failed(f"{what} is {found!r}, not {expected!r}")


def expect_error(function, what, kind=RuntimeError):
    """Fails unless the function raises an error of that kind; returns the error.

    RuntimeError is the kind of nearly everything that PyTorch raises; an error in
    Python code of a backend (AttributeError, ...) is not an answer.
    """
    try:
        value = function()
        torch.accelerator.synchronize()
    except kind as error:
        expect(
            str(error).strip(), f"{what} raises {type(error).__name__} without a word"
        )
        return error
    except Exception as error:
        names = getattr(kind, "__name__", None) or "/".join(k.__name__ for k in kind)
        raise Failed(
            f"{what} raises {type(error).__name__}, not {names}: {error}"
        ) from error
    raise Failed(f"{what} is accepted and gives {value!r:.80}")


def in_threads(function, count=1):
    """What the function returns on each of some threads that run at the same time;
    raises the first error of one."""
    found, errors = [], []

    def work():
        try:
            found.append(function())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found
