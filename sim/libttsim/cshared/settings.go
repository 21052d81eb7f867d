package main

// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"unsafe"

	"github.com/reprise-tt/reprise/sim/libttsim"
)

var archLine = regexp.MustCompile(`(?m)^\s*arch_name:\s*(\w+)`)

// getenv is C's: Go's has what the process began with, without what Python has set since.
func getenv(name string) string {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return C.GoString(C.getenv(c))
}

func settings() (libttsim.Settings, error) {
	if text := getenv(libttsim.Variable); text != "" {
		return libttsim.ParseSettings(text)
	}
	library := getenv("TT_METAL_SIMULATOR")
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
