package graph

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Mode says whether captured operations run.
type Mode uint8

const (
	// Normal captures what a device does, with real addresses.
	Normal Mode = iota
	// NoDispatch captures what a device would do. Nothing reaches the device, so [Recorder.Program]
	// records circular buffers.
	NoDispatch
)

// Config configures a [Recorder]. The zero Config is valid.
type Config struct {
	Format      Format // of the nodes: Format2025 to Format2026v2; Format2026v2 if zero
	Mode        Mode
	StackTraces bool // record the call stack of each function and deallocation, from the caller of this module on
	BufferPages bool // record the places of each L1 buffer's pages
	// OperationBuffers records the buffers that are allocated after each function of level 1; it
	// needs Format2026v2.
	OperationBuffers bool
	MaxNodes         int              // larger captures fail with ErrTooLarge; 10 million if zero
	Now              func() time.Time // the clock; time.Now if nil
}

// Arg is an argument of a function.
type Arg struct {
	Text    string
	Tensors []*Tensor
}

// Recorder makes a [Graph] from events, of several goroutines, of which only one should begin and
// end functions. An event that can't be recorded is left out, and [Recorder.Finish] returns the
// error.
//
// The order of nodes and their connections follow graph_processor.cpp of the same time.
type Recorder struct {
	cfg     Config // as it was given: details may have been switched since
	details atomic.Uint32

	mu       sync.Mutex
	nodes    []Node
	open     []frame        // the capture, then the open functions
	lastEnd  int            // counter of the last function_end if no function has begun since, or -1
	buffers  map[uint64]int // nodes of buffers by ID
	tensors  map[uint64]int // latest nodes of tensors by ID
	devices  []Device
	cluster  string
	mapping  string
	live     map[uint64]*Buffer
	perOp    map[int][]OperationBuffer
	versions map[uint64][]PageVersion // by address
	programs []ProgramRun
	started  time.Time
	total    time.Duration
	finished bool
	err      error
}

type frame struct {
	counter int
	name    string
	start   time.Time
}

// NewRecorder returns a Recorder whose capture has begun.
func NewRecorder(c Config) *Recorder {
	if c.Format == 0 || c.Format > Format2026v2 {
		c.Format = Format2026v2
	}
	if c.MaxNodes <= 0 {
		c.MaxNodes = Limits{}.withDefaults().Nodes
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	r := &Recorder{cfg: c, lastEnd: -1, started: c.Now(), buffers: map[uint64]int{}, tensors: map[uint64]int{}, live: map[uint64]*Buffer{},
		perOp: map[int][]OperationBuffer{}, versions: map[uint64][]PageVersion{}}
	r.Set(DetailDurations, true)
	r.Set(DetailStackTraces, c.StackTraces)
	r.Set(DetailBufferPages, c.BufferPages)
	r.nodes = append(r.nodes, Node{Type: CaptureStart, Params: Params{}})
	r.open = append(r.open, frame{start: r.started})
	return r
}

// event runs f with the lock held, unless the capture has ended or is too large.
func (r *Recorder) event(name string, f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.finished:
		r.failLocked(fmt.Errorf("graph: %s: %w", name, ErrFinished))
	case len(r.nodes) >= r.cfg.MaxNodes:
		r.failLocked(fmt.Errorf("graph: %s: capture of more than %d nodes: %w: raise Config.MaxNodes or capture less", name, r.cfg.MaxNodes,
			ErrTooLarge))
	default:
		f()
	}
}

func (r *Recorder) failLocked(err error) { r.err = cmp.Or(r.err, err) }

func (r *Recorder) top() *frame { return &r.open[len(r.open)-1] }

// add appends a node at the current level and returns its counter.
func (r *Recorder) add(t NodeType, p Params, connections ...int) int {
	if r.cfg.Format == Format2025 {
		delete(p, ParamDeviceID)
	}
	n := len(r.nodes)
	r.nodes = append(r.nodes, Node{Counter: n, Type: t, Params: p, Connections: connections, Level: len(r.open) - 1})
	return n
}

