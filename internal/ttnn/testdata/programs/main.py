"""main.py [--short] NAME...: runs programs of the corpus on the simulator that TT_METAL_SIMULATOR names, in the order given; a name may be
a pattern such as 'trace/*'. main.py [--short] --list prints the names, those that share a device next to each other; main.py --wheel prints TT-NN's version.

A line of JSON for each: {"name", "sha256"}, {"name", "error"} or {"name", "skipped"}. Everything that TT-NN prints goes to the standard error.
--time ROUNDS prints {"name", "seconds"} instead, and before them {"name": "open", "seconds"}. A program that is no single operation is
skipped, and an error ends the process.
--save FOLDER also writes the results as .npz files, to find out what differs between two simulators."""
import argparse
import fnmatch
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
import traceback

# Simulators have no SFPLOADMACRO. The inspector listens on a port, which two processes can't share.
for name, value in {"TT_METAL_DISABLE_SFPLOADMACRO": "1", "TT_METAL_INSPECTOR": "0", "TT_METAL_INSPECTOR_RPC": "0", "TT_LOGGER_LEVEL": "warning", "LOGURU_LEVEL": "WARNING"}.items():
    os.environ.setdefault(name, value)
sys.dont_write_bytecode = True
results = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import numpy as np
import ttnn

# TT-NN has modules of the names of ours, so that ours are a package.
FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(FOLDER))
from programs import corpus

for file in sorted(os.listdir(FOLDER)):
    if file.endswith(".py") and file not in ("main.py", "golden.py"):
        importlib.import_module("programs." + file[:-3])


def names(patterns, short):
    """The cases' names in order: as given, and among those of a pattern the ones with equal options next to each other."""
    known = [n for n, c in corpus.CASES.items() if c.short or not short]
    known.sort(key=lambda n: (corpus.CASES[n].alone, corpus.CASES[n].options))
    chosen = {}
    for pattern in patterns:
        found = fnmatch.filter(known, pattern)
        if not found:
            sys.exit("main.py: no case named " + pattern)
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def flat(value, path=""):
    """The leaves of a result by their paths."""
    if isinstance(value, dict):
        return {k: v for key in value for k, v in flat(value[key], path + "." + key).items()}
    if isinstance(value, list):
        return {k: v for i, item in enumerate(value) for k, v in flat(item, "%s.%d" % (path, i)).items()}
    if value is not None and not isinstance(value, np.ndarray):
        value = np.array(str(value))
    return {path.lstrip(".") or "result": value if value is None or value.dtype.name != "bfloat16" else value.astype(np.float32)}


class Runner:
    """Runs cases one after another in this process, or in its successor: a case that is alone, and one after an error, gets a new process."""

    def __init__(self, save):
        self.save, self.device, self.options, self.used = save, None, None, False

    def close(self):
        if self.device is not None:
            ttnn.close_device(self.device)
        self.device = None

    def open(self, options):
        if self.device is None or self.options != options:
            self.close()
            self.device, self.options = ttnn.open_device(device_id=0, **dict(options)), options
        return self.device

    def run_all(self, chosen):
        for i, name in enumerate(chosen):
            case = corpus.CASES[name]
            if case.needs and not importlib.util.find_spec(case.needs):
                self.say({"name": name, "skipped": "no Python module " + case.needs})
                continue
            if case.alone and self.used:
                self.close()
                self.succeed(chosen[i:])
            self.used = True
            line = self.run(name, case)
            if case.alone or "error" in line:  # the device may be beyond closing
                self.succeed(chosen[i + 1 :])
            self.device.clear_program_cache()
        self.close()

    def run(self, name, case):
        try:
            result = corpus.run(name, None if case.alone else self.open(case.options))
            line = {"name": name, "sha256": corpus.digest(result)}
            if self.save:
                np.savez_compressed(os.path.join(self.save, name.replace("/", "_")), **{k: v for k, v in flat(result).items() if v is not None})
        except Exception as e:
            traceback.print_exc()
            line = {"name": name, "error": corpus.error_text(e)[:2000]}
        self.say(line)
        return line

    def say(self, line):
        print(json.dumps(line), file=results, flush=True)

    def succeed(self, rest):
        """Ends the process without closing the device; a new one runs the rest."""
        sys.stdout.flush()
        sys.stderr.flush()
        if not rest:
            os._exit(0)
        os.dup2(results.fileno(), 1)
        os.execv(sys.executable, [sys.executable, __file__] + (["--save", self.save] if self.save else []) + rest)


def measure(chosen, rounds):
    """Prints how long opening the device takes, the median of three, and operations, each the least of some rounds."""
    runner, times = Runner(None), []
    for _ in range(3):
        begun = time.perf_counter()
        runner.open(corpus.CASES[chosen[0]].options)
        times.append(time.perf_counter() - begun)
        runner.close()
    runner.say({"name": "open", "seconds": sorted(times)[1]})
    for name in chosen:
        try:
            best = corpus.seconds(name, runner.open(corpus.CASES[name].options), rounds)
        except Exception as e:
            traceback.print_exc()
            runner.say({"name": name, "error": corpus.error_text(e)[:2000]})
            os._exit(1)  # the device may be beyond closing
        runner.say({"name": name, "skipped": "it is no single operation"} if best is None else {"name": name, "seconds": best})
    runner.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--wheel", action="store_true")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--save", metavar="FOLDER")
    parser.add_argument("--time", metavar="ROUNDS", type=int)
    a = parser.parse_intermixed_args()
    if a.wheel:
        print(importlib.metadata.version("ttnn"), file=results, flush=True)
        os._exit(0)
    chosen = names(a.names or ["*"], a.short)
    if a.list:
        print("\n".join(chosen), file=results, flush=True)
        os._exit(0)
    if not a.names and not a.short:
        parser.error("no names")
    if a.time:
        measure(chosen, a.time)
    else:
        Runner(a.save).run_all(chosen)


main()
