// Package findings gathers what the emulator's checks find, equal findings as one, with the source
// lines of both accesses and the calls of the host's program, and reports it as text, JSON or
// SARIF.
package findings

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/sim/emu"
)

// Finding is what a check found, perhaps several times.
type Finding struct {
	Check string  `json:"check"` // emu.Refusal.Check
	Chip  int     `json:"chip"`
	Text  string  `json:"text"` // both accesses, and what would order them
	At    Access  `json:"at"`
	Other *Access `json:"other,omitempty"` // the earlier access
	Calls []Call  `json:"calls,omitempty"` // of the host's program, innermost first, the first time
	// Operation is what the later access belongs to, perhaps in a trace that was recorded before.
	Operation *Operation `json:"operation,omitempty"`
	Count     int        `json:"count"`
}

// Operation is an operation of the host's framework.
type Operation struct {
	Name string `json:"name"`
	Call Call   `json:"call"`
}

// Access is one of two accesses.
type Access struct {
	By     string        `json:"by"`               // such as "BRISC of core (0,0)", or "the host"
	Frames []stack.Frame `json:"frames,omitempty"` // innermost first; none of the host, and of unknown code
	PC     uint32        `json:"pc,omitempty"`
	Addr   uint64        `json:"address"`
}

// Call is a call in the host's program.
type Call struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
	Text     string `json:"text,omitempty"` // the line
}

func (c Call) String() string {
	out := fmt.Sprintf("%s:%d in %s", c.File, c.Line, c.Function)
	if c.Text != "" {
		out += ": " + c.Text
	}
	return out
}

func (o *Operation) String() string { return fmt.Sprintf("%s, called at %v", o.Name, o.Call) }

// Collector collects findings. Its methods may be called from any goroutine.
type Collector struct {
	// Code returns the code of a processor around a program counter.
	Code func(p chip.Processor, pc uint32, read stack.Memory) stack.Space
	// Calls returns the calls that the host's program is in. It may be nil.
	Calls func() []Call
	// Operation returns the operation that a tile of chip number n executes, or nil. It may be nil.
	Operation func(n int, tile chip.XY, p chip.Processor, m emu.ChipView) *Operation
	// File, if not empty, is replaced after each new finding. Whoever moves it away has those
	// findings: the next one begins a new list.
	File string

	mu   sync.Mutex
	seen map[site]*Finding // by program counters and the code there
	same map[site]*Finding // by lines
	list []*Finding
	err  error // of writing File
}

// site identifies a finding by its two accesses.
type site [2]struct {
	check, code string
	core        chip.Processor
	pc          uint32
}

// Add adds a finding of chip number n.
func (g *Collector) Add(n int, f *emu.Finding) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(n, &f.Refusal, f)
}

// Stopped adds why a chip has stopped, unless nothing is known of that.
func (g *Collector) Stopped(n int, c *emu.Chip) {
	r := (*emu.Refusal)(nil)
	if !errors.As(c.Fault(), &r) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(n, r, c)
}

func (g *Collector) add(n int, r *emu.Refusal, m emu.ChipView) {
	if g.taken() {
		g.seen, g.same, g.list = nil, nil, nil
	}
	at := emu.Access{Host: !r.HasCore, Tile: r.Tile, Core: r.Core, PC: r.PC, Addr: r.Addr}
	raw := site{}
	for i, a := range []*emu.Access{&at, r.Other} {
		if a != nil && a.PC != 0 {
			raw[i].core, raw[i].pc, raw[i].code = a.Core, a.PC, codeAt(m, a)
		}
		raw[i].check = r.Check
	}
	if f := g.seen[raw]; f != nil {
		f.Count++
		return
	}
	f := &Finding{Check: r.Check, Chip: n, Text: r.Detail, At: g.access(m, &at, true)}
	if r.Other != nil {
		other := g.access(m, r.Other, false)
		f.Other = &other
	}
	if g.seen == nil {
		g.seen, g.same = map[site]*Finding{}, map[site]*Finding{}
	}
	lines := raw
	for i, a := range []*Access{&f.At, f.Other} {
		if a == nil || len(a.Frames) == 0 {
			continue
		}
		// A kernel may be at several addresses.
		if in := a.Frames[0]; in.File != "" {
			lines[i].code, lines[i].pc = fmt.Sprintf("%s %s:%d", in.Module, in.File, in.Line), 0
		} else {
			lines[i].code, lines[i].pc = in.Module+" "+in.Function+" "+lines[i].code, 0
		}
	}
	if old := g.same[lines]; old != nil {
		old.Count++
		g.seen[raw] = old
		return
	}
	f.Count = 1
	if g.Calls != nil {
		f.Calls = g.Calls()
	}
	if g.Operation != nil && r.HasCore {
		f.Operation = g.Operation(n, r.Tile, r.Core, m)
	}
	g.seen[raw], g.same[lines] = f, f
	g.list = append(g.list, f)
	g.write()
}

// codeAt is what of the code around an access tells kernels at one address apart.
func codeAt(m emu.ChipView, a *emu.Access) string {
	var b [64]byte
	if start := max(a.PC, 32) - 32; !m.ReadCore(a.Tile, a.Core, start, b[:]) {
		return ""
	}
	return string(b[:])
}

// access describes an access. The processor of the later one is still there.
func (g *Collector) access(m emu.ChipView, a *emu.Access, later bool) Access {
	out := Access{PC: a.PC, Addr: a.Addr}
	where := "tile " + a.Tile.String()
	if at, ok := m.Topology().LogicalOf(a.Tile); ok {
		where = "core " + at.String()
	}
	switch {
	case a.Host:
		out.By = "the host"
		return out
	case a.Tile == chip.XY{}:
		out.By = "another processor" // of an atomic
		return out
	}
	out.By = fmt.Sprintf("%v of %s", a.Core, where)
	read := stack.Of(m.ReadCore, a.Tile, a.Core)
	regs := stack.Registers{PC: a.PC}
	if later {
		regs = stack.All(m.Registers(a.Tile, a.Core), a.PC)
	}
	out.Frames = g.Code(a.Core, a.PC, read).Unwind(regs, read)
	for i := range out.Frames {
		out.Frames[i].Args = nil
	}
	return out
}

// Findings returns what was found, in the order of the first times.
func (g *Collector) Findings() []Finding {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Finding, len(g.list))
	for i, f := range g.list {
		out[i] = *f
	}
	return out
}

// Close writes the last counts. The error is the first one of writing File.
func (g *Collector) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.taken() {
		g.write()
	}
	return g.err
}

// taken reports whether somebody has moved the file away.
func (g *Collector) taken() bool {
	if g.File == "" || len(g.list) == 0 || g.err != nil {
		return false
	}
	_, err := os.Stat(g.File)
	return errors.Is(err, os.ErrNotExist)
}

func (g *Collector) write() {
	if g.File == "" {
		return
	}
	b, err := json.Marshal(slices.Clone(g.list))
	if err == nil {
		temp := g.File + ".new"
		err = errors.Join(os.WriteFile(temp, b, 0o644), os.Rename(temp, g.File))
	}
	if g.err == nil {
		g.err = err
	}
}

// Read reads a collector's file. A missing one has no findings.
func Read(path string) ([]Finding, error) {
	var list []Finding
	b, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("findings: %w", err)
	}
	return list, nil
}
