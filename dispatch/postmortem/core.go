package postmortem

import (
	"cmp"
	_ "embed"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// CoreState is the state of a Tensix core, as its L1 has it.
type CoreState struct {
	Core       chip.Core                          `json:"core"`
	Kind       string                             `json:"kind"`               // "worker", "prefetch", "dispatch", "mirror"
	Firmware   string                             `json:"firmware,omitempty"` // of the base firmware, if it isn't this runtime's own
	Go         uint32                             `json:"go"`                 // message
	LaunchRead uint32                             `json:"launch_read"`
	Processors [chip.NumProcessors]ProcessorState `json:"processors"`
	Err        error                              `json:"-"`
	Unreadable string                             `json:"unreadable,omitempty"`
}

// Kinds of cores.
const (
	Worker   = "worker"
	Prefetch = "prefetch"
	Dispatch = "dispatch"
	Mirror   = "mirror" // of a chip reached over Ethernet: its L1 mirrors host memory, and a kernel there never ends
)

// ProcessorState is what a processor left in the core's state area.
type ProcessorState struct {
	Waypoint string `json:"waypoint"` // up to four characters that name a place in the firmware or kernel
	Detail   uint32 `json:"detail"`   // of the waypoint
	Kernels  uint32 `json:"kernels"`  // run since bring-up
	// Engine is what a T core's oldest pending Tensix instruction waits for, if the device can
	// tell.
	Engine string `json:"engine,omitempty"`
}

// Busy reports whether the core has something to do.
func (s CoreState) Busy() bool { return s.Unreadable != "" || s.Go>>24 != SignalDone }

func (s CoreState) String() string {
	if s.Unreadable != "" {
		return fmt.Sprintf("core %v (%s): unreadable: %s", s.Core, s.Kind, s.Unreadable)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "core %v (%s): go %#08x, launch message %d;", s.Core, s.Kind, s.Go, s.LaunchRead)
	for i, p := range s.Processors {
		if s.Firmware != "" {
			fmt.Fprintf(&b, " %v at %s", chip.Processor(i), p.Waypoint)
		} else {
			fmt.Fprintf(&b, " %v at %s(%#x) after %d kernels", chip.Processor(i), p.Waypoint, p.Detail, p.Kernels)
		}
		if p.Engine != "" {
			fmt.Fprintf(&b, " (its engines: %s)", p.Engine)
		}
	}
	return b.String()
}

// Core reads what a core is doing.
func (m *Machine) Core(c chip.Core) CoreState {
	s, _ := m.readCore(c)
	return s
}

func (m *Machine) readCore(c chip.Core) (CoreState, []byte) {
	l := m.LayoutOf(c)
	l1 := &l.L1
	s := CoreState{Core: c, Kind: m.kind(c)}
	if !l.Revision.Own() {
		s.Firmware = l.Revision.Name
	}
	b := make([]byte, l1.CoreState+chip.NumProcessors*l1.CoreStateSize-l1.Mailbox)
	if s.Err = m.Read(c, l1.Mailbox, b); s.Err != nil {
		s.Unreadable = s.Err.Error()
		return s, nil
	}
	le := binary.LittleEndian
	index := uint32(0)
	if l1.GoIndex != abi.Absent {
		index = le.Uint32(b[l1.GoIndex-l1.Mailbox:])
	}
	if index < l1.GoEntries {
		s.Go = le.Uint32(b[l1.Go-l1.Mailbox+4*index:])
	}
	s.LaunchRead = le.Uint32(b[l1.LaunchReadPtr-l1.Mailbox:])
	for i := range s.Processors {
		at := b[l1.CoreState-l1.Mailbox+uint32(i)*l1.CoreStateSize:]
		p := &s.Processors[i]
		p.Waypoint = waypoint(at[l.State.Waypoint:][:4])
		if l.State.Detail != abi.Absent {
			p.Detail, p.Kernels = le.Uint32(at[l.State.Detail:]), le.Uint32(at[l.State.Kernels:])
		}
		if s.Firmware != "" && le.Uint32(at[l.State.Waypoint:]) == 0 {
			p.Waypoint = metalState(chip.Processor(i), s.Go, b[l1.SubordinateSync-l1.Mailbox:])
		}
	}
	if xy, err := m.Chip.Virtual(c); err == nil && s.Busy() {
		for thread := range 3 {
			s.Processors[chip.TRISC0+chip.Processor(thread)].Engine, _ = m.Device.EngineWait(xy, thread)
		}
	}
	return s, b
}

// metalState names what a processor does by the core's go message and by the bytes through which
// BRISC starts the others. Source: tt-metal dev_msgs.h (RUN_MSG_*, RUN_SYNC_MSG_*).
func metalState(p chip.Processor, goMessage uint32, sync []byte) string {
	state := uint8(goMessage >> 24)
	if p != chip.BRISC {
		state = sync[p-1]
	}
	return cmp.Or(metalStates[state], waypoint([]byte{0}))
}

var metalStates = map[uint8]string{SignalDone: "IDLE", SignalInit: "BOOT", SignalGo: "RUN", 1: "LOAD", 2: "RSET", 3: "SYNC"}

func waypoint(b []byte) string {
	out := []byte("????")
	for i, c := range b {
		if c >= ' ' && c < 0x7F {
			out[i] = c
		} else if c == 0 && i > 0 && b[0] != 0 {
			out[i] = ' '
		}
	}
	return strings.TrimRight(string(out), " ")
}

func (m *Machine) kind(c chip.Core) string {
	for _, q := range m.Queues {
		switch c {
		case q[0]:
			return Prefetch
		case q[1]:
			return Dispatch
		}
	}
	if m.Remote && c == m.Mirror {
		return Mirror
	}
	return Worker
}

// Source: tt-metal dev_msgs.h.
const (
	SignalDone = 0x00
	SignalInit = 0x40
	SignalGo   = 0x80
)

const maxNamed = 4

func busyCores(cores []CoreState) string {
	var workers []chip.Core
	var others []string
	busy, unreadable := 0, 0
	for i := range cores {
		switch s := &cores[i]; {
		case s.Unreadable != "":
			unreadable++
			continue
		case !s.Busy():
			continue
		case s.Kind == Worker:
			workers = append(workers, s.Core)
		default:
			others = append(others, fmt.Sprintf("%s %v", s.Kind, s.Core))
		}
		busy++
	}
	s := fmt.Sprintf("%d of %d cores busy", busy, len(cores))
	if busy > 0 {
		var named []string
		for _, r := range chip.Cover(workers) {
			if named = append(named, r.String()); r.Start == r.End {
				named[len(named)-1] = r.Start.String()
			}
		}
		if len(named) > 0 {
			named[0] = "workers " + named[0]
		}
		named = append(named, others...)
		if more := len(named) - maxNamed; more > 1 {
			named = append(named[:maxNamed], fmt.Sprintf("%d more", more))
		}
		s += " (" + strings.Join(named, ", ") + ")"
	}
	if unreadable > 0 {
		s += fmt.Sprintf(", %d unreadable", unreadable)
	}
	return s
}

//go:embed waypoints.txt
var waypointsText string

// places explain waypoints by a text and, after "; ", a format for the detail.
type places map[string]string

// placesOf returns a section of waypoints.txt.
func placesOf(section string) places { return allPlaces()[section] }

var allPlaces = sync.OnceValue(func() map[string]places {
	all, section := map[string]places{}, ""
	for line := range strings.Lines(waypointsText) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			all[section] = places{}
		} else if key, text, ok := strings.Cut(line, " "); ok && key != "#" {
			all[section][key] = text
		}
	}
	return all
})

