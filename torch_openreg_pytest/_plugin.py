"""What the plugin does around each test, once ``--openreg`` has switched it on."""

import contextlib
import gc

import pytest

from ._child import ChildReports, run_in_child
from ._settings import check_schedule, settings_of, variables_of

_leaks = pytest.StashKey[dict]()


class OpenRegPlugin:
    """Registered once per process; with xdist, once per worker."""

    def __init__(self, config):
        self._config = config
        self._in_child = config.getoption("openreg_child")
        self._seed = config.getoption("openreg_seed")
        self._checks = config.getoption("openreg_sanitize")
        wanted = config.getoption("openreg_schedules")
        # None: whatever OPENREG_SCHEDULE says.
        self._schedules = wanted.split(",") if wanted else [None]
        for schedule in self._schedules:
            if schedule is not None:
                check_schedule(schedule, "--openreg-schedules")
        if self._in_child:
            config.pluginmanager.register(ChildReports(config, self._in_child))

    def pytest_report_header(self):
        schedules = ", ".join(name or "as set" for name in self._schedules)
        return f"openreg: schedules: {schedules}; sanitizer: {self._checks or 'off'}"

    def pytest_collection_modifyitems(self, items):
        for item in items:
            settings_of(item)  # refuses a marker that it does not understand

    # --- every test under each schedule ---

    def pytest_generate_tests(self, metafunc):
        if len(self._schedules) == 1:
            return
        if "schedule" in settings_of(metafunc.definition):
            return
        metafunc.fixturenames.append("openreg_schedule")
        metafunc.parametrize("openreg_schedule", self._schedules, indirect=True)

    def _schedule_of(self, item, settings: dict) -> str | None:
        if "schedule" in settings:
            return settings["schedule"]
        call = getattr(item, "callspec", None)
        return call.params.get("openreg_schedule") if call else self._schedules[0]

    # --- a process of its own ---

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        settings = settings_of(item)
        if self._in_child or not variables_of(settings):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in run_in_child(item, settings):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    # --- around the call ---

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        settings = settings_of(item)
        schedule = self._schedule_of(item, settings)
        from torch_openreg.openreg import faults

        with contextlib.ExitStack() as stack:
            if schedule is not None:
                stack.enter_context(faults.schedule(schedule, self._seed))
            if self._checks:
                stack.enter_context(_sanitizer().check(self._checks))
            if "faults" in settings:
                stack.enter_context(faults.plan(settings["faults"]))
            return (yield)

    # --- leaks ---

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        item.stash[_leaks] = {"before": _allocated(), "fixtures": 0, "passed": False}
        self._item = item
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        # Memory of a fixture that lives longer than the test is no leak.
        if fixturedef.scope == "function":
            return (yield)
        before = _allocated()
        try:
            return (yield)
        finally:
            self._item.stash[_leaks]["fixtures"] += _allocated() - before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.when == "call" and _leaks in item.stash:
            # The traceback of a failed test holds its tensors.
            item.stash[_leaks]["passed"] = report.passed
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        result = yield
        noted = item.stash[_leaks]
        mended = _mend()
        if (
            not noted["passed"]
            or mended
            or self._config.getoption("openreg_allow_leaks")
        ):
            return result
        # pytest itself lets go of what fixtures returned only after this.
        getattr(item, "funcargs", {}).clear()
        allowed = noted["before"] + noted["fixtures"]
        if _allocated() > allowed:
            gc.collect()
        left = _allocated() - allowed
        if left > 0:
            pytest.fail(
                f"{left} bytes of device memory are left after the test: something still "
                "holds its tensors; --openreg-allow-leaks allows it",
                pytrace=False,
            )
        return result


def _sanitizer():
    from torch_openreg import openreg

    return openreg.sanitizer


def _allocated() -> int:
    """Bytes that tensors hold on all devices; 0 as long as no device is in use."""
    from torch_openreg import openreg

    if not openreg.is_initialized():
        return 0
    return sum(map(openreg.memory_allocated, range(openreg.device_count())))


def _mend() -> bool:
    """Take devices that a test broke back into service; tell whether there were any."""
    import torch

    from torch_openreg import openreg

    broken = False
    if openreg.is_initialized():
        for device in range(openreg.device_count()):
            try:
                openreg.synchronize(device)
            except torch.AcceleratorError:
                openreg.reset_device(device)
                broken = True
    return broken
