"""golden.py FOLDER [PATTERN...]: runs the corpus on the vendor's simulator and writes its digests to golden.json.

FOLDER has wormhole/libttsim.so and blackhole/libttsim.so, each with its soc_descriptor.yaml. With patterns, only the digests of those
cases change. The interpreter is that of a wheel's virtual environment.

golden.json: {"ttsim": its version, "first": wheel, "wheels": {wheel: {chip: {case: entry}}}}. The first wheel has every case; each
further one has only those whose entry differs. An entry has either
  "sha256": the digest on ttsim; or
  "ttsim":  why there is none: ttsim refuses the program or doesn't end it; or "wheel": why TT-NN itself, or the compiler, refuses.
With "ttsim" may be "ours", the digest on this project's emulator, and "why", the reason to believe it: --ours WHY runs the cases that
ttsim refuses, with libraries of this project in FOLDER, and writes both."""
import argparse
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "golden.json")
SECONDS = 300  # for a case, with the compilation of its kernels


class Shard:
    """A process that runs cases one after another."""

    def __init__(self, simulator, cache, cases):
        environment = dict(os.environ, TT_METAL_SIMULATOR=simulator, TT_METAL_CACHE=cache)
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "main.py"), *cases],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
            cwd=tempfile.gettempdir(),  # TT-NN leaves files
            start_new_session=True,
        )

    def line(self):
        """The next result, or the text of what ended the process."""
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        if not ready:
            self.stop()
            return {"died": "doesn't end"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"died": self.reason()}

    def reason(self):
        code = self.process.wait()
        self.errors.seek(0)
        said = [x.strip() for x in self.errors if re.search(r"ERROR|Unimplemented|Undefined|assert|FAULT|fatal|Segmentation", x)]
        return "refuses: " + (re.sub(r"^.*?(?=ERROR|EMU FAULT)", "", said[-1])[:300] if said else "the process ends with code %d" % code)

    def stop(self):
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.errors.close()


def run_chip(simulator, cache, cases, report, size):
    """Runs cases in processes of size each. A case that ends its process is the one whose line is missing; the next process goes on behind it."""
    cases = list(cases)
    while cases:
        part = cases[:size]
        shard = Shard(simulator, cache, part)
        done = 0
        while done < len(part):
            start = time.time()
            line = shard.line()
            report(part[done], line, time.time() - start)
            done += 1
            if "died" in line:
                break
        shard.stop() if "died" in line else shard.process.wait(30)
        cases = cases[done:]


def entry(line):
    if "sha256" in line:
        return {"sha256": line["sha256"]}
    if "skipped" in line:
        return {"wheel": line["skipped"]}
    if "error" in line:
        return {"wheel": line["error"][:300]}
    return {"ttsim": line["died"]}


def differs(want, got):
    digest = want.get("sha256", want.get("ours"))
    return digest != got.get("sha256") if digest else "wheel" in want and "wheel" not in got


def write(golden):
    """JSON with a line for each entry, so that a change of one is a change of a line."""
    first = next(iter(golden["wheels"]))
    out = ['{\n "ttsim": %s,\n "first": %s,\n "wheels": {' % (json.dumps(golden["ttsim"]), json.dumps(first))]
    wheels = []
    for wheel, chips in golden["wheels"].items():
        parts = []
        for chip, cases in chips.items():
            lines = ["    %s: %s" % (json.dumps(n), json.dumps(cases[n], ensure_ascii=False)) for n in sorted(cases)]
            parts.append('   "%s": {\n%s\n   }' % (chip, ",\n".join(lines)))
        wheels.append('\n  "%s": {\n%s\n  }' % (wheel, ",\n".join(parts)))
    out.append(",".join(wheels) + "\n }\n}\n")
    with open(GOLDEN, "w") as f:
        f.write("".join(out))


def installed_wheel():
    import importlib.metadata

    return importlib.metadata.version("ttnn")


def list_cases(simulator, patterns):
    environment = dict(os.environ, TT_METAL_SIMULATOR=simulator)
    p = subprocess.run([sys.executable, os.path.join(HERE, "main.py"), "--list", *patterns], stdout=subprocess.PIPE, text=True, env=environment)
    if p.returncode:
        sys.exit("golden.py: main.py --list failed")
    return p.stdout.split()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--ttsim", help="the simulator's version, for golden.json")
    parser.add_argument("--chips", default="wormhole,blackhole")
    parser.add_argument("--cache", default=os.path.join(tempfile.gettempdir(), "programs-cache"))
    parser.add_argument("--shard", type=int, default=20, help="cases in a process; a result doesn't depend on it")
    parser.add_argument("--missing", action="store_true", help="only cases without an entry")
    parser.add_argument("--ours", metavar="WHY", help="write the digests of what ttsim refuses, from this project's emulator")
    parser.add_argument("--compare", action="store_true", help="print what differs from golden.json instead of writing it")
    a = parser.parse_intermixed_args()
    golden = json.load(open(GOLDEN)) if os.path.exists(GOLDEN) else {"ttsim": a.ttsim, "wheels": {}}
    golden["ttsim"] = a.ttsim or golden["ttsim"]
    wheel, first = installed_wheel(), next(iter(golden["wheels"]), None)
    entries = golden["wheels"].setdefault(wheel, {})
    lock = threading.Lock()

    def expected(chip, name):
        both = {**(golden["wheels"][first][chip] if first else {}), **entries.get(chip, {})}
        return both.get(name)

    def report_for(chip):
        counter = [0]

        def report(name, line, seconds):
            with lock:
                counter[0] += 1
                e = entry(line)
                print("%s %d %s %.1f s %s" % (chip, counter[0], name, seconds, e.get("sha256", str(e))[:200]), flush=True)
                if a.compare:
                    want = expected(chip, name)
                    if differs(want, e):
                        print("DIFFERS %s %s golden %s" % (chip, name, want), flush=True)
                    return
                if a.ours:
                    if "sha256" in e:
                        entries.setdefault(chip, {})[name] = {**expected(chip, name), "ours": e["sha256"], "why": a.ours}
                elif first in (None, wheel) or golden["wheels"][first][chip].get(name) != e:
                    old = entries.setdefault(chip, {}).get(name, {})
                    entries[chip][name] = {**e, **{k: v for k, v in old.items() if k in ("ours", "why") and "ttsim" in e}}
                else:
                    entries.setdefault(chip, {}).pop(name, None)
                write(golden)

        return report

    threads = []
    for chip in a.chips.split(","):
        simulator = os.path.join(os.path.abspath(a.folder), chip, "libttsim.so")
        cases = list_cases(simulator, a.patterns)
        if a.compare:
            cases = [n for n in cases if expected(chip, n) is not None]
        if a.ours:
            cases = [n for n in cases if "ttsim" in (expected(chip, n) or {})]
        if a.missing:
            cases = [n for n in cases if expected(chip, n) is None]
        if not (a.patterns or a.compare or a.missing or a.ours):
            entries[chip] = {n: e for n, e in entries.get(chip, {}).items() if n in cases}
        threads.append(threading.Thread(target=run_chip, args=(simulator, os.path.join(a.cache, chip), cases, report_for(chip), a.shard)))
    for t in threads:
        t.start()
    for t in threads:
        t.join()


main()
