"""Runs programs with faults in TT-NN's kernels: ttnn_seeded.py RUN [FOLDER], of a run of ttnn_seeded.txt.

The changed kernels are written to FOLDER, where TT-NN looks first, among links to what they may include. Without FOLDER nothing is changed.
ttnn_seeded.py list prints the runs as JSON.
"""
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "../../../internal/ttnn/testdata/programs/main.py")


def runs():
    """The runs of ttnn_seeded.txt, with their faults."""
    out = []
    for line in open(os.path.join(HERE, "ttnn_seeded.txt")):
        mark, rest = line[:2].strip(), line[2:].rstrip("\n")
        if mark == "":
            continue
        if mark == "==":
            out.append({"Chips": rest.split(), "Faults": []})
        elif mark in "-+":
            out[-1]["Faults"][-1][mark].append(rest)
        elif mark == ">":
            check, _, text = rest.partition(": ")
            out[-1]["Faults"][-1].update(Check=check, Text=text)
        elif mark[0] != "#":
            name, program, kernel = line.split()
            out[-1]["Faults"].append({"Name": name, "Program": program, "Kernel": os.path.basename(kernel), "File": kernel + ".cpp", "-": [], "+": []})
    return out


def changed(fault, text):
    """The kernel with the fault."""
    old = r"\s*\n\s*".join("((?s:.*?))" if line == "..." else re.escape(line.strip()) for line in fault["-"])
    found = list(re.finditer(old, text))
    if len(found) != 1:
        sys.exit("%s: %s has its old lines %d times" % (fault["Name"], fault["File"], len(found)))
    kept = iter(found[0].groups())
    new = "\n".join(next(kept) if line == "..." else line for line in fault["+"])
    return text[:found[0].start()] + new + text[found[0].end():]


def mirror(source, target, files):
    """Makes target a folder with links to what source has, but for files, by path."""
    os.makedirs(target)
    for name in os.listdir(source):
        below = {path[len(name) + 1:]: text for path, text in files.items() if path.split("/")[0] == name}
        at = os.path.join(target, name)
        if not below:
            os.symlink(os.path.join(source, name), at)
        elif "" in below:
            open(at, "w").write(below[""])
        else:
            mirror(os.path.join(source, name), at, below)


if sys.argv[1] == "list":
    json.dump(runs(), sys.stdout)
    sys.exit()
faults = runs()[int(sys.argv[1])]["Faults"]
if len(sys.argv) > 2:
    import importlib.util
    wheel = os.path.dirname(importlib.util.find_spec("ttnn").origin)
    kernels = {}
    for fault in faults:
        path = "ttnn/cpp/ttnn/operations/" + fault["File"]
        kernels[path] = changed(fault, kernels.get(path) or open(os.path.join(wheel, path)).read())
    root = os.environ["TT_METAL_KERNEL_PATH"] = os.path.join(sys.argv[2], "kernels")
    mirror(wheel, root, kernels)
programs = dict.fromkeys(fault["Program"] for fault in faults)
os.execv(sys.executable, [sys.executable, CORPUS, *programs])
