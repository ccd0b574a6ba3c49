"""What the walks share."""

import contextlib
import json
import warnings


def within(context, ask):
    with context:
        return ask()


CHECKS = {}


def check(function):
    """A function whose name says what it returns the truth of."""
    CHECKS[function.__name__] = function
    return function


def raised(kind, call):
    """The error of that kind that a call is, or None."""
    try:
        call()
    except kind as error:
        return error


def told(name, works, refused):
    if name in refused:
        try:
            refused[name]()
        except RuntimeError as error:
            return "works" if "OPENREG_AS=cuda" in str(error) else str(error)
        return "not refused"
    if name not in works:
        return "not called"
    try:
        return "works" if works[name]() else "does not do it"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def report(names, works, refused=()):
    """Prints {name: "works", or what was wrong} as JSON.

    `works` has functions that return whether a name does what its documentation says,
    `refused` those whose call is an error that says why.
    """
    warnings.simplefilter("ignore")
    with contextlib.redirect_stderr(None):  # what destructors complain of
        outcome = {
            name: told(name, works, refused)
            for name in sorted({*names, *works, *refused})
        }
    print(json.dumps(outcome))
