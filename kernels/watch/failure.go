package watch

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
)

// A Check is a kind of check in kernels.
type Check uint8

// Checks. Source: kernels/include/reprise/watch.h.
const (
	Assertion      Check = 1 // a condition of the kernel's own
	CircularBuffer Check = 2 // what a kernel does with a circular buffer
	NoC            Check = 3 // a request to a NoC
	Stack          Check = 4 // the room of the stack
)

func (c Check) String() string {
	switch c {
	case Assertion:
		return "assertion"
	case CircularBuffer:
		return "circular buffer"
	case NoC:
		return "NoC request"
	case Stack:
		return "stack"
	}
	return fmt.Sprintf("check %d", uint8(c))
}

// A Failure is the cause of a wait's *dispatch.HangError.
type Failure struct {
	Core      chip.Core      `json:"core"` // logical
	Processor chip.Processor `json:"processor"`
	Program   string         `json:"program,omitempty"` // empty if it isn't known
	Kernel    string         `json:"kernel,omitempty"`
	Check     Check          `json:"check"`
	Text      string         `json:"text"` // such as "assertion `n < 4` failed"
	File      string         `json:"file,omitempty"`
	Line      int            `json:"line,omitempty"`
	Offset    uint32         `json:"offset"` // in the kernel's text, of the instruction after the check, in bytes
	PC        uint32         `json:"pc"`     // its address in L1
	SP        uint32         `json:"sp"`     // stack pointer, an address in local RAM
	Buffer    *Buffer        `json:"buffer,omitempty"`
	Request   *Request       `json:"request,omitempty"`
}

// Buffer is the finding of a circular buffer's check.
type Buffer struct {
	Number  uint32 `json:"number"`
	Pages   uint32 `json:"pages"`   // that the kernel pushes, pops, or waits for
	Allowed uint32 `json:"allowed"` // pages that it may push or pop: reserved or waited for before
	Size    uint32 `json:"size"`    // of the buffer, in pages; 0 if there is none
}

// Request is a refused NoC request.
type Request struct {
	NoC     chip.NOC `json:"noc"`
	Tile    chip.XY  `json:"tile"`            // the other end, or the last corner of a multicast, as the kernel names it
	First   *chip.XY `json:"first,omitempty"` // the first corner of a multicast
	Address uint64   `json:"address"`         // at the other end
	Local   uint32   `json:"local"`           // address in the own L1
	Length  uint32   `json:"length"`          // bytes
}

// Error implements error, in one line.
func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString(print.Printable(f.Text))
	if f.File != "" {
		fmt.Fprintf(&b, " at %s:%d", print.Printable(f.File), f.Line)
	}
	if f.Kernel != "" {
		fmt.Fprintf(&b, " in kernel %q of program %q", f.Kernel, f.Program)
	} else {
		b.WriteString(" in a kernel that isn't known")
	}
	fmt.Fprintf(&b, " on %v of core %v, pc %#x (+%#x of its text)", f.Processor, f.Core, f.PC, f.Offset)
	return b.String()
}

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
