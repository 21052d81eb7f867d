// Package debug finds out what is wrong with a trace. It runs a trace program by program, in pieces
// or for the time of each program, compares a replay with the programs one by one, searches for the
// first wrong program, and compares device memory with what was recorded.
//
// A trace's Debug method returns a [Debugger]. Programs are numbered in an order that the trace's
// edges allow ([Debugger.Programs]). The host carries out loops, branches and calls between the
// programs ([Debugger.Follow]).
package debug

import (
	"context"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// Debugger debugs a trace on the queues of one device.
type Debugger struct {
	t     Trace
	all   []Part
	parts []Part
	order []tracebuf.At  // all steps of the parts
	flow  [][]flow.Place // of all
	runs  []tracebuf.At  // At.Part is an index of all
}

// Trace is what a Debugger needs of a trace. Parts are numbered in the order of the capture.
type Trace interface {
	Name() string
	// Parts returns the parts of the trace, and then its callees. Parts are numbered so.
	Parts() []Part
	// Exclusive calls f while nothing else runs programs on the workers of the trace's queues and
	// the trace isn't released. All parameters are in device memory then. op names the call in
	// errors.
	Exclusive(ctx context.Context, op string, f func(Session) error) error
	// Inside calls f with the trace's device memory while the trace isn't released.
	Inside(ctx context.Context, op string, f func(Memory) error) error
	LogControl(part, entries int) (ControlLog, error)
}

// Part is what a trace has on one queue.
type Part struct {
	Queue  int
	Image  *tracebuf.Image
	Banks  int // of DRAM
	Loaded bool
	Addr   uint32 // in every DRAM bank

	Callees []int  // by Control.Callee
	Called  bool   // on the queue of the part Home only
	Home    int    // of a called part
	Name    string // of a called part
}

// Session is exclusive use of the queues of a trace.
type Session interface {
	Restarted() error
	Commands(part int) []byte
	Wait(ctx context.Context, part int) error
	Replay(ctx context.Context) error
	// Head submits what precedes the first program of a part.
	Head(ctx context.Context, part int) error
	Word(ctx context.Context, part, at int) (uint32, error)
	// Send submits recorded commands of a part that is no callee, after which that many programs of
	// the part are counted as run.
	Send(ctx context.Context, part int, name string, commands []byte, programs int) error
	// Run submits a program of a part that isn't loaded, as if without a trace, with its recorded
	// arguments and those that the device reads.
	Run(ctx context.Context, part, step int) error
	// Edge returns the commands of an edge of a part after that many programs. recorded are the
	// recordings of all parts.
	Edge(part int, recorded []uint32, e tracebuf.Edge, programs int) ([]byte, error)
	// Place writes pieces of parts to device memory, to be run together.
	Place(ctx context.Context, pieces []Piece) (Placed, error)
	// Stamp has the device note the time at this place in the queue of a part. Once the queue has
	// finished, the returned function returns it in cycles of the dispatch core's clock, and false
	// if it was lost.
	Stamp(ctx context.Context, part int) (func() (cycles uint64, ok bool), error)
	Recover(ctx context.Context) error
	Hangs(err error) bool
	Buffers() []Buffer
	// Verify compares the commands of a part in device memory with those that were recorded.
	Verify(ctx context.Context, part int) error
}

// Buffer is a buffer that programs of the trace use.
type Buffer interface {
	Name() string
	Size() int // bytes
	Read(ctx context.Context, dst []byte) error
	Write(ctx context.Context, data []byte) error
}

// Piece is programs of a part by themselves in device memory.
type Piece struct {
	Part   int
	Image  *tracebuf.Image
	Before int // programs of the part, right after which it may be run
	After  int // programs of the part that have run after it
}

// Placed is pieces in device memory.
type Placed interface {
	Run(ctx context.Context) error
	Release(ctx context.Context) error
}

// Memory is a trace's device memory.
type Memory interface {
	// Regions returns the memory of the commands and kernels.
	Regions() []Region
	// Results returns the memory of the results in the trace's file.
	Results() []Region
}

// Region is device memory whose contents are known.
type Region struct {
	What   string
	Offset int // of the first byte in What
	Want   []byte
	Read   func(ctx context.Context, dst []byte) error
}

// New returns a Debugger for a trace.
func New(t Trace) *Debugger {
	d := &Debugger{t: t, all: t.Parts()}
	d.parts = d.all
	if i := slices.IndexFunc(d.all, func(p Part) bool { return p.Called }); i >= 0 {
		d.parts = d.all[:i]
	}
	for _, p := range d.all {
		places, _ := p.Image.Flow()
		d.flow = append(d.flow, places)
	}
	var all []tracebuf.Part
	for _, p := range d.parts {
		all = append(all, tracebuf.Part{Target: tracebuf.Target{Queue: p.Queue}, Image: *p.Image})
	}
	d.order, _ = tracebuf.Order(all)
	for _, at := range d.order {
		if d.step(at).Program != tracebuf.NoProgram {
			d.runs = append(d.runs, at)
		}
	}
	for i := len(d.parts); i < len(d.all); i++ {
		for k := range d.all[i].Image.Steps {
			if at := (tracebuf.At{Part: i, Step: k}); d.step(at).Program != tracebuf.NoProgram {
				d.runs = append(d.runs, at)
			}
		}
	}
	return d
}

func (d *Debugger) step(at tracebuf.At) *tracebuf.Step { return &d.all[at.Part].Image.Steps[at.Step] }

// Program is a program of a trace.
type Program struct {
	Queue int // number of its queue
	tracebuf.Step
}

// Programs returns the recorded programs in an order that the edges allow, and then those of
// callees: the steps of the other methods. With control flow a step runs as often as its loops say,
// or not at all.
func (d *Debugger) Programs() []Program {
	var out []Program
	for _, at := range d.runs {
		out = append(out, Program{d.all[d.home(at.Part)].Queue, *d.step(at)})
	}
	return out
}

type run struct {
	*Debugger
	s Session
}

func (d *Debugger) exclusive(ctx context.Context, op string, f func(*run) error) error {
	return d.t.Exclusive(ctx, op, func(s Session) error {
		if len(d.runs) == 0 {
			return nil
		}
		return f(&run{d, s})
	})
}

func (r *run) finish(ctx context.Context) error {
	for i := range r.parts {
		if err := r.s.Wait(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) replay(ctx context.Context) error {
	if err := r.s.Replay(ctx); err != nil {
		return err
	}
	return r.finish(ctx)
}

func (r *run) stepError(first, end int, err error) error {
	return &StepError{Trace: r.t.Name(), First: first, Last: end - 1, Name: r.step(r.runs[first]).Name, Err: err}
}

// ControlLog is a queue's log of the loops, branches and calls of replays.
type ControlLog interface {
	// Stop ends the log, waits until the queue has finished, and frees the log's memory. It returns
	// the entries in the order of time, also with an error, and the number of entries without room.
	// A recovery of the device loses earlier entries.
	Stop(ctx context.Context) (log []cq.TurnEntry, dropped int, err error)
}

// LogControl has the queue of a part log the loops, branches and calls of all later replays in
// DRAM, with room for entries of 16 B. A queue has one log. The error is
// [dispatch.ErrQueueFirmware] if the queue's firmware knows no control flow.
func (d *Debugger) LogControl(part, entries int) (ControlLog, error) {
	return d.t.LogControl(part, entries)
}

// ControlImages returns the commands of a part and all its callees, by their address in every DRAM
// bank, for [tracebuf.ControlSpans]. It is empty for a part without loops, branches and calls.
func (d *Debugger) ControlImages(part int) map[uint32]*tracebuf.Image {
	out := map[uint32]*tracebuf.Image{}
	if d.parts[part].Image.HasControl() {
		d.addImages(out, part)
	}
	return out
}

func (d *Debugger) addImages(to map[uint32]*tracebuf.Image, part int) {
	to[d.all[part].Addr] = d.all[part].Image
	for _, i := range d.all[part].Callees {
		d.addImages(to, i)
	}
}
