package main

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/libttsim"
)

// report describes why a chip stopped.
func report(m *libttsim.Machine, err error) []byte {
	return fmt.Appendf(nil, "ERROR: %v\n", err)
}
