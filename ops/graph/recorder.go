package graph

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Mode says whether what is captured really runs.
type Mode uint8

const (
	// Normal captures what a device does, with real addresses.
	Normal Mode = iota
	// NoDispatch captures what a device would do. Nothing reaches it, so programs report their circular buffers here.
	NoDispatch
)

// Config says how a [Recorder] records. The zero Config is fine.
type Config struct {
	Era         Era  // the form of the nodes: EraA to EraC; EraC if zero
	Mode        Mode // Normal or NoDispatch
	StackTraces bool // record who called each function, from the caller of this module on
	BufferPages bool // record where each L1 buffer's pages are
	// OperationBuffers records which buffers live after each function of level 1, from EraC on.
	OperationBuffers bool
	MaxNodes         int              // the capture fails beyond; 10 million if zero
	Now              func() time.Time // the clock; time.Now if nil
}

// Arg is an argument of a function: in words, and the tensors in it.
type Arg struct {
	Text    string
	Tensors []*Tensor
}

// Recorder makes a [Graph] from events. Its methods may be called from several goroutines; events then get the order in
// which they come in, and only one goroutine should begin and end functions. An event that can't be recorded is left out:
// [Recorder.Finish] says so.
//
// The order of nodes and what they are connected to follow graph_processor.cpp of the same era.
type Recorder struct {
	cfg Config

	mu       sync.Mutex
	nodes    []Node
	open     []frame // the capture and the functions that have begun
	lastEnd  int     // counter of the latest function_end that nothing came after, or -1
	buffers  map[uint64]int
	tensors  map[uint64]int
	devices  []Device
	live     map[uint64]*Buffer // by ID
	perOp    map[int][]OperationBuffer
	versions map[uint64][]PageVersion // by address
	started  time.Time
	total    time.Duration
	finished bool
	err      error // the first that an event met
}

// frame is a function that has begun.
type frame struct {
	counter int
	name    string
	start   time.Time
}

// NewRecorder begins a capture.
func NewRecorder(c Config) *Recorder {
	if c.Era == 0 || c.Era > EraC {
		c.Era = EraC
	}
	if c.MaxNodes <= 0 {
		c.MaxNodes = Limits{}.or().Nodes
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	r := &Recorder{cfg: c, lastEnd: -1, started: c.Now(), buffers: map[uint64]int{}, tensors: map[uint64]int{}, live: map[uint64]*Buffer{},
		perOp: map[int][]OperationBuffer{}, versions: map[uint64][]PageVersion{}}
	r.nodes = append(r.nodes, Node{Type: CaptureStart, Params: Params{}})
	r.open = append(r.open, frame{start: r.started})
	return r
}

// event runs f under the lock, unless the capture has ended or failed.
func (r *Recorder) event(what string, f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.finished:
		r.fail(fmt.Errorf("graph: %s: %w", what, ErrFinished))
	case len(r.nodes) >= r.cfg.MaxNodes:
		r.fail(fmt.Errorf("graph: %s: capture of more than %d nodes: %w: raise Config.MaxNodes or capture less", what, r.cfg.MaxNodes, ErrTooLarge))
	default:
		f()
	}
}

func (r *Recorder) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// top is the function that is open innermost, or the capture.
func (r *Recorder) top() *frame { return &r.open[len(r.open)-1] }

// add appends a node at the current level. Its counter is returned.
func (r *Recorder) add(t NodeType, p Params, connections ...int) int {
	n := len(r.nodes)
	r.nodes = append(r.nodes, Node{Counter: n, Type: t, Params: p, Connections: connections, Level: len(r.open) - 1})
	return n
}

// link connects one node to another.
func (r *Recorder) link(from, to int) {
	r.nodes[from].Connections = append(r.nodes[from].Connections, to)
}

// Begin says that a function has begun. Functions nest; each Begin wants an End or an Abort.
func (r *Recorder) Begin(name string, args ...Arg) {
	now := r.cfg.Now()
	var stack []string
	if r.cfg.StackTraces && r.cfg.Era >= EraB {
		stack = callers(3)
	}
	r.event("begin "+name, func() {
		c := r.add(FunctionStart, Params{ParamName: name, ParamInputs: strconv.Itoa(len(args))})
		r.nodes[c].Level = len(r.open)
		r.nodes[c].StackTrace = stack
		if r.lastEnd >= 0 {
			r.link(r.lastEnd, c)
			r.lastEnd = -1
		}
		r.link(r.top().counter, c)
		r.open = append(r.open, frame{counter: c, name: name, start: now})
		texts, inputs := make([]string, len(args)), []int{}
		for i, a := range args {
			texts[i] = a.Text
			for _, t := range a.Tensors {
				if t == nil {
					continue
				}
				n := r.addTensor(t)
				r.link(n, c)
				inputs = append(inputs, n)
			}
		}
		if r.cfg.Era >= EraB {
			r.nodes[c].Arguments, r.nodes[c].InputTensors = texts, inputs
		}
	})
}

