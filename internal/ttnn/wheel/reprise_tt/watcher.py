"""Watches a process that runs tests: ends it if a test takes too long, and keeps what was said if it ends within a test.

A line of standard input is the test that begins, an empty one says that it has ended. Nothing in the process itself could do this: its
threads may wait for Python's lock while TT-NN waits for the device.
"""
import os
import select
import signal
import socket
import stat
import subprocess
import sys

from reprise_tt import COMMAND

process, cores, timeout, prefix, alone, *captured = sys.argv[1:]
PATIENCE = 10  # seconds for a report of cores, and for the process to end


def report():
    """What each core does."""
    parts = []
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect("\0" + cores[1:])
            while part := s.recv(1 << 16):
                parts.append(part)
    except ConnectionRefusedError:
        return "it has no device open\n"
    except OSError as e:
        parts.append(b"the cores can't be read: %s\n" % str(e).encode())
    return b"".join(parts).decode(errors="replace")


def output():
    """What the process wrote since the test's phase began, which pytest would have shown."""
    text = ""
    for name, fd in zip(("output", "errors"), map(int, captured)):
        info = os.fstat(fd)
        if stat.S_ISREG(info.st_mode) and info.st_size:
            text += "captured %s:\n%s\n" % (name, os.pread(fd, info.st_size, 0).decode(errors="replace"))
    return text


def findings():
    if not os.path.exists(prefix + ".json"):
        return ""
    done = subprocess.run([COMMAND, "ttnn", "findings", prefix + ".json"], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def tell(text):
    if int(alone):
        sys.stderr.write("\nFAILED %s: %s" % (test, text))
    with open(prefix + ".new", "w") as f:
        f.write(text)
    os.rename(prefix + ".new", prefix + ".txt")


signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
test, lines, why = "", sys.stdin.buffer.raw, ""
while True:
    ready, _, _ = select.select([lines], [], [], (float(timeout) or None) if test and not why else PATIENCE if why else None)
    if ready:
        line = lines.readline()
        if not line:
            break
        test = line.decode().strip()
    elif why:
        os.kill(int(process), signal.SIGKILL)
        why += "killed: it didn't end\n"
    else:
        why = "it took longer than %s seconds:\n" % timeout + report()
        os.kill(int(process), signal.SIGABRT)  # Python prints where it is
if test:
    tell((why or "the process ended\n") + findings() + output())
