package dispatch

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// HangError is returned when a queue makes no progress. Error is one line; Detail describes the device.
type HangError struct {
	Queue   int    // number of the queue
	Waiting string // what the caller waited for
	Last    string // what was put into the queue last
	Cause   error  // ErrTimeout, or why the device stopped if that is known
	// FetchRead and FetchWritten are the addresses in the prefetch core's L1 of the prefetch queue entry taken last and
	// of the next one to be written, 0 if they could not be read or another goroutine was writing at that moment.
	FetchRead, FetchWritten uint32
	Cores                   []CoreState // all Tensix cores, by logical coordinate
	Dump                    *Dump       // everything that was read
	File                    string      // that the dump was written to; empty if none was asked for, or could be written
	FileErr                 error       // why it couldn't be written
}

// Error implements error, in one line.
func (e *HangError) Error() string {
	s := fmt.Sprintf("dispatch: queue %d hangs: waiting for %s, last submitted %s%s, %s: %v", e.Queue, e.Waiting, e.Last, e.inTrace(),
		busyCores(e.Cores), e.Cause)
	if e.File != "" {
		s += "; see " + e.File
	}
	return s
}

// inTrace says in which loop of a trace the queue is, and with which program.
func (e *HangError) inTrace() string {
	if e.Dump != nil {
		for i := range e.Dump.Queues {
			if q := &e.Dump.Queues[i]; q.ID == e.Queue {
				return q.inTrace()
			}
		}
	}
	return ""
}

// Unwrap returns the cause.
func (e *HangError) Unwrap() error { return e.Cause }

// Detail describes the queues' pointers and commands, and every core that is not idle.
func (e *HangError) Detail() string {
	var b strings.Builder
	fmt.Fprintln(&b, e)
	if e.FileErr != nil {
		fmt.Fprintf(&b, "the dump could not be written: %v\n", e.FileErr)
	}
	if e.Dump != nil {
		_ = e.Dump.Print(&b) // a strings.Builder takes everything
	}
	return b.String()
}

// CoreState is the state of a Tensix core, as its L1 has it.
type CoreState struct {
	Core       chip.Core                          `json:"core"`
	Kind       string                             `json:"kind"`               // "worker", "prefetch", "dispatch", "mirror"
	Firmware   string                             `json:"firmware,omitempty"` // revision of its base firmware; empty for this runtime's own
	Go         uint32                             `json:"go"`                 // its go message
	LaunchRead uint32                             `json:"launch_read"`        // launch message that it runs or runs next
	Processors [chip.NumProcessors]ProcessorState `json:"processors"`
	Err        error                              `json:"-"` // why it could not be read
	Unreadable string                             `json:"unreadable,omitempty"`
}

// Kinds of cores.
const (
	kindWorker   = "worker"
	kindPrefetch = "prefetch"
	kindDispatch = "dispatch"
	kindMirror   = "mirror" // of a chip reached over Ethernet: its L1 mirrors host memory, and a kernel there never ends
)

// ProcessorState is what one of a core's processors left in the core's state area.
type ProcessorState struct {
	Waypoint string `json:"waypoint"` // up to four characters that name a place in the firmware or kernel
	Detail   uint32 `json:"detail"`   // what the waypoint says of it
	Kernels  uint32 `json:"kernels"`  // kernels run since bring-up
	// Engine says what the first instruction waits for that a T core has given to the Tensix engines and they have not
	// executed; empty if there is none, and if the device can't tell.
	Engine string `json:"engine,omitempty"`
}

// Busy reports whether the core has something to do.
func (s CoreState) Busy() bool { return s.Unreadable != "" || s.Go>>24 != signalDone }

// String describes the core and its processors in one line.
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

// coreState reads what a core is doing.
func (d *Device) coreState(c chip.Core) CoreState {
	s, _ := d.readCore(c)
	return s
}