// End says that the function that began last has ended, and what it gave.
func (r *Recorder) End(outputs ...*Tensor) { r.end(outputs) }

// Abort ends every open function, the innermost first, without outputs: an error went through them.
func (r *Recorder) Abort() {
	r.mu.Lock()
	n := len(r.open) - 1
	r.mu.Unlock()
	for range n {
		r.end(nil)
	}
}

func (r *Recorder) end(outputs []*Tensor) {
	now := r.cfg.Now()
	r.event("end", func() {
		if len(r.open) == 1 {
			r.fail(fmt.Errorf("graph: end: %w: no function is open", ErrUnbalanced))
			return
		}
		f := *r.top()
		c := r.add(FunctionEnd, Params{ParamName: f.name})
		if r.cfg.Era >= EraB {
			r.nodes[c].Duration = max(now.Sub(f.start), 0)
		}
		r.link(f.counter, c)
		r.lastEnd = c
		for _, t := range outputs {
			if t != nil {
				r.link(c, r.addTensor(t))
			}
		}
		r.open = r.open[:len(r.open)-1]
		if len(r.open) == 1 && r.cfg.OperationBuffers {
			r.perOp[f.counter] = r.snapshot()
		}
	})
}

// addTensor returns the node of a tensor, a new one if the era wants that.
func (r *Recorder) addTensor(t *Tensor) int {
	c, known := r.tensors[t.ID]
	if !known || !r.cfg.Era.sharesTensors() {
		c = r.add(TensorNode, t.params(r.cfg.Era))
		r.tensors[t.ID] = c
	}
	if t.Buffer != nil {
		r.link(r.addBuffer(t.Buffer), c)
	}
	return c
}

// addBuffer returns the node of a buffer.
func (r *Recorder) addBuffer(b *Buffer) int {
	c, known := r.buffers[b.ID]
	if !known {
		c = r.add(BufferNode, b.params(r.cfg.Era, BufferNode))
		r.buffers[b.ID] = c
		r.link(r.top().counter, c)
		r.live[b.ID] = b
	}
	return c
}

// leaf adds a node that the current function is connected to.
func (r *Recorder) leaf(t NodeType, p Params, connections ...int) int {
	c := r.add(t, p, connections...)
	r.link(r.top().counter, c)
	return c
}

// Allocate says that a buffer got its memory.
func (r *Recorder) Allocate(b *Buffer) {
	r.event("allocate", func() {
		c := r.leaf(BufferAllocate, b.params(r.cfg.Era, BufferAllocate), r.addBuffer(b))
		r.live[b.ID] = b
		if r.cfg.BufferPages && b.Pages != nil && b.Type.short() == "L1" {
			r.versions[b.Address] = append(r.versions[b.Address], PageVersion{Allocation: c, Pages: b.Pages()})
		}
	})
}

// Deallocate says that a buffer's memory is free again.
func (r *Recorder) Deallocate(b *Buffer) {
	r.event("deallocate", func() {
		r.leaf(BufferDeallocate, b.params(r.cfg.Era, BufferDeallocate), r.addBuffer(b))
		delete(r.live, b.ID)
	})
}

// AllocateCircular says that a program's circular buffer got its memory.
func (r *Recorder) AllocateCircular(b CircularBuffer) {
	r.event("allocate circular buffer", func() { r.circular(b) })
}

func (r *Recorder) circular(b CircularBuffer) {
	p := Params{ParamSize: strconv.FormatInt(b.Size, 10), ParamAddress: strconv.FormatUint(b.Address, 10),
		ParamCoreRangeSet: coresText(r.cfg.Era, b.Cores), ParamGloballyAllocated: boolText(r.cfg.Era, b.GloballyAllocated)}
	if r.cfg.Era >= EraB {
		p[ParamDeviceID] = strconv.Itoa(b.Device)
	}
	r.leaf(CircularAllocate, p)
}

// DeallocateCircular says that a device's circular buffers are gone.
func (r *Recorder) DeallocateCircular(device int) {
	r.event("deallocate circular buffers", func() { r.noCircular(device) })
}

func (r *Recorder) noCircular(device int) {
	p := Params{}
	if r.cfg.Era >= EraB {
		p[ParamDeviceID] = strconv.Itoa(device)
	}
	r.leaf(CircularDeallocate, p, r.top().counter)
}

