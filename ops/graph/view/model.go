package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/ops/graph"
)

// model is the page's document: a report in terms of operations, tensors and buffers. Sizes and
// addresses are in bytes, times in nanoseconds. From and to are counters of nodes, the page's axis
// of events.
type model struct {
	Name     string      `json:"name"`
	Format   string      `json:"format"`
	Captured string      `json:"captured,omitempty"` // RFC 3339
	Nodes    int         `json:"nodes"`
	Total    int64       `json:"total"`
	Devices  []device    `json:"devices"`
	Peaks    []peak      `json:"peaks"`
	Problems []problem   `json:"problems"`
	Ops      []op        `json:"ops"` // all calls, in the order of their starts
	Tensors  []tensor    `json:"tensors"`
	Buffers  []buffer    `json:"buffers"`
	Places   [][]onCore  `json:"places"`  // on which cores buffers are, by buffer.Place
	Cores    [2]int      `json:"cores"`   // columns and rows of the grid
	Sources  []source    `json:"sources"` // by op.Source
	Chips    []chip      `json:"chips"`   // by identifier, at least one
	Meta     [][2]string `json:"meta"`

	Findings json.RawMessage `json:"findings,omitempty"`
}

type device struct {
	ID    int64  `json:"id"`
	Arch  string `json:"arch"`
	Grid  [2]int `json:"grid"`
	L1    int64  `json:"l1"`    // for buffers and circular buffers, on each core
	First int64  `json:"first"` // address where that begins
	DRAM  int64  `json:"dram"`  // of all channels
}

type op struct {
	Name     string   `json:"name"`
	Parent   int      `json:"parent"`
	Depth    int      `json:"depth"`
	From     int      `json:"from"`
	To       int      `json:"to"`
	Start    int64    `json:"start"` // as far as durations say
	Took     int64    `json:"took"`
	Device   int64    `json:"device,omitempty"` // of its programs
	Ended    bool     `json:"ended"`
	Group    bool     `json:"group,omitempty"` // a loop, a branch or a trace
	In       []int    `json:"in"`              // tensors
	Out      []int    `json:"out"`
	Args     []string `json:"args,omitempty"`
	Stack    []string `json:"stack,omitempty"`
	Source   int      `json:"source"` // of the first file in the stack, -1 if it isn't on this machine
	Error    string   `json:"error,omitempty"`
	L1Before int64    `json:"l1Before"` // on the fullest core
	L1After  int64    `json:"l1After"`
	L1Peak   int64    `json:"l1Peak"`
}

type source struct {
	Path  string   `json:"path"`
	Line  int      `json:"line"`
	First int      `json:"first"` // number of the first of Lines
	Lines []string `json:"lines"`
}

type tensor struct {
	ID      string `json:"id"`
	Shape   string `json:"shape"`
	DType   string `json:"dtype"`
	Layout  string `json:"layout"`
	Memory  string `json:"memory"` // L1, DRAM or host
	Config  string `json:"config,omitempty"`
	Address int64  `json:"address"` // -1 if it has none
	Size    int64  `json:"size"`
	Buffer  int    `json:"buffer"` // index, -1 if its allocation isn't in the report
	Makers  []int  `json:"makers"`
	Takers  []int  `json:"takers"`
}

// buffer is a buffer, or a program's memory in L1.
type buffer struct {
	Kind    string `json:"kind"` // DRAM, L1, CB and so on
	Layout  string `json:"layout,omitempty"`
	Device  int64  `json:"device"`
	From    int    `json:"from"`
	To      int    `json:"to"` // the number of nodes if it isn't freed
	Address int64  `json:"address"`
	Size    int64  `json:"size"` // in all banks
	Bank    int64  `json:"bank"` // in the fullest bank, or on each core
	Cores   string `json:"cores,omitempty"`
	Op      int    `json:"op"` // which allocated it, -1 for none
	Tensors []int  `json:"tensors,omitempty"`
	Place   int    `json:"place"`            // -1 if its cores are unknown
	Late    int    `json:"late,omitempty"`   // operations between its last use and its end
	Inside  bool   `json:"inside,omitempty"` // it lies in a buffer and takes no memory of its own
}

// onCore is the part of a buffer on a core: offset from its address, and size.
type onCore struct {
	X      int64 `json:"x"`
	Y      int64 `json:"y"`
	Offset int64 `json:"o"`
	Size   int64 `json:"s"`
}

