package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/reprise-tt/reprise/sim/libttsim"
)

var archLine = regexp.MustCompile(`(?m)^\s*arch_name:\s*(\w+)`)

func settings() (libttsim.Settings, error) {
	if text := os.Getenv(libttsim.Variable); text != "" {
		return libttsim.ParseSettings(text)
	}
	library := os.Getenv("TT_METAL_SIMULATOR")
	path := filepath.Join(filepath.Dir(library), "soc_descriptor.yaml")
	b, err := os.ReadFile(path)
	if library == "" || err != nil {
		return libttsim.Settings{}, fmt.Errorf("libttsim: neither %s nor the folder of TT_METAL_SIMULATOR says which chip to emulate: use `reprise ttnn run`",
			libttsim.Variable)
	}
	arch := archLine.FindSubmatch(b)
	if arch == nil {
		return libttsim.Settings{}, fmt.Errorf("libttsim: %s names no arch_name", path)
	}
	switch string(arch[1]) {
	case "WORMHOLE_B0", "wormhole_b0":
		return libttsim.Settings{Machine: "n150"}, nil
	case "BLACKHOLE", "blackhole":
		return libttsim.Settings{Machine: "p150"}, nil
	}
	return libttsim.Settings{}, fmt.Errorf("libttsim: %s: arch_name %s is neither Wormhole nor Blackhole", path, arch[1])
}
