"""Reprise's command and simulator library for TT-NN, and a plugin of pytest."""
import os
import sys

COMMAND = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reprise")  # it finds the library beside itself


def main():
    if sys.prefix != sys.base_prefix:
        os.environ.setdefault("VIRTUAL_ENV", sys.prefix)  # so that ttnn run takes this Python
    os.execv(COMMAND, [COMMAND, *sys.argv[1:]])
