package gdb

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

// Registers of the Tensix engines as the processors see them (tt-isa-documentation
// */TensixTile/BabyRISCV/README.md).
const (
	gprBase    = 0xFFE00000
	configBase = 0xFFEF0000
)

//go:embed monitor.txt
var monitorHelp string

func (s *Server) monitor(ctx context.Context, words []string) string {
	if len(words) == 0 {
		return monitorHelp
	}
	number := func(i int) (uint32, bool) {
		if i >= len(words) {
			return 0, false
		}
		v, err := strconv.ParseUint(words[i], 0, 32)
		return uint32(v), err == nil
	}
	show := func(v uint32, err error) string {
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%#08x", v)
	}
	load := func(addr uint32) string { return show(s.current.core.Load(addr)) }
	n, ok := number(1)
	switch {
	case words[0] == "record" && len(words) == 2 && (words[1] == "on" || words[1] == "off"):
		s.record = words[1] == "on"
		return "recording is " + words[1]
	case words[0] == "threads":
		var lines []string
		for _, t := range s.threads {
			state := ""
			if err := t.look(); err != nil {
				return err.Error()
			}
			if t.stuck {
				state = ", waits inside of an instruction"
			}
			lines = append(lines, fmt.Sprintf("%d %s: %d instructions back%s", t.id, t.name, t.log.at, state))
		}
		return strings.Join(lines, "\n")
	case words[0] == "cb" && len(words) == 1:
		return s.circularBuffers()
	case words[0] == "wait" && len(words) == 1:
		return s.engineWaits()
	case words[0] == "csr" && ok && n < 0x1000:
		return show(s.current.core.CSR(ctx, int(n)))
	case words[0] == "cfg" && ok && n < 1024:
		return load(configBase + 4*n)
	case words[0] == "gpr" && ok && n < 64:
		if s.current.core.Processor() == chip.BRISC {
			return "BRISC has no thread of the engines: select TRISC0, 1 or 2"
		}
		return load(gprBase + 4*n)
	case words[0] == "reg" && ok && n&3 == 0 && len(words) == 2:
		return load(n)
	case words[0] == "reg" && ok && n&3 == 0 && len(words) == 3:
		v, ok := number(2)
		if !ok {
			return monitorHelp
		}
		if err := s.current.core.Store(n, v); err != nil {
			return err.Error()
		}
		return "stored"
	}
	return monitorHelp
}

const numCBs = 32 // of a tile (kernels/include/reprise/abi.h, RP_NUM_CBS)

func (s *Server) circularBuffers() string {
	t := s.current.core.Tile()
	streams := &t.Device().Arch().Params().Stream
	counter := func(cb int, r chip.StreamReg) (uint16, error) {
		v, err := t.Device().Read32(t.XY(), uint64(streams.Reg(streams.FirstCB+cb, r)))
		return uint16(v), err
	}
	var lines []string
	for cb := range numCBs {
		pushed, err := counter(cb, chip.RemoteDestBufSize)
		if err != nil {
			return err.Error()
		}
		popped, err := counter(cb, chip.RemoteDestBufStart)
		if err != nil {
			return err.Error()
		}
		if pushed != 0 || popped != 0 {
			lines = append(lines, fmt.Sprintf("%d: %d pages pushed, %d popped, %d are there", cb, pushed, popped, pushed-popped))
		}
	}
	if len(lines) == 0 {
		return "no circular buffer has had a page"
	}
	return strings.Join(lines, "\n")
}

func (s *Server) engineWaits() string {
	d, ok := s.current.core.Tile().Device().(interface {
		EngineWait(virtual chip.XY, thread int) (wait string, known bool)
	})
	var lines []string
	for thread := range 3 {
		wait, known := "", false
		if ok {
			wait, known = d.EngineWait(s.current.core.Tile().XY(), thread)
		}
		switch {
		case !known:
			return "the device doesn't tell"
		case wait == "":
			wait = "nothing"
		}
		lines = append(lines, fmt.Sprintf("thread %d: %s", thread, wait))
	}
	return strings.Join(lines, "\n")
}