type modeler struct {
	model
	r       *graph.Report
	g       *graph.Graph
	calls   []graph.Call
	tensors map[int]int // by node
	byNode  map[int]int // buffers by node of the buffer, the latest
	places  map[string]int
	of      []int          // by node: the innermost call, -1 for none
	sources map[string]int // by the line of a stack
}

func newModel(name string, r *graph.Report) *model {
	m := &modeler{r: r, g: r.Graph, calls: r.Graph.Calls(), tensors: map[int]int{}, byNode: map[int]int{}, places: map[string]int{},
		sources: map[string]int{}}
	m.model = model{Name: name, Format: r.Graph.Format.String(), Nodes: len(r.Graph.Nodes), Devices: []device{}, Problems: problems(r.Graph),
		Ops: []op{}, Tensors: []tensor{}, Buffers: []buffer{}, Places: [][]onCore{}, Sources: []source{}, Meta: [][2]string{}}
	if t := r.Metadata.Captured; !t.IsZero() {
		m.Captured = t.UTC().Format(time.RFC3339)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Metadata.More)) {
		m.Meta = append(m.Meta, [2]string{k, r.Metadata.More[k]})
	}
	for _, d := range r.Devices {
		m.Devices = append(m.Devices, device{ID: d.ID, Arch: d.Arch, Grid: [2]int{int(d.GridX), int(d.GridY)},
			L1:    max(d.WorkerL1Size-d.FirstCircularBuffer, 0),
			First: d.FirstCircularBuffer, DRAM: d.DRAMChannels * d.DRAMSizePerChannel})
	}
	m.grid()
	m.Peaks = peaks(r.Graph, m.coreCount())
	m.of = m.g.Innermost(m.calls)
	m.tensorList()
	m.ops()
	m.memory()
	m.late()
	return &m.model
}

// maxSide limits the sides of the grid of cores; chips have smaller ones.
const maxSide = 64

func (m *modeler) grid() {
	for _, d := range m.Devices {
		m.Cores[0], m.Cores[1] = max(m.Cores[0], d.Grid[0]), max(m.Cores[1], d.Grid[1])
	}
	for _, n := range m.g.All() {
		for _, c := range graph.ParseCores(n.Params[graph.ParamCoreRangeSet]) {
			m.Cores[0], m.Cores[1] = max(m.Cores[0], c.X1+1), max(m.Cores[1], c.Y1+1)
		}
	}
	m.Cores[0], m.Cores[1] = min(m.Cores[0], maxSide), min(m.Cores[1], maxSide)
}

func (m *modeler) tensorList() {
	byID := map[string]int{}
	for i, n := range m.g.All(graph.TensorNode) {
		id := cmp.Or(n.Params[graph.ParamTensorID], fmt.Sprintf("n%d", i))
		k, known := byID[id]
		if !known {
			k = len(m.Tensors)
			byID[id] = k
			q := n.Params
			t := tensor{ID: id, Shape: shape(q[graph.ParamShape]), DType: last(q[graph.ParamDType]), Layout: last(q[graph.ParamLayout]),
				Config: q[graph.ParamMemoryConfig], Address: -1, Size: q.Size(graph.ParamSize), Buffer: -1, Memory: "host",
				Makers: []int{}, Takers: []int{}}
			if b, ok := q.Memory(); ok {
				t.Memory = b.String()
			}
			if a, ok := q.Int(graph.ParamAddress); ok {
				t.Address = a
			}
			m.Tensors = append(m.Tensors, t)
		}
		m.tensors[i] = k
	}
}

func shape(s string) string {
	if dims := graph.ParseShape(s); dims != nil {
		s = strings.ReplaceAll(strings.Trim(fmt.Sprint(dims), "[]"), " ", "×")
	}
	return s
}

func last(s string) string { return s[strings.LastIndexAny(s, ":.")+1:] }