// Explain describes in words where a processor of the core is.
func (s CoreState) Explain(p chip.Processor) string {
	if int(p) >= len(s.Processors) {
		return "is none of a Tensix core's"
	}
	at := &s.Processors[p]
	if s.Firmware != "" {
		for _, m := range []places{s.queuePlaces(p, "metal "), placesOf("metal"), placesOf("firmware")} {
			if w, ok := m[at.Waypoint]; ok {
				text, _, _ := strings.Cut(w, "; ")
				return text
			}
		}
		return "is at a waypoint of its kernel's own"
	}
	own, stop := s.queuePlaces(p, ""), places(nil)
	if own != nil && at.Waypoint == "WRKR" {
		return fmt.Sprintf("waits for workers: completion stream %d to reach %d (modulo %#x)", at.Detail>>24, at.Detail&0xFFFFFF, 1<<24)
	}
	if own != nil && at.Waypoint == "WMEM" {
		if what := awaitedWord(at.Detail); what != "" {
			return fmt.Sprintf("waits for %s, the word is at %#x", what, at.Detail)
		}
	}
	if own != nil {
		stop = placesOf("stop")
	}
	for _, m := range []places{own, stop, placesOf("firmware")} {
		if w, ok := m[at.Waypoint]; ok {
			text, detail, ok := strings.Cut(w, "; ")
			if !ok {
				return text
			}
			return text + ", " + fmt.Sprintf(detail, at.Detail)
		}
	}
	return fmt.Sprintf("is at a waypoint of its kernel's own, detail %#x", at.Detail)
}

func (s CoreState) queuePlaces(p chip.Processor, prefix string) places {
	switch {
	case s.Kind == Prefetch && p == chip.BRISC:
		return placesOf(prefix + "prefetch")
	case s.Kind == Dispatch && p == chip.BRISC:
		return placesOf(prefix + "dispatch")
	case s.Kind == Dispatch && p == chip.NCRISC:
		return placesOf(prefix + "subordinate")
	}
	return nil
}

// awaitedWord names the counter in a word of the dispatch core that a WAIT polls. The words of the
// two architectures don't overlap.
func awaitedWord(addr uint32) string {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		ctl := memmap.Own(abi.Own(arch))
		for id := range memmap.MaxQueues {
			switch addr {
			case ctl.LastEvent[id]:
				return fmt.Sprintf("an event of queue %d", id)
			case ctl.EdgeWord[id]:
				return fmt.Sprintf("queue %d's part of a trace", id)
			}
		}
	}
	return ""
}