func (r *Recorder) link(from, to int) {
	r.nodes[from].Connections = append(r.nodes[from].Connections, to)
}

func (r *Recorder) stack() []string {
	if !r.Has(DetailStackTraces) || r.cfg.Format < Format2026v1 {
		return nil
	}
	return callers(4)
}

// Begin records the start of a function. Functions nest; each Begin needs an End or an Abort.
func (r *Recorder) Begin(name string, args ...Arg) {
	now := r.cfg.Now()
	stack := r.stack()
	r.event("begin "+name, func() {
		c := r.add(FunctionStart, Params{ParamName: name, ParamInputs: num(len(args))})
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
		if r.cfg.Format >= Format2026v1 {
			r.nodes[c].Arguments, r.nodes[c].InputTensors = texts, inputs
		}
	})
}

// End records the end of the innermost open function, and its outputs.
func (r *Recorder) End(outputs ...*Tensor) {
	now := r.cfg.Now()
	r.event("end", func() {
		if len(r.open) == 1 {
			r.failLocked(fmt.Errorf("graph: end: %w: no function is open", ErrUnbalanced))
			return
		}
		f := *r.top()
		c := r.add(FunctionEnd, Params{ParamName: f.name})
		r.took(c, now.Sub(f.start))
		r.link(f.counter, c)
		r.lastEnd = c
		for _, t := range outputs {
			if t != nil {
				r.link(c, r.addTensor(t))
			}
		}
		r.open = r.open[:len(r.open)-1]
		if len(r.open) == 1 && r.cfg.OperationBuffers {
			all := []OperationBuffer{}
			for _, b := range r.allocated() {
				all = append(all, OperationBuffer{b.Device, b.Address, cmp.Or(b.MaxPerBank, b.Size), int(b.Type), int(b.Layout)})
			}
			r.perOp[f.counter] = all
		}
	})
}

// took sets the duration of a node, if the capture records durations.
func (r *Recorder) took(node int, d time.Duration) {
	if r.Has(DetailDurations) && r.cfg.Format >= Format2026v1 {
		r.nodes[node].Duration = max(d, 0)
	}
}

// Abort ends every open function, the innermost first, without outputs.
func (r *Recorder) Abort() {
	r.mu.Lock()
	n := len(r.open) - 1
	r.mu.Unlock()
	for range n {
		r.End()
	}
}

// addTensor returns a tensor's node, which is new in formats with a node for each use.
func (r *Recorder) addTensor(t *Tensor) int {
	c, known := r.tensors[t.ID]
	if !known || r.cfg.Format > Format2026v1 {
		c = r.add(TensorNode, t.params(r.cfg.Format))
		r.tensors[t.ID] = c
	}
	if t.Buffer != nil {
		r.link(r.addBuffer(t.Buffer), c)
	}
	return c
}

func (r *Recorder) addBuffer(b *Buffer) int {
	c, known := r.buffers[b.ID]
	if !known {
		c = r.leaf(BufferNode, b.params(r.cfg.Format, BufferNode))
		r.buffers[b.ID], r.live[b.ID] = c, b
	}
	return c
}

func (r *Recorder) leaf(t NodeType, p Params, connections ...int) int {
	c := r.add(t, p, connections...)
	r.link(r.top().counter, c)
	return c
}

// Allocate records that a buffer was allocated.
func (r *Recorder) Allocate(b *Buffer) {
	r.event("allocate", func() {
		c := r.leaf(BufferAllocate, b.params(r.cfg.Format, BufferAllocate), r.addBuffer(b))
		r.live[b.ID] = b
		if r.Has(DetailBufferPages) && b.Pages != nil && b.Type.short() == "L1" {
			r.versions[b.Address] = append(r.versions[b.Address], PageVersion{Allocation: c, Pages: b.Pages()})
		}
	})
}

