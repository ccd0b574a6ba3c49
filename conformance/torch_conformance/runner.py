"""Runs checks in worker processes, so that a crash or a hang is one failed check."""

import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from .check import base_id
from .levels import checks, find
from .outcome import Result
from .settings import BadSettings

START_SECONDS = 120


class Lost(Exception):
    """The worker ended, or said nothing for too long."""


class Worker:
    """A process that has loaded the backend and runs one check after another."""

    def __init__(self, settings):
        self.channel, there = socket.socketpair()
        self.output = tempfile.TemporaryFile()
        environment = {**os.environ, **settings.environment}
        if settings.module:  # one backend per process, and this is it
            environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        command = [sys.executable, "-m", f"{__package__}.worker", str(there.fileno())]
        with there:
            self.process = subprocess.Popen(
                [*command, settings.packed()],
                env=environment,
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=self.output,
                start_new_session=True,  # what a check starts ends with it
            )
        self.buffer = b""

    def hello(self):
        """Waits until the backend is loaded; returns what went wrong, or None."""
        try:
            found = self._receive(START_SECONDS)
        except Lost as lost:
            return f"{lost}\n{self.printed()}"
        return None if found["ready"] else found["message"]

    def _receive(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.channel], [], [], left)[0]:
                raise Lost(f"no answer after {seconds:g} s")
            try:
                more = self.channel.recv(1 << 16)
            except ConnectionError:
                more = b""
            if not more:
                raise Lost(self._ending())
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def _ending(self):
        code = self.process.wait()
        if code < 0:
            return f"the process died of {signal.Signals(-code).name}"
        return f"the process ended with status {code}"

    def printed(self):
        """The end of what the process wrote, such as where it crashed."""
        self.output.seek(0)
        return self.output.read().decode(errors="replace").strip()[-2000:]

    def run(self, check_id, seconds):
        """A result, and whether the worker can be used for another check."""
        start = time.monotonic()

        def lost(status, message):
            text = f"{message}\n{self.printed()}".strip()
            return Result(check_id, status, text, time.monotonic() - start), False

        try:
            self.channel.sendall((json.dumps(check_id) + "\n").encode())
            found = self._receive(seconds)
        except (Lost, ConnectionError) as error:
            if self.process.poll() is None and not isinstance(error, ConnectionError):
                self._ask_where()
                return lost("hung", str(error))
            return lost("crashed", str(error))
        healthy = found.pop("healthy")
        return Result(check_id, **found), healthy

    def _ask_where(self):
        """Has the process write where its threads are."""
        os.kill(self.process.pid, signal.SIGUSR1)
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            pass

    def kill(self):
        """Ends the process and all that it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        """Ends the process, and gives back what it took here."""
        self.channel.close()
        self.kill()
        self.process.wait()
        self.output.close()


class Workers:
    """One place for a worker, which is started when needed and replaced when lost."""

    def __init__(self, settings):
        self.settings = settings
        self.worker = None
        self.stopped = False

    def get(self):
        """A worker that has loaded the backend."""
        if self.worker is None:
            self.worker = Worker(self.settings)
            if self.stopped:
                self.worker.kill()
            problem = self.worker.hello()
            if problem:
                self.drop()
                if not self.settings.module:
                    problem += (
                        "\n--module names what to import, if it is not torch alone"
                    )
                raise BadSettings(f"the backend cannot be loaded: {problem}")
        return self.worker

    def stop(self):
        """From another thread: ends the check that runs, and lets no other run."""
        self.stopped = True
        worker = self.worker
        if worker is not None:
            worker.kill()

    def drop(self):
        """Ends the worker, if there is one."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def run(self, check_id):
        """The result of a check."""
        check = find(base_id(check_id))
        if check.own_process:
            self.drop()
        seconds = self.settings.seconds or check.seconds
        result, usable = self.get().run(check_id, seconds)
        if not usable or check.own_process:
            self.drop()
        return as_expected(result, self.settings.expected)


def expect_loadable(settings):
    """Refuses settings whose backend cannot be loaded, or does not have the device."""
    place = Workers(settings)
    try:
        place.get()
    finally:
        place.drop()


def as_expected(result, expected):
    """The result in the light of the failures that the vendor expects."""
    reason = expected.get(result.id, expected.get(base_id(result.id)))
    if reason is None or result.good is None:
        return result
    if result.good:
        result.status = "unexpected"
        result.message = (
            f"it passes now, but is an expected failure ({reason}): take it out"
        )
    else:
        result.status = "expected"
        result.message = f"{reason}: {result.message}"
    return result


def selected(settings, highest=None, only=(), every=1):
    """Ids of the checks to run: all up to a level, or those that `only` names. Of a
    check with cases each `every`-th, and those that the vendor expects to fail."""
    ids = []
    for check in checks(highest):
        if only and check.id not in map(base_id, only):
            continue
        expanded = [one.id for one in check.expand()]
        if check.cases:
            keep = set(expanded) & set(only)
            if not keep:
                keep = {*expanded[::every], *settings.expected}
            expanded = [check_id for check_id in expanded if check_id in keep]
        ids += expanded
    return ids


def run_checks(settings, ids, jobs=1, tell=lambda result: None):
    """The results of the checks, in the order of `ids`; `tell` hears of each."""
    waiting = queue.SimpleQueue()
    for check_id in ids:
        waiting.put(check_id)
    results = {}
    places = [Workers(settings) for _ in range(min(jobs, len(ids)))]

    def work(place):
        try:
            while not place.stopped:
                check_id = waiting.get_nowait()
                results[check_id] = place.run(check_id)
                tell(results[check_id])
        except queue.Empty:
            pass
        finally:
            place.drop()

    with ThreadPoolExecutor(len(places)) as pool:
        threads = [pool.submit(work, place) for place in places]
        try:
            wait(threads, return_when=FIRST_EXCEPTION)  # or until Ctrl-C
        finally:
            for place in places:
                place.stop()
        for thread in threads:
            thread.result()
    return [results[check_id] for check_id in ids]