// readCore reads what a core is doing, and returns the bytes of its mailbox as well.
func (d *Device) readCore(c chip.Core) (CoreState, []byte) {
	l := d.layoutOf(c)
	l1 := &l.L1
	s := CoreState{Core: c, Kind: d.coreKind(c)}
	if !l.Revision.Own() {
		s.Firmware = l.Revision.Name
	}
	b := make([]byte, l1.CoreState+chip.NumProcessors*l1.CoreStateSize-l1.Mailbox)
	if s.Err = d.read(c, l1.Mailbox, b); s.Err != nil {
		s.Unreadable = s.Err.Error()
		return s, nil
	}
	le := binary.LittleEndian
	index := le.Uint32(b[l1.GoIndex-l1.Mailbox:])
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
		if s.Firmware != "" && le.Uint32(at[l.State.Waypoint:]) == 0 { // built without the watcher
			p.Waypoint = metalState(chip.Processor(i), s.Go, b[l1.SubordinateSync-l1.Mailbox:])
		}
	}
	if xy, err := d.ch.Virtual(c); err == nil && s.Busy() {
		for thread := range 3 {
			s.Processors[chip.TRISC0+chip.Processor(thread)].Engine, _ = d.kd.EngineWait(xy, thread)
		}
	}
	return s, b
}

// metalState names what a processor with base firmware of tt-metal does, by the core's go message and by the bytes through
// which BRISC starts the others. Source: tt-metal dev_msgs.h (RUN_MSG_*, RUN_SYNC_MSG_*).
func metalState(p chip.Processor, goMessage uint32, sync []byte) string {
	state := uint8(goMessage >> 24)
	if p != chip.BRISC {
		state = sync[p-1]
	}
	switch state {
	case signalDone:
		return "IDLE"
	case signalInit:
		return "BOOT"
	case signalGo:
		return "RUN"
	case 1:
		return "LOAD"
	case 2:
		return "RSET"
	case 3:
		return "SYNC"
	}
	return waypoint([]byte{0})
}

// waypoint reads the four characters, without the spaces that fill a short name.
func waypoint(b []byte) string {
	out := []byte("????")
	for i, c := range b {
		if c >= ' ' && c < 0x7F {
			out[i] = c
		} else if c == 0 && i > 0 && b[0] != 0 {
			out[i] = ' ' // tt-metal's are filled with zeros
		}
	}
	return strings.TrimRight(string(out), " ")
}

func (d *Device) coreKind(c chip.Core) string {
	for id := range d.opts.Queues {
		switch p, m := d.queueCores(id); c {
		case p:
			return kindPrefetch
		case m:
			return kindDispatch
		}
	}
	if d.up != nil && c == d.mirror() {
		return kindMirror
	}
	return kindWorker
}

// hang ends a wait, and with it the queue, in an error with the state of the device.
func (q *Queue) hang(what string, cause error, locked bool) error {
	q.life.mu.RLock()
	defer q.life.mu.RUnlock()
	if err := q.overLocked(locked); err != nil {
		return fmt.Errorf("dispatch: queue %d: wait for %s: %w", q.id, what, err)
	}
	return q.fail(q.hangErrorLocked(what, cause, locked))
}

// hangErrorLocked collects the state of the device for an error, and writes its file. Of the queue's locks life.mu is held,
// and mu if locked is set.
func (q *Queue) hangErrorLocked(what string, cause error, locked bool) error {
	if u := q.d.up; u != nil {
		if err := u.Check(); err != nil {
			cause = fmt.Errorf("%w: %w", err, cause)
		}
	}
	cause = q.d.blameWatch(q.blame(cause, locked))
	e := &HangError{Queue: q.id, Waiting: what, Last: q.lastName(), Cause: cause, Dump: q.collectLocked(what, cause, locked)}
	e.Cores = e.Dump.Cores
	for i := range e.Dump.Queues {
		if o := &e.Dump.Queues[i]; o.ID == q.id {
			e.FetchRead, e.FetchWritten = o.Device.FetchRead, o.Host.FetchNext
		}
	}
	if dir := q.d.opts.DumpDir; dir != "" {
		e.File, e.FileErr = e.Dump.save(dir)
	}
	return e
}