// Deallocate records that a buffer was freed.
func (r *Recorder) Deallocate(b *Buffer) {
	stack := r.stack()
	r.event("deallocate", func() {
		c := r.leaf(BufferDeallocate, b.params(r.cfg.Format, BufferDeallocate), r.addBuffer(b))
		r.nodes[c].StackTrace = stack
		delete(r.live, b.ID)
	})
}

// AllocateCircular records that a circular buffer of a program was placed.
func (r *Recorder) AllocateCircular(b CircularBuffer) {
	r.event("allocate circular buffer", func() { r.circular(b) })
}

func (r *Recorder) circular(b CircularBuffer) {
	r.leaf(CircularAllocate, Params{ParamSize: num(b.Size), ParamAddress: num(b.Address), ParamDeviceID: num(b.Device),
		ParamCoreRangeSet: coresText(r.cfg.Format, b.Cores), ParamGloballyAllocated: boolText(r.cfg.Format, b.GloballyAllocated)})
}

// Program records that a program begins, which frees the circular buffers of the one before. With
// [NoDispatch] it also records the program's own; otherwise [Recorder.AllocateCircular] does when
// they are placed.
func (r *Recorder) Program(device int, buffers ...CircularBuffer) {
	r.event("program", func() {
		if r.cfg.Format >= Format2026v1 { // the sample of Format2025 in TT-NN's document has no such nodes
			r.leaf(CircularDeallocate, Params{ParamDeviceID: num(device)}, r.top().counter)
		}
		if r.cfg.Mode != NoDispatch {
			return
		}
		for _, b := range buffers {
			r.circular(b)
		}
	})
}

// Error records that an operation failed; kind is "exception" or "hang". [Format2025] has no such
// node.
func (r *Recorder) Error(kind, message, operation string) {
	if r.cfg.Format < Format2026v1 {
		return
	}
	r.event("error", func() {
		c := r.leaf(ErrorNode, Params{ParamErrorType: kind, ParamErrorMessage: message, ParamErrorOperation: operation})
		r.nodes[c].Level = len(r.open) // one deeper than other events, as in upstream
	})
}

// Device adds a device to the report. A second call for the same ID is ignored.
func (r *Recorder) Device(d Device) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.devices, func(o Device) bool { return o.ID == d.ID }) {
		r.devices = append(r.devices, d)
	}
}

// Cluster sets [Report.ClusterDescriptor] and [Report.MeshMapping].
func (r *Recorder) Cluster(descriptor, mapping string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cluster, r.mapping = descriptor, mapping
}

// Open returns the names of the open functions, the outermost first.
func (r *Recorder) Open() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, f := range r.open[1:] {
		out = append(out, f.name)
	}
	return out
}

// Finish ends the capture and returns its report. Functions that are still open, which hung, have
// no end. The error is the first one of an event; the report lacks the events that failed. A second
// Finish returns the same.
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
		r.took(c, r.total)
		r.link(from, c)
	}
	return r.reportLocked(), r.err
}

// Report returns a report of the capture so far, which goes on.
func (r *Recorder) Report() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reportLocked()
}

func (r *Recorder) reportLocked() *Report {
	g := &Graph{Format: r.cfg.Format, Nodes: slices.Clone(r.nodes)}
	for i := range g.Nodes {
		g.Nodes[i].Connections = slices.Clone(g.Nodes[i].Connections)
	}
	p := &Report{Version: Version, Graph: g, Devices: slices.Clone(r.devices), Programs: slices.Clone(r.programs),
		ClusterDescriptor: r.cluster, MeshMapping: r.mapping,
		Metadata: Metadata{Captured: r.started, Total: r.total}}
	if r.cfg.OperationBuffers && r.cfg.Format >= Format2026v2 {
		p.OperationBuffers = maps.Clone(r.perOp)
	}
	if r.Has(DetailBufferPages) {
		if r.cfg.Format >= Format2026v2 {
			p.PagesByAddress = maps.Clone(r.versions)
		}
		for _, b := range r.allocated() {
			if b.Pages != nil && b.Type.short() == "L1" {
				p.BufferPages = append(p.BufferPages, b.Pages()...)
			}
		}
	}
	return p
}

