"""Writes a performance report, as tt-metal's profiler does (tools/tracy/process_ops_logs.py, OPS_CSV_HEADER), for reprise ttnn run --perf.

Arguments are the architecture, the files of PerfRecorder (internal/ttnn/perf.go) and of sitecustomize.py, and the folder for the report.
Cells of what isn't known are empty.
"""
import csv
import json
import os
import sys

CLOCKS = {"wormhole": ("wormhole_b0", 1000), "blackhole": ("blackhole", 1350)}  # MHz (tt-umd *_implementation.hpp, AICLK_BUSY_VAL)
PROCESSORS = ["BRISC", "NCRISC", "TRISC0", "TRISC1", "TRISC2"]  # in the order of Kernels
TENSOR = [f"{axis}_PAD[LOGICAL]" for axis in "WZYX"] + ["LAYOUT", "DATATYPE", "MEMORY"]
COLUMNS = (
    """OP CODE,OP TYPE,GLOBAL CALL COUNT,DEVICE ID,DEVICE ARCH,SUB DEVICE ID,ATTRIBUTES,MATH FIDELITY,CORE COUNT,AVAILABLE WORKER CORE COUNT,
PARALLELIZATION STRATEGY,HOST START TS,HOST END TS,HOST DURATION [ns],DEVICE FW START CYCLE,DEVICE FW END CYCLE,OP TO OP LATENCY [ns],
OP TO OP LATENCY BR/NRISC START [ns],DEVICE FW DURATION [ns],DEVICE KERNEL DURATION [ns],DEVICE KERNEL DURATION DM START [ns],
DEVICE KERNEL DURATION PER CORE MIN [ns],DEVICE KERNEL DURATION PER CORE MAX [ns],DEVICE KERNEL DURATION PER CORE AVG [ns],
DEVICE KERNEL FIRST TO LAST START [ns],DEVICE BRISC KERNEL DURATION [ns],DEVICE NCRISC KERNEL DURATION [ns],
DEVICE TRISC0 KERNEL DURATION [ns],DEVICE TRISC1 KERNEL DURATION [ns],DEVICE TRISC2 KERNEL DURATION [ns],
DEVICE ERISC KERNEL DURATION [ns],METAL TRACE ID,METAL TRACE REPLAY SESSION ID,PROGRAM HASH,PROGRAM CACHE HIT,PM IDEAL [ns]"""
).replace("\n", "").split(",")
DEVICE_LOG = (
    "PCIe slot, core_x, core_y, RISC processor type, timer_id, time[cycles since reset], data, run host ID, trace id, "
    "trace id counter, zone name, type, source line, source file, meta data"
)


def lines(path):
    """The lines of a file, up to where the program was killed; none without a file."""
    if os.path.exists(path):
        with open(path, encoding="utf8") as f:
            for line in f:
                if line.endswith("\n"):
                    yield json.loads(line)


def operations(path):
    """The calls of operations by their number, each with its cells and its trace, a list of replays; and a chip's number of workers."""
    out, traces, workers = {}, {}, 0
    for call in lines(path):
        replays = traces.setdefault(call["Trace"], [])
        if call.get("Replay"):
            replays.append(call)
            continue
        if replays:  # a new trace with the number of another
            replays = traces[call["Trace"]] = []
        workers = max(workers, call["Grid"][0] * call["Grid"][1])
        for i, cells in enumerate(call["Rows"]):
            out[call["First"] + i] = {**call, "cells": cells, "replays": replays if call["Trace"] is not None else None}
    return out, workers


def programs(path):
    """What tiles did, by machine, chip, operation and its execution: a tile executes a program once in each."""
    out, times = {}, {}
    for tile in lines(path):
        key = tile["Machine"], tile["Chip"], tile["Operation"]
        at = *key, tile["Tile"]["X"], tile["Tile"]["Y"]
        times[at] = times.get(at, -1) + 1
        out.setdefault((*key, times[at]), []).append(tile)
    return out


def span(tiles, *processors):
    """When the tiles' kernels on some processors, or all, began first and last, and when they ended; None if there are none."""
    ran = [t["Kernels"][PROCESSORS.index(p)] for t in tiles for p in processors or PROCESSORS]
    ran = [k for k in ran if k[0]]
    return (min(k[0] for k in ran), max(k[0] for k in ran), max(k[1] for k in ran)) if ran else None


