"""Uses a card by the vendor's Python packages, for TestTools: luwen, umd, dal, or screen COMMAND for a program with a screen."""

import os
import sys


def luwen():
    import pyluwen

    chips = pyluwen.detect_chips()
    for chip in chips:
        where = "remote" if chip.is_remote() else "local"
        tile, chip = ((1, 2), chip.as_bh()) if chip.as_bh() else ((1, 1), chip.as_wh())
        data = bytes(range(256)) * 40
        chip.noc_write(0, *tile, 0x1000, data)
        back = bytearray(len(data))
        chip.noc_read(0, *tile, 0x1000, back)
        chip.noc_write32(0, *tile, 0x1000, 0xDEADBEEF)
        print(where, hex(chip.get_telemetry().board_id), bytes(back) == data, hex(chip.noc_read32(0, *tile, 0x1000)))


def umd():
    import tt_umd

    for device in tt_umd.TopologyDiscovery.discover()[1].values():
        device.init_tt_device()
        tiles = device.get_soc_descriptor()
        for kind, data in ((tt_umd.CoreType.TENSIX, bytes(range(256)) * 64), (tt_umd.CoreType.DRAM, b"dram" * 30000)):
            tile = tiles.translate_coord_to(tiles.get_cores(kind)[0], tt_umd.CoordSystem.TRANSLATED)
            device.noc_write(tile.x, tile.y, 0x20000, data)
            print(device.noc_read(tile.x, tile.y, 0x20000, len(data)) == data)
        print("remote" if device.is_remote() else "local", device.arc_msg(0x90, True, [0, 0])[0])


def dal():
    import ttdal

    for device in ttdal.scan():
        with device.open() as session:
            info = session.info()
            print(info)
            if "0x401e" not in str(info):  # it looks for a Wormhole's telemetry at tile (0,2), which answers no requests
                print(session.telemetry())
        device.reset()
        with device.open() as session:
            print(session.dev() if callable(session.dev) else session.dev)


def screen(command):
    """Types keys into a terminal and prints what was shown."""
    import fcntl, pty, re, select, struct, termios, time

    process, terminal = pty.fork()
    if process == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(command, [command])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    shown, keys, typed = b"", ["2", "3", "q"], time.time()
    while True:
        try:
            if select.select([terminal], [], [], 0.5)[0]:
                shown += os.read(terminal, 65536)
        except OSError:  # it has ended
            break
        if keys and time.time() - typed > 3:
            os.write(terminal, keys.pop(0).encode())
            typed = time.time()
    print(re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b" ", shown).decode(errors="replace"))
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


globals()[sys.argv[1]](*sys.argv[2:])
