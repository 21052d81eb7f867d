package dispatch

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

// HangError says that a queue stopped moving. Error is one line; Detail lists every core that is not idle.
type HangError struct {
	Queue   int    // number of the queue
	Waiting string // what the caller waited for
	Last    string // what was put into the queue last
	Cause   error  // ErrTimeout, or why the device stopped if that is known
	// FetchRead and FetchWritten are the addresses in the prefetch core's L1 of the prefetch queue entry taken last and
	// of the next one to be written, 0 if somebody was writing at that moment.
	FetchRead, FetchWritten uint32
	Cores                   []CoreState // all Tensix cores, by logical coordinate
}

func (e *HangError) Error() string {
	busy := 0
	for i := range e.Cores {
		if e.Cores[i].Busy() {
			busy++
		}
	}
	return fmt.Sprintf("dispatch: queue %d hangs: waiting for %s, last submitted %s, %d of %d cores busy: %v", e.Queue, e.Waiting, e.Last, busy, len(e.Cores), e.Cause)
}

func (e *HangError) Unwrap() error { return e.Cause }

// Detail describes the queue's pointers and every core that is not idle, one line each.
func (e *HangError) Detail() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\nprefetch queue: entry taken last at %#x, next to be written at %#x\n", e, e.FetchRead, e.FetchWritten)
	for i := range e.Cores {
		if e.Cores[i].Busy() {
			fmt.Fprintln(&b, e.Cores[i])
		}
	}
	return b.String()
}

// CoreState is what a Tensix core's L1 says that it is doing.
type CoreState struct {
	Core       chip.Core
	Kind       string // "worker", "prefetch", "dispatch"
	Go         uint32 // its go message
	LaunchRead uint32 // launch message that it runs or runs next
	Processors [chip.NumProcessors]ProcessorState
	Err        error // why it could not be read
}

// ProcessorState is what one of a core's processors left in the core's state area.
type ProcessorState struct {
	Waypoint string // four characters that name a place in the firmware or kernel
	Detail   uint32 // what the waypoint says of it
	Kernels  uint32 // kernels run since bring-up
}

// Busy reports whether the core has something to do.
func (s CoreState) Busy() bool { return s.Err != nil || s.Go>>24 != signalDone }

func (s CoreState) String() string {
	if s.Err != nil {
		return fmt.Sprintf("core %v (%s): unreadable: %v", s.Core, s.Kind, s.Err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "core %v (%s): go %#08x, launch message %d;", s.Core, s.Kind, s.Go, s.LaunchRead)
	for i, p := range s.Processors {
		fmt.Fprintf(&b, " %v at %s(%#x) after %d kernels", chip.Processor(i), p.Waypoint, p.Detail, p.Kernels)
	}
	return b.String()
}

// coreState reads what a core is doing.
func (d *Device) coreState(c chip.Core) CoreState {
	l1 := &d.pr.L1
	s := CoreState{Core: c, Kind: d.coreKind(c)}
	b := make([]byte, l1.CoreState+chip.NumProcessors*l1.CoreStateSize-l1.Mailbox)
	if s.Err = d.read(c, l1.Mailbox, b); s.Err != nil {
		return s
	}
	le := binary.LittleEndian
	index := le.Uint32(b[l1.GoIndex-l1.Mailbox:])
	if index < l1.GoEntries {
		s.Go = le.Uint32(b[l1.Go-l1.Mailbox+4*index:])
	}
	s.LaunchRead = le.Uint32(b[l1.LaunchReadPtr-l1.Mailbox:])
	for i := range s.Processors {
		at := b[l1.CoreState-l1.Mailbox+uint32(i)*l1.CoreStateSize:]
		s.Processors[i] = ProcessorState{Waypoint: waypoint(at[:4]), Detail: le.Uint32(at[4:]), Kernels: le.Uint32(at[8:])}
	}
	return s
}

func waypoint(b []byte) string {
	out := []byte("????")
	for i, c := range b {
		if c > ' ' && c < 0x7F {
			out[i] = c
		}
	}
	return string(out)
}

func (d *Device) coreKind(c chip.Core) string {
	for id := range d.opts.Queues {
		switch p, m := d.queueCores(id); c {
		case p:
			return "prefetch"
		case m:
			return "dispatch"
		}
	}
	return "worker"
}

// hang ends a wait, and with it the queue, in an error with the state of the device.
func (q *Queue) hang(what string, cause error, locked bool) error {
	q.life.RLock()
	defer q.life.RUnlock()
	if q.closed {
		return fmt.Errorf("dispatch: queue %d: wait for %s: %w", q.id, what, errClosed)
	}
	return q.fail(q.hangError(what, cause, locked))
}

// hangError collects the state of the device for an error. Called with life held; locked says whether mu is as well.
func (q *Queue) hangError(what string, cause error, locked bool) error {
	e := &HangError{
		Queue: q.id, Waiting: what, Last: "nothing", Cause: cause,
		FetchRead: q.pre.Load32(uint64(q.d.ctl.fetchRead)),
	}
	if locked {
		e.FetchWritten = q.fetch.addr(q.fetch.next)
	} else if q.mu.TryLock() { // without waiting: who has it may wait for life
		e.FetchWritten = q.fetch.addr(q.fetch.next)
		q.mu.Unlock()
	}
	if last := q.last.Load(); last != nil {
		e.Last = *last
	}
	for c := range q.d.ch.Workers() {
		e.Cores = append(e.Cores, q.d.coreState(c))
	}
	return e
}