def device_cells(tiles, before, mhz):
    """The cells that the chip tells; before is what it executed before, or None."""
    row = {"CORE COUNT": len(tiles), "DEVICE FW START CYCLE": min(t["Start"] for t in tiles), "DEVICE FW END CYCLE": max(t["End"] for t in tiles)}

    def ns(column, start, end):
        row[column + " [ns]"] = round((end - start) * 1000 / mhz)

    ns("DEVICE FW DURATION", row["DEVICE FW START CYCLE"], row["DEVICE FW END CYCLE"])
    for processor in PROCESSORS:
        if times := span(tiles, processor):
            ns(f"DEVICE {processor} KERNEL DURATION", times[0], times[2])
    kernels, movers, previous = span(tiles), span(tiles, "BRISC", "NCRISC"), before and span(before)
    if not kernels:
        return row
    ns("DEVICE KERNEL DURATION", kernels[0], kernels[2])
    ns("DEVICE KERNEL FIRST TO LAST START", kernels[0], kernels[1])
    cores = [s[2] - s[0] for s in (span([t]) for t in tiles) if s]
    for column, cycles in ("MIN", min(cores)), ("MAX", max(cores)), ("AVG", sum(cores) / len(cores)):
        ns(f"DEVICE KERNEL DURATION PER CORE {column}", 0, cycles)
    if movers:
        ns("DEVICE KERNEL DURATION DM START", movers[0], kernels[2])
    if previous:
        ns("OP TO OP LATENCY", previous[2], kernels[0])
        if movers:
            ns("OP TO OP LATENCY BR/NRISC START", previous[2], movers[0])
    return row


def rows(arch, launches, calls):
    known, workers = operations(calls)
    name, mhz = CLOCKS[arch]
    runs = []
    for (machine, chip, number, execution), tiles in programs(launches).items():
        call = known.get(number, {"Start": 0, "cells": {"OP CODE": "program"}, "replays": None, "Grid": [0, 0]})
        replays = call["replays"]
        host = replays[execution] if replays and execution < len(replays) else call
        runs.append((host["Start"], number, chip, machine, execution, tiles, call, host))
    out, last, start = [], {}, 0
    for _, number, chip, machine, execution, tiles, call, host in sorted(runs, key=lambda r: r[:5]):
        start = max(start + 1, host["Start"])  # readers sort by it
        row = {"OP TYPE": "tt_dnn_device", "GLOBAL CALL COUNT": number, "DEVICE ID": chip, "DEVICE ARCH": name, "HOST START TS": start}
        row |= {k: f"DEV_{chip}_{v}" if k.endswith("_MEMORY") else v for k, v in call["cells"].items()}
        row |= device_cells(tiles, last.get((machine, chip)), mhz)
        last[machine, chip] = tiles
        if "Stop" in host:
            row |= {"HOST END TS": host["Stop"], "HOST DURATION [ns]": host["Stop"] - host["Start"]}
        x, y = call["Grid"]
        available = x * y
        if tiles[0]["SubDevice"]:
            row["SUB DEVICE ID"] = tiles[0]["SubDevice"] - 1
            available = sum(c["X"] < x and c["Y"] < y for c in tiles[0]["Workers"])
        row["AVAILABLE WORKER CORE COUNT"] = available or ""
        if call["replays"] is not None:
            row |= {"METAL TRACE ID": call["Trace"], "METAL TRACE REPLAY SESSION ID": execution + 1}
        out.append(row)
    return out, workers


def main(arch, launches, calls, folder):
    if not os.path.exists(launches):
        sys.exit("the program has opened no device")
    table, workers = rows(arch, launches, calls)
    columns = list(COLUMNS)
    for kind, least in ("INPUT", 2), ("OUTPUT", 1):  # as many as tt-perf-report needs
        count = max([least] + [1 + i for row in table for i in range(64) if f"{kind}_{i}_MEMORY" in row])
        columns += [f"{kind}_{i}_{name}" for i in range(count) for name in TENSOR]
    os.makedirs(folder, exist_ok=True)
    # The vendor's visualizer needs the other two files.
    with open(os.path.join(folder, "profile_log_device.csv"), "w", encoding="utf8") as f:
        f.write(f"ARCH: {CLOCKS[arch][0]}, CHIP_FREQ[MHz]: {CLOCKS[arch][1]}, Max Compute Cores: {workers}\n{DEVICE_LOG}\n")
    with open(os.path.join(folder, "tracy_profile_log_host.tracy"), "w", encoding="utf8"):
        pass
    with open(os.path.join(folder, "ops_perf_results.csv"), "w", newline="", encoding="utf8") as f:
        w = csv.DictWriter(f, columns, lineterminator="\n")
        w.writeheader()
        for row in table:
            w.writerow({k: str(v).replace(",", ";").replace("\n", " ") for k, v in row.items()})  # as tt-metal


main(*sys.argv[1:])
