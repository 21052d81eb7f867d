#!/usr/bin/env python3
"""Builds Reprise's wheel for users of TT-NN: the command, the simulator library, and a plugin of pytest.

    python3 internal/ttnn/wheel/build.py [-o DIR] [x86_64 aarch64]

Needs Go, gcc, and aarch64-linux-gnu-gcc for the other processor. The same sources and compilers give the same bytes.
"""
import argparse
import base64
import csv
import hashlib
import io
import os
import platform
import re
import stat
import subprocess
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../../.."))
MACHINES = {"x86_64": ("amd64", "gcc"), "aarch64": ("arm64", "aarch64-linux-gnu-gcc")}
EARLIEST = (1980, 1, 1, 0, 0, 0)  # in a zip file

METADATA = """Metadata-Version: 2.1
Name: reprise-tt
Version: %s
Summary: TT-NN on emulated Tenstorrent chips, with checks of kernels
License: Apache-2.0
Requires-Python: >=3.10
Provides-Extra: test
Requires-Dist: pytest>=8 ; extra == 'test'
Requires-Dist: pytest-xdist>=3 ; extra == 'test'
"""
ENTRIES = """[console_scripts]
reprise = reprise_tt:main

[pytest11]
reprise = reprise_tt.plugin
"""


def run(*command, **variables):
    return subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | variables).stdout


def go_build(path, goarch):
    run("go", "build", "-buildvcs=auto", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/reprise", CGO_ENABLED="0", GOOS="linux", GOARCH=goarch)


def version():
    """The version by the last tag, as Python writes it; without a tag, or after it, also the time of the last commit."""
    described = run("git", "describe", "--tags", "--match", "v*", "--always").strip()
    tag = re.fullmatch(r"v(\d+\.\d+\.\d+)(?:-rc\.?(\d+))?(?:-\d+-g(\w+))?", described)
    v = tag[1] + ("rc" + tag[2] if tag[2] else "") if tag else "0.0.0"
    revision = tag[3] if tag else described
    if revision:
        time = run("git", "log", "-1", "--format=%cd", "--date=format-local:%Y%m%d%H%M%S", TZ="UTC").strip()
        v += "%sdev%s+g%s" % (".post0." if tag else ".", time, revision)
    return v


def glibc(library):
    """The glibc that a library needs, as of its symbols' versions."""
    with open(library, "rb") as f:
        return max(int(n) for n in re.findall(rb"\0GLIBC_2\.(\d+)(?=[.\0])", f.read()))


def write(path, files, info):
    """Writes a wheel of files, by name, and a record of them."""
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, "sha256=" + digest, len(data)])
    rows.writerow([info + "/RECORD", "", ""])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in (files | {info + "/RECORD": record.getvalue().encode()}).items():
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose modes follow
            entry.external_attr = (stat.S_IFREG | (0o644 if "." in name else 0o755)) << 16
            z.writestr(entry, data)


def build(machine, folder, temp, native):
    goarch, compiler = MACHINES[machine]
    at = os.path.join(temp, machine)
    command, library = os.path.join(at, "reprise"), os.path.join(at, "libttsim.so")
    if command != native:
        go_build(command, goarch)
    run(native, "ttnn", "library", "-o", at, GOARCH=goarch, CC=compiler if machine != platform.machine() else "gcc")
    sources = os.path.join(HERE, "reprise_tt")
    paths = [command, library] + [os.path.join(sources, n) for n in sorted(os.listdir(sources)) if n.endswith(".py")]
    files = {}
    for path in paths:
        with open(path, "rb") as f:
            files["reprise_tt/" + os.path.basename(path)] = f.read()
    with open(os.path.join(ROOT, "LICENSE"), "rb") as f:
        text = f.read()
    v, tag = version(), "py3-none-manylinux_2_%d_%s" % (glibc(library), machine)
    info = "reprise_tt-%s.dist-info" % v
    files |= {
        info + "/LICENSE.txt": text,
        info + "/METADATA": (METADATA % v).encode(),
        info + "/WHEEL": ("Wheel-Version: 1.0\nGenerator: reprise\nRoot-Is-Purelib: false\nTag: %s\n" % tag).encode(),
        info + "/entry_points.txt": ENTRIES.encode(),
    }
    path = os.path.join(folder, "reprise_tt-%s-%s.whl" % (v, tag))
    write(path, files, info)
    print(path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", metavar="DIR", default="dist", help="folder for the wheels; created if missing")
    p.add_argument("machines", nargs="*", metavar="MACHINE", help="x86_64 or aarch64; this one if absent")
    options = p.parse_args()
    machines = options.machines or [platform.machine()]
    if unknown := set(machines) - set(MACHINES):
        p.error("no such machine: %s" % ", ".join(sorted(unknown)))
    folder = os.path.abspath(options.o)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as temp:
        native = os.path.join(temp, platform.machine(), "reprise")
        go_build(native, MACHINES[platform.machine()][0])
        for machine in machines:
            build(machine, folder, temp, native)


main()