// Program says that a program begins: the circular buffers of the one before are gone. With [NoDispatch] it also reports
// the program's own, at address 0; otherwise [Recorder.AllocateCircular] does when they have got their places.
func (r *Recorder) Program(device int, buffers ...CircularBuffer) {
	r.event("program", func() {
		if r.cfg.Era >= EraB { // the document's sample of the era before has no such nodes
			r.noCircular(device)
		}
		if r.cfg.Mode != NoDispatch {
			return
		}
		for _, b := range buffers {
			b.Address = 0
			r.circular(b)
		}
	})
}

// Error says that an operation failed, and how.
func (r *Recorder) Error(kind, message, operation string) {
	if r.cfg.Era < EraB {
		return // that era has no such node
	}
	r.event("error", func() {
		c := r.leaf(ErrorNode, Params{ParamErrorType: kind, ParamErrorMessage: message, ParamErrorOperation: operation})
		r.nodes[c].Level = len(r.open) // one deeper than other events, as upstream
	})
}

// Device describes a device for the report. The first description of each stays.
func (r *Recorder) Device(d Device) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.devices, func(o Device) bool { return o.ID == d.ID }) {
		r.devices = append(r.devices, d)
	}
}

// Open returns the names of the functions that have begun and not ended, the outermost first.
func (r *Recorder) Open() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, f := range r.open[1:] {
		out = append(out, f.name)
	}
	return out
}

// Finish ends the capture and returns its report. Functions that are still open stay without an end: that is how a report
// shows what an operation that hangs was in. The error is the first that an event met; the report holds everything else.
// A second Finish returns the same.
func (r *Recorder) Finish() (*Report, error) {
	now := r.cfg.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.finished {
		r.finished = true
		r.total = max(now.Sub(r.started), 0)
		r.open = r.open[:1]
		from := max(r.lastEnd, 0)
		c := r.add(CaptureEnd, Params{})
		if r.cfg.Era >= EraB {
			r.nodes[c].Duration = r.total
		}
		r.link(from, c)
	}
	return r.report(), r.err
}

// Report returns what was captured so far. The capture goes on.
func (r *Recorder) Report() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report()
}

func (r *Recorder) report() *Report {
	g := &Graph{Era: r.cfg.Era, Nodes: slices.Clone(r.nodes)}
	for i := range g.Nodes { // the rest of a node never changes
		g.Nodes[i].Connections = slices.Clone(g.Nodes[i].Connections)
	}
	p := &Report{Version: Version, Graph: g, Devices: slices.Clone(r.devices), Metadata: Metadata{Captured: r.started, Total: r.total}}
	if r.cfg.OperationBuffers && r.cfg.Era >= EraC {
		p.OperationBuffers = maps.Clone(r.perOp)
	}
	if r.cfg.BufferPages {
		if r.cfg.Era >= EraC {
			p.PagesByAddress = maps.Clone(r.versions)
		}
		for _, id := range slices.Sorted(maps.Keys(r.live)) {
			if b := r.live[id]; b.Pages != nil && b.Type.short() == "L1" {
				p.BufferPages = append(p.BufferPages, b.Pages()...)
			}
		}
	}
	return p
}

// snapshot lists the buffers that live.
func (r *Recorder) snapshot() []OperationBuffer {
	out := make([]OperationBuffer, 0, len(r.live))
	for _, id := range slices.Sorted(maps.Keys(r.live)) {
		b := r.live[id]
		size := b.MaxPerBank
		if size == 0 {
			size = b.Size
		}
		out = append(out, OperationBuffer{Device: b.Device, Address: b.Address, MaxPerBank: size, Type: int(b.Type), Layout: int(b.Layout)})
	}
	return out
}

// callers lists who called, innermost first, leaving out some and what the runtime itself did on the way here: the visualizer
// shows the first file and line as those of the operation. In a goroutine of the runtime's own nothing more is left out.
func callers(skip int) []string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(skip, pcs)])
	var out []string
	caller := -1 // in out: the first that isn't the runtime
	for {
		f, more := frames.Next()
		if f.Function != "" {
			if caller < 0 && !ofRuntime(f.Function) && !strings.HasPrefix(f.Function, "runtime.") {
				caller = len(out)
			}
			// The visualizer looks for this form, to show file and line.
			out = append(out, fmt.Sprintf("File %q, line %d, in %s", f.File, f.Line, f.Function))
		}
		if !more {
			return out[max(caller, 0):]
		}
	}
}

// ofRuntime says whether a function is one of the packages that tell a Recorder what their callers do.
func ofRuntime(function string) bool {
	const module = "github.com/reprise-tt/reprise"
	for _, p := range []string{module + ".", module + "/mesh.", module + "/ops."} {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}
