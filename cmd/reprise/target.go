package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// serveCommand is the hidden command that makes this program the server process of the vendor's simulator.
const serveCommand = "ttsim-serve"

// deviceHelp is how flags describe what parseTarget accepts.
const deviceHelp = "emu:blackhole, emu:wormhole, ttsim:PATH of the vendor's libttsim.so, or a device node such as /dev/tenstorrent/0"

// parseTarget turns what the user calls a device into a target.
func parseTarget(s string) (reprise.Target, error) {
	kind, rest, _ := strings.Cut(s, ":")
	switch {
	case strings.HasPrefix(s, "/"), strings.HasPrefix(s, "."):
		return reprise.Path(s), nil
	case kind == "emu":
		arch, err := chip.ParseArch(rest)
		if err != nil {
			return nil, &flagError{flag: "--device", value: s, why: fmt.Sprintf("there is no emulator of %q", rest), hint: "use emu:blackhole or emu:wormhole", err: err}
		}
		if arch == chip.Wormhole {
			return sim.Wormhole(), nil
		}
		return sim.Blackhole(), nil
	case kind == "ttsim" && rest != "":
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("--device %q: find this program to start it as the simulator's server: %w", s, err)
		}
		return ttsim.Library(rest, ttsim.Server(self, serveCommand)), nil
	}
	return nil, &flagError{flag: "--device", value: s, why: "unknown kind of device", hint: "use " + deviceHelp}
}
