package gdb

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

// Registers of the Tensix engines as the processors see them (tt-isa-documentation */TensixTile/BabyRISCV/README.md).
const (
	gprBase    = 0xFFE00000
	configBase = 0xFFEF0000
)

const monitorHelp = `record on|off    record what runs, so that gdb can go backwards; processors are slow then
threads          the processors, and how many instructions of each can be undone
cfg N            word N of the Tensix configuration, loaded by the thread
gpr N            Tensix general-purpose register N; of BRISC 64 for each of the three threads
reg ADDR [VALUE] load or store a word as the thread would, with its effects; an address where nothing answers stops it for good`

// monitor answers a monitor command.
func (s *Server) monitor(words []string) string {
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
	load := func(addr uint32) string {
		v, err := s.current.core.Load(addr)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%#08x", v)
	}
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
	case words[0] == "cfg" && ok && n < 1024:
		return load(configBase + 4*n)
	case words[0] == "gpr" && ok && (n < 64 || n < 192 && s.current.core.Processor() == chip.BRISC):
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