func (m *modeler) ops() {
	operands := m.g.Operands(m.calls)
	ran := m.r.DeviceTimes()
	faults := map[int]string{}
	for i, n := range m.g.All(graph.ErrorNode) {
		if m.of[i] >= 0 {
			faults[m.of[i]] = n.Params[graph.ParamErrorType] + ": " + n.Params[graph.ParamErrorMessage]
		}
	}
	index := func(nodes []int) []int {
		out := make([]int, len(nodes))
		for i, c := range nodes {
			out[i] = m.tensors[c]
		}
		return out
	}
	for i, c := range m.calls {
		n := &m.g.Nodes[c.Start]
		o := op{Parent: c.Parent, Depth: c.Depth, From: c.Start, To: c.End, Device: int64(ran[c.Start].Time), Ended: c.End >= 0,
			In: index(operands[i].In), Out: index(operands[i].Out), Args: n.Arguments, Stack: n.StackTrace,
			Source: m.source(strings.Join(n.StackTrace, "\n")), Error: faults[i]}
		o.Name, o.Group = strings.CutPrefix(c.Name, graph.ControlPrefix)
		if !o.Ended {
			o.To = len(m.g.Nodes) - 1
			o.Error = cmp.Or(o.Error, "it didn't end")
		}
		for _, t := range o.In {
			m.Tensors[t].Takers = append(m.Tensors[t].Takers, i)
		}
		for _, t := range o.Out {
			m.Tensors[t].Makers = append(m.Tensors[t].Makers, i)
		}
		m.Ops = append(m.Ops, o)
	}
	m.times()
}

// source returns the index of the first source in a stack, or -1.
func (m *modeler) source(stack string) int {
	line := graph.TraceLine(stack)
	if k, known := m.sources[line]; known {
		return k
	}
	m.sources[line] = -1
	f, ok := graph.SourceOf(line)
	text := strings.Split(f.Text, "\n")
	if !ok || f.Line < 1 || f.Line > len(text) {
		return -1
	}
	const around = 4
	first, end := max(f.Line-around, 1), min(f.Line+around, len(text))
	m.sources[line] = len(m.Sources)
	m.Sources = append(m.Sources, source{f.Path, f.Line, first, text[first-1 : end]})
	return m.sources[line]
}

func (m *modeler) ofOperations(after []graph.CoreUse) {
	for i := range after {
		if k := m.of[i]; k >= 0 {
			m.Ops[k].L1Peak = max(m.Ops[k].L1Peak, after[i].Total)
		}
	}
	for k := len(m.Ops) - 1; k >= 0; k-- {
		o := &m.Ops[k]
		if o.From > 0 {
			o.L1Before = after[o.From-1].Total
		}
		o.L1After = after[o.To].Total
		if p := o.Parent; p >= 0 {
			m.Ops[p].L1Peak = max(m.Ops[p].L1Peak, o.L1Peak)
		}
	}
}

func (b *buffer) inDRAM() bool { return b.Kind == "DRAM" || b.Kind == "TRACE" }

// newBuffer returns the buffer of an allocation, without the places of its cores.
func (m *modeler) newBuffer(i int, kind string) buffer {
	q := m.g.Nodes[i].Params
	b := buffer{Kind: kind, From: i, To: len(m.g.Nodes), Size: q.Size(graph.ParamSize), Op: m.of[i], Place: -1}
	b.Device, _ = q.Int(graph.ParamDeviceID)
	b.Address, _ = q.Int(graph.ParamAddress)
	return b
}

func (m *modeler) allocated(i int) {
	n := &m.g.Nodes[i]
	b := m.newBuffer(i, "L1")
	b.Layout = cmp.Or(n.Params[graph.ParamLayout], "UNKNOWN")
	if t, ok := n.Params.Memory(); ok {
		b.Kind = t.String()
	}
	b.Bank = graph.SizeOnCore(n, m.coreCount())
	if node := m.g.First(n, graph.BufferNode); node != nil {
		m.byNode[node.Counter] = len(m.Buffers)
		for _, c := range node.Connections {
			if t, ok := m.tensors[c]; ok && !slices.Contains(b.Tensors, t) {
				b.Tensors = append(b.Tensors, t)
				m.Tensors[t].Buffer = len(m.Buffers)
				m.Tensors[t].Size = cmp.Or(m.Tensors[t].Size, b.Size)
			}
		}
	}
	if !b.inDRAM() {
		b.Place = m.place(i, &b)
	}
	m.Buffers = append(m.Buffers, b)
}

