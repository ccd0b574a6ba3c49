"""What ``@pytest.mark.openreg(...)`` asks for."""

import pytest

from ._checks import to_bytes

# What is read once, when the device starts: a test that sets it runs in a process of its
# own.
VARIABLES = {
    "memory": "OPENREG_DEVICE_MEMORY",
    "devices": "OPENREG_DEVICE_COUNT",
    "profile": "OPENREG_DEVICE_PROFILE",
}
SCHEDULES = ("auto", "async", "adversarial")


def settings_of(item) -> dict:
    """The arguments of an item's markers; those of the test win over its class's."""
    settings = {}
    for marker in reversed(list(item.iter_markers("openreg"))):
        if marker.args:
            raise pytest.UsageError(
                f"{item.nodeid}: @pytest.mark.openreg takes keywords, such as "
                f"memory='2GiB', but got {marker.args[0]!r}"
            )
        settings.update(marker.kwargs)
    known = {*VARIABLES, "faults", "schedule"}
    for name in settings.keys() - known:
        raise pytest.UsageError(
            f"{item.nodeid}: @pytest.mark.openreg has no {name!r}, but "
            f"{', '.join(sorted(known))}"
        )
    if "schedule" in settings:
        check_schedule(settings["schedule"], item.nodeid)
    return settings


def check_schedule(schedule: str, where: str) -> None:
    if schedule not in SCHEDULES:
        raise pytest.UsageError(
            f"{where}: expected a schedule of {', '.join(SCHEDULES)}, but got "
            f"{schedule!r}"
        )


def variables_of(settings: dict) -> dict[str, str]:
    """Variables for the process of a test; none if it needs no process of its own."""
    wanted = {VARIABLES[name]: settings[name] for name in VARIABLES if name in settings}
    if "memory" in settings:
        wanted["OPENREG_DEVICE_MEMORY"] = to_bytes(settings["memory"])
    return {name: str(value) for name, value in wanted.items()}
