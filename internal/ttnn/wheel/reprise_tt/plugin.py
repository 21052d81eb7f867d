"""pytest --reprise MACHINE: runs tests of TT-NN on an emulated machine, one for each process.

A finding of --reprise-check fails the test in which it was found. A test that takes longer than --reprise-timeout is ended with its
process, as nothing else ends a wait for the device. If pytest-xdist is there, tests run in its workers, so that the next test goes on in
another process.
"""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from reprise_tt import COMMAND

FOLDER = "REPRISE_PYTEST"  # variable with a folder that all processes of this pytest share
WORKER = "PYTEST_XDIST_WORKER"
PATIENCE = 30  # seconds until the watcher of a worker that ended has said why


def pytest_addoption(parser):
    group = parser.getgroup("reprise", "TT-NN on emulated chips")
    group.addoption("--reprise", metavar="MACHINE", help="run tests of TT-NN on an emulated machine: n150, p150, p300 and the like")
    group.addoption("--reprise-check", metavar="NAMES", default="", help="checks of kernels, such as races,counters or all; a finding fails the test")
    group.addoption("--reprise-timeout", metavar="SECONDS", type=float, default=600, help="time limit of a test (600); 0 is none")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config, args):
    option = early_config.known_args_namespace
    if not option.reprise:
        return
    worker = os.environ.get(WORKER)
    if not worker:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="reprise-pytest")
        if getattr(option, "numprocesses", 0) is None and not option.usepdb and option.capture != "no":
            args[:0] = ["-n", "1"]
    prefix = os.path.join(os.environ[FOLDER], worker or "main")
    plugin = Plugin(prefix, option.reprise_timeout, not worker)
    plugin.prepare(option.reprise, option.reprise_check)
    early_config.pluginmanager.register(plugin, "reprise-chip")


class Plugin:
    def __init__(self, prefix, timeout, first):
        self.prefix, self.timeout, self.first = prefix, timeout, first
        self.findings = prefix + ".json"
        self.cores = "@reprise-pytest-%d" % os.getpid()
        self.watcher = None

    def prepare(self, machine, checks):
        """Sets what ttnn run sets, before a conftest imports ttnn."""
        command = [COMMAND, "ttnn", "env", "--python", sys.executable, "--machine", machine, "--cores", self.cores]
        if checks:
            command += ["--check", checks, "--findings", self.findings]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise pytest.UsageError(done.stderr.strip())
        variables = json.loads(done.stdout)
        if "LD_PRELOAD" in variables:
            raise pytest.UsageError("reprise: this plugin needs ttnn 0.72.0 or newer; reprise ttnn run takes older ones")
        variables.pop("PYTHONPATH")  # it has the observer for new processes
        os.environ.update(variables)
        path = os.path.join(os.path.dirname(os.environ["TT_METAL_SIMULATOR"]), "sitecustomize.py")
        spec = importlib.util.spec_from_file_location("reprise_observer", path)
        observer = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(observer)

    def pytest_configure(self):
        self.stderr = os.dup(2)  # not captured here

    def pytest_unconfigure(self):
        if self.watcher:
            self.watcher.stdin.close()
            self.watcher.wait()
        if self.first:
            shutil.rmtree(os.environ.pop(FOLDER), ignore_errors=True)

    def tell(self, line):
        self.watcher.stdin.write(line.encode() + b"\n")
        self.watcher.stdin.flush()

    @pytest.hookimpl(wrapper=True, trylast=True)  # pytest captures output around this
    def pytest_runtest_setup(self, item):
        if not self.watcher:
            command = [sys.executable, "-m", "reprise_tt.watcher", str(os.getpid()), self.cores, str(self.timeout), self.prefix, str(int(self.first))]
            captured = [os.dup(1), os.dup(2)]
            self.watcher = subprocess.Popen(command + list(map(str, captured)), stdin=subprocess.PIPE, stderr=self.stderr, pass_fds=captured)
        self.tell(item.nodeid)
        return (yield from self.checked(item, "setup"))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item):
        return (yield from self.checked(item, "call"))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item):
        result = yield from self.checked(item, "teardown")
        self.tell("")
        return result

    def checked(self, item, when):
        try:
            result = yield
        except BaseException:
            if found := self.found():
                item.add_report_section(when, "reprise", found)
            raise
        if found := self.found():
            pytest.fail(found, pytrace=False)
        return result

    def found(self):
        """What the checks have found since the last call, but for what is known of TT-NN's own kernels."""
        taken = self.findings + ".taken"
        try:
            os.rename(self.findings, taken)
        except FileNotFoundError:
            return ""
        done = subprocess.run([COMMAND, "ttnn", "findings", taken], capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem, report):
        path = os.path.join(os.environ[FOLDER], report.node.gateway.id) + ".txt"
        end = time.monotonic() + PATIENCE
        while not os.path.exists(path) and time.monotonic() < end:
            time.sleep(0.05)
        if os.path.exists(path):
            with open(path, errors="replace") as f:
                report.longrepr += "\n" + f.read()