// allocated returns the allocated buffers in the order of their IDs.
func (r *Recorder) allocated() []*Buffer {
	return slices.SortedFunc(maps.Values(r.live), func(a, b *Buffer) int { return cmp.Compare(a.ID, b.ID) })
}

// Details are what a capture records beside operations and memory, as TT-NN's enable_stack_traces
// and its like switch it.
type Details uint32

const (
	// DetailStackTraces is the call stack of each function and deallocation; see
	// [Config.StackTraces].
	DetailStackTraces Details = 1 << iota
	// DetailBufferPages is the places of each L1 buffer's pages; see [Config.BufferPages].
	DetailBufferPages
	// DetailDurations is how long functions and the capture took. It is on unless it is switched
	// off.
	DetailDurations
)

// With returns the details with some of them switched on or off.
func (d Details) With(some Details, on bool) Details {
	if on {
		return d | some
	}
	return d &^ some
}

// Has reports whether all of some details are on.
func (d Details) Has(some Details) bool { return d&some == some }

// Set switches details on or off, from the next event on.
func (r *Recorder) Set(some Details, on bool) {
	if on {
		r.details.Or(uint32(some))
	} else {
		r.details.And(^uint32(some))
	}
}

// Has reports whether all of some details are on.
func (r *Recorder) Has(some Details) bool { return Details(r.details.Load()).Has(some) }

// callers returns the call stack, innermost first, without skip frames and this module's frames on
// top: the visualizer shows the first file and line as the operation's. A goroutine that this
// module started keeps all its frames.
func callers(skip int) []string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(skip, pcs)])
	var out []string
	caller := -1 // index in out of the first frame outside of this module
	for {
		f, more := frames.Next()
		if f.Function != "" {
			if caller < 0 && ofCaller(f.Function) {
				caller = len(out)
			}
			// The visualizer parses this form to show file and line.
			out = append(out, fmt.Sprintf("File %q, line %d, in %s", f.File, f.Line, f.Function))
		}
		if !more {
			return out[max(caller, 0):]
		}
	}
}

// ofCaller reports whether a function is neither Go's nor in a package that calls a Recorder on
// behalf of its callers.
func ofCaller(function string) bool {
	const module = "github.com/reprise-tt/reprise"
	return !slices.ContainsFunc([]string{module + ".", module + "/mesh.", module + "/ops.", "runtime.", "sync.", "golang.org/x/sync/"},
		func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

const maxSource = 4 << 20

// traceLine matches the file in a line of a stack trace: Python's form, which a Recorder writes
// too, or PATH:LINE.
var traceLine = regexp.MustCompile(`(?m)^\s*(?:File "([^"\n]+)", line (\d+)|([^:\n]+):(\d+)(?::\d+)?\s*$)`)

// Source is a source file that a stack trace names.
type Source struct {
	Path string
	Line int // from 1
	Text string
}

// TraceLine returns the first line of a stack trace that names a file, or "".
func TraceLine(trace string) string { return traceLine.FindString(trace) }

// SourceOf returns the first file in a stack trace, or false if it isn't on this machine. A report
// can come from anywhere, so only regular files of source code of up to maxSource bytes are read.
func SourceOf(trace string) (s Source, ok bool) {
	m := traceLine.FindStringSubmatch(trace)
	if m == nil {
		return s, false
	}
	line, err := strconv.Atoi(m[2] + m[4])
	if err != nil {
		return s, false
	}
	path, err := filepath.Abs(m[1] + strings.TrimSpace(m[3]))
	if err == nil {
		path, err = filepath.EvalSymlinks(path) // the extension of the target decides
	}
	if err != nil || !slices.Contains([]string{".py", ".go", ".c", ".cc", ".cpp", ".h", ".hpp"}, filepath.Ext(path)) {
		return s, false
	}
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxSource {
		return s, false
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) > maxSource {
		return s, false
	}
	return Source{path, line, strings.ToValidUTF8(string(b), "\uFFFD")}, true
}
