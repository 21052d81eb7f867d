package watch

import (
	"encoding/binary"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
)

// A core's L1 has a record for each processor, zero before the core starts. Source:
// kernels/include/reprise/watch.h.
const (
	AreaSize = chip.NumProcessors * recordSize // AreaSize is its bytes.

	recordSize = 48
	magic      = 0x5754
)

var le = binary.LittleEndian

// Failed reports whether an area has a failure.
func Failed(area []byte) bool {
	for i := range chip.NumProcessors {
		if le.Uint16(area[i*recordSize+2:]) == magic {
			return true
		}
	}
	return false
}

// Failures returns a core's failures, for known programs, in the order of processors. It accepts
// any bytes.
func Failures(core chip.Core, area []byte, programs []*print.Program) (out []Failure) {
	for p := range chip.Processor(chip.NumProcessors) {
		b := area[int(p)*recordSize:][:recordSize]
		if le.Uint16(b[2:]) != magic {
			continue
		}
		word := func(i int) uint32 { return le.Uint32(b[4*i:]) }
		f := Failure{Core: core, Processor: p, Check: Check(b[0]), PC: word(3), Offset: word(3) - word(4), SP: word(5)}
		var args []uint32
		for i := 6; i < recordSize/4; i++ {
			args = append(args, word(i))
		}
		for _, prog := range programs {
			if prog.ID != word(1) {
				continue
			}
			m, ok := prog.Message(p, word(2), nil)
			if f.Check == Assertion && ok {
				f.Text = m.Text
				f.Program, f.Kernel, f.File, f.Line = m.Program, m.Kernel, m.File, m.Line
			} else if m.Kernel != "" {
				f.Program, f.Kernel = m.Program, m.Kernel
				f.File, f.Line, _ = prog.Place(p, f.Offset)
			}
			break
		}
		f.File = strings.TrimPrefix(f.File, "./")
		f.describe(b[1], word(2), [6]uint32(args))
		out = append(out, f)
	}
	return out
}