// place returns the index of the cores of a buffer in L1: those of its pages, or the grid for an
// interleaved buffer.
func (m *modeler) place(i int, b *buffer) int {
	var pages []graph.Page
	for _, v := range m.r.PagesByAddress[uint64(max(b.Address, 0))] {
		if v.Allocation == i {
			pages = v.Pages
		}
	}
	var on []onCore
	if pages != nil {
		at := map[[2]int64]int{}
		for _, p := range pages {
			core, low := [2]int64{p.CoreX, p.CoreY}, int64(p.PageAddr)-b.Address
			j, ok := at[core]
			if !ok {
				j = len(on)
				at[core] = j
				on = append(on, onCore{p.CoreX, p.CoreY, low, 0})
			}
			c := &on[j]
			end := max(c.Offset+c.Size, low+max(p.PageSize, 0))
			c.Offset = min(c.Offset, low)
			c.Size = end - c.Offset
		}
	} else if b.Layout == "INTERLEAVED" {
		on = spread([]graph.CoreRange{{X1: m.Cores[0] - 1, Y1: m.Cores[1] - 1}}, b.Bank)
	}
	return m.placed(on)
}

// placed returns the index of a list of cores, stored once.
func (m *modeler) placed(on []onCore) int {
	if len(on) == 0 {
		return -1
	}
	key := fmt.Sprint(on)
	k, ok := m.places[key]
	if !ok {
		k = len(m.Places)
		m.places[key] = k
		m.Places = append(m.Places, on)
	}
	return k
}

func (m *modeler) ofProgram(i int) {
	n := &m.g.Nodes[i]
	b := m.newBuffer(i, programKinds[n.Type])
	b.Bank, b.Cores = b.Size, n.Params[graph.ParamCoreRangeSet]
	b.Inside = n.Params.Bool(graph.ParamGloballyAllocated) || n.Params.Bool(graph.ParamBorrowsMemory)
	b.Place = m.placed(spread(graph.ParseCores(b.Cores), b.Size))
	m.Buffers = append(m.Buffers, b)
}

// spread returns the cores of rectangles, with a size on each.
func spread(over []graph.CoreRange, size int64) (on []onCore) {
	for _, r := range over {
		for y := max(r.Y0, 0); y <= min(r.Y1, maxSide-1); y++ {
			for x := max(r.X0, 0); x <= min(r.X1, maxSide-1) && len(on) < maxSide*maxSide; x++ {
				on = append(on, onCore{int64(x), int64(y), 0, size})
			}
		}
	}
	return on
}

// late finds the buffers that stay allocated while operations run that come after the last use of
// their tensors. Operations are calls that only loops, branches and traces have around them.
func (m *modeler) late() {
	var starts []int
	operation := make([]int, len(m.Ops)) // that a call is part of
	for i, o := range m.Ops {
		operation[i] = i
		if o.Parent >= 0 && !m.Ops[operation[o.Parent]].Group {
			operation[i] = operation[o.Parent]
		} else if !o.Group {
			starts = append(starts, o.From)
		}
	}
	for k := range m.Buffers {
		b := &m.Buffers[k]
		used, taken := -1, false
		for _, t := range b.Tensors {
			taken = taken || len(m.Tensors[t].Takers) > 0
			for _, c := range slices.Concat(m.Tensors[t].Takers, m.Tensors[t].Makers) {
				if o := m.Ops[operation[c]]; !o.Group {
					used = max(used, o.To)
				}
			}
		}
		if used < 0 || !taken {
			continue // an unused result is kept on purpose
		}
		first, _ := slices.BinarySearch(starts, used)
		end, _ := slices.BinarySearch(starts, b.To)
		if b.To < len(m.g.Nodes) && m.of[b.To] >= 0 && !m.Ops[operation[m.of[b.To]]].Group {
			end-- // the operation that frees it
		}
		b.Late = max(end-first, 0)
	}
}

// times lays operations out by duration: those inside another one follow each other from its start.
// One that didn't end took as long as those inside.
func (m *modeler) times() {
	within := make([]int64, len(m.Ops)) // sum of the operations inside
	for i := len(m.Ops) - 1; i >= 0; i-- {
		o := &m.Ops[i]
		if o.Ended {
			o.Took = int64(m.g.Nodes[o.To].Duration)
		}
		o.Took = max(o.Took, within[i], 1)
		if o.Parent >= 0 {
			within[o.Parent] += o.Took
		} else {
			m.Total += o.Took
		}
	}
	next := make([]int64, len(m.Ops)) // start of the next operation inside
	var top int64
	for i := range m.Ops {
		o, at := &m.Ops[i], &top
		if o.Parent >= 0 {
			at = &next[o.Parent]
		}
		o.Start, next[i] = *at, *at
		*at += o.Took
	}
}
