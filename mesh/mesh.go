package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/mesh/topology"
)

const traceKind = allocator.Trace

// Mesh is a grid of chips. Its methods may be called from any goroutine.
type Mesh struct {
	s      *system
	shape  Shape
	chips  []*Chip
	here   []int
	parent *Mesh
	queues []*Queue
}

type system struct {
	*found
	carry  map[topology.Link]bool // links that carry command queues of the mesh's chips
	hosts  Hosts                  // nil for a single host
	queues int
	closed atomic.Bool
}

// Chip is a chip of a mesh.
type Chip struct {
	Coord  Coord
	Name   string          // PCI address or target name
	Remote bool            // the chip has no PCI interface and is accessed over a link
	Host   int             // rank of its host; 0 unless the mesh is [Across] hosts
	Device *reprise.Device // nil for a chip of another host
	node   int
	target int // in this host's targets, or -1
}

func (m *Mesh) place() {
	m.here = nil
	for i, c := range m.chips {
		if c.target >= 0 {
			m.here = append(m.here, i)
		}
	}
}

func (m *Mesh) finish() {
	m.place()
	if m.s.queues == 0 && len(m.here) > 0 {
		m.s.queues = m.chips[m.here[0]].Device.Queues()
	}
	for id := range m.s.queues {
		q := &Queue{m: m, id: id, qs: make([]*reprise.Queue, len(m.chips))}
		for _, i := range m.here {
			q.qs[i] = m.chips[i].Device.Queue(id)
		}
		m.queues = append(m.queues, q)
	}
}

// Shape returns the mesh's shape.
func (m *Mesh) Shape() Shape { return slices.Clone(m.shape) }

// Size returns the number of chips.
func (m *Mesh) Size() int { return len(m.chips) }

// Chips returns the chips row by row.
func (m *Mesh) Chips() []*Chip { return slices.Clone(m.chips) }

// Here returns the chips of this host, row by row: all unless the mesh is [Across] hosts.
func (m *Mesh) Here() []*Chip {
	out := make([]*Chip, len(m.here))
	for k, i := range m.here {
		out[k] = m.chips[i]
	}
	return out
}

// Chip returns the chip at a coordinate, or nil.
func (m *Mesh) Chip(c ...int) *Chip {
	if i, ok := m.shape.Index(c); ok {
		return m.chips[i]
	}
	return nil
}

// Parent returns the mesh of a submesh, or nil.
func (m *Mesh) Parent() *Mesh { return m.parent }

// Graph returns the machine's chips and links at the time of Open; nil if unread.
func (m *Mesh) Graph() *topology.Graph { return m.s.graph }

// InGraph returns the index of a chip among those of [Mesh.Graph].
func (m *Mesh) InGraph(c *Chip) int { return m.s.nodes[c.node].inGraph }

// Problems lists the machine's problems at the time of Open, also those outside the mesh.
func (m *Mesh) Problems() []string { return slices.Clone(m.s.problems) }

// Linked reports whether a link joins two places; false for an Unlinked mesh.
func (m *Mesh) Linked(a, b Coord) bool {
	i, ok := m.shape.Index(a)
	j, also := m.shape.Index(b)
	return ok && also && !m.s.unlinked && m.s.links[m.chips[i].node][m.chips[j].node]
}

// String returns "mesh 2x2".
func (m *Mesh) String() string { return "mesh " + m.shape.String() }

// Submesh returns a part of the mesh as a mesh with the same devices, memory and queues. It needs
// no Close.
func (m *Mesh) Submesh(r Range) (*Mesh, error) {
	if err := m.usable("submesh"); err != nil {
		return nil, err
	}
	r, err := r.in(m.shape)
	if err != nil {
		return nil, err
	}
	var at []int
	for c := range r.Coords() {
		i, _ := m.shape.Index(c)
		at = append(at, i)
	}
	return m.part(r.Shape(), at), nil
}

func (m *Mesh) part(s Shape, at []int) *Mesh {
	out := &Mesh{s: m.s, shape: s, parent: m}
	for i, n := range at {
		c := *m.chips[n]
		c.Coord = s.Coord(i)
		out.chips = append(out.chips, &c)
	}
	out.finish()
	return out
}

// Submeshes divides the mesh into submeshes of a shape, row by row. The shape must divide the
// mesh's along each axis.
func (m *Mesh) Submeshes(s Shape) ([]*Mesh, error) {
	if len(s) != len(m.shape) || s.Size() == 0 {
		return nil, &ShapeError{Shape: s, Why: fmt.Sprintf("parts of %v need positive sizes for its %d axes", m, len(m.shape))}
	}
	tiles := make(Shape, len(s))
	for i, d := range s {
		if m.shape[i]%d != 0 {
			return nil, &ShapeError{Shape: s, Why: fmt.Sprintf("it doesn't divide the shape %v of the mesh", m.shape)}
		}
		tiles[i] = m.shape[i] / d
	}
	var out []*Mesh
	for i := range tiles.Size() {
		start := tiles.Coord(i)
		end := make(Coord, len(s))
		for a, d := range s {
			start[a] *= d
			end[a] = start[a] + d - 1
		}
		sub, err := m.Submesh(Range{start, end})
		if err != nil {
			return nil, err
		}
		out = append(out, sub)
	}
	return out, nil
}

// Reshape returns the same chips, maybe in another order, as a mesh of another shape. The error is
// a *ShapeError if the sizes differ or the links don't form the shape.
func (m *Mesh) Reshape(s Shape) (*Mesh, error) {
	if err := m.usable("reshape"); err != nil {
		return nil, err
	}
	if s.Size() != len(m.chips) {
		return nil, &ShapeError{Shape: s, Why: fmt.Sprintf("%v has %d chips", m, len(m.chips))}
	}
	at := upTo(len(m.chips))
	if !m.s.unlinked {
		l, number := make(links, len(m.chips)), map[int]int{}
		for i, c := range m.chips {
			number[c.node] = i
		}
		for i, c := range m.chips {
			l[i] = map[int]bool{}
			for node := range m.s.links[c.node] {
				if j, ok := number[node]; ok {
					l[i][j] = true
				}
			}
		}
		var ok bool
		if at, ok = embed(s, l, embedSteps); !ok {
			return nil, &ShapeError{Shape: s, Why: fmt.Sprintf("the links of %v don't make it", m), Possible: l.possible(len(s))}
		}
	}
	return m.part(slices.Clone(s), at), nil
}

// InStep returns nil if equal requests for a kind of memory get equal addresses on all chips of
// this host; otherwise the error names those that differ. See also hosts.Group.InStep.
func (m *Mesh) InStep(k allocator.Kind) error {
	errs := make([]error, len(m.chips))
	if len(m.here) == 0 {
		return nil
	}
	first := m.chips[m.here[0]]
	want := first.Device.MemoryFingerprint(k)
	for _, i := range m.here {
		if f := m.chips[i].Device.MemoryFingerprint(k); f != want {
			errs[i] = fmt.Errorf("%w: the fingerprint of its %v is %#x, that of %v %#x", ErrMismatch, k, f, first.Coord, want)
		}
	}
	return m.failure("compare memory", errs)
}

// Close closes all chips concurrently, as [reprise.Device.Close] does. On a submesh it does
// nothing.
func (m *Mesh) Close(ctx context.Context) error {
	if m.parent != nil || m.s.closed.Swap(true) {
		return nil
	}
	return m.closeDevices(ctx)
}

func (m *Mesh) usable(op string) error {
	if m.s.closed.Load() {
		return fmt.Errorf("mesh: %s: %w", op, ErrClosed)
	}
	return nil
}

func (m *Mesh) failure(op string, errs []error) error {
	e := &Error{Op: op}
	failed := false
	for i, c := range m.chips {
		s := ChipState{Coord: c.Coord, Name: c.Name}
		if i < len(errs) {
			s.Err = errs[i]
		}
		failed = failed || s.Err != nil
		e.Chips = append(e.Chips, s)
	}
	if !failed {
		return nil
	}
	return e
}

func (m *Mesh) each(ctx context.Context, op string, f func(i int) error) error {
	errs := make([]error, len(m.chips))
	// Calls in a capture are refused on the caller's goroutine: the error names its line.
	if len(m.here) == 1 || ctx.Value(captureKey{}) != nil {
		for k, i := range m.here {
			if errs[i] = f(i); errs[i] != nil && errors.Is(errs[i], reprise.ErrInCapture) {
				for _, j := range m.here[k+1:] {
					errs[j] = ErrSkipped
				}
				break
			}
		}
		return m.failure(op, errs)
	}
	var wg sync.WaitGroup
	for _, i := range m.here {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return m.failure(op, errs)
}

func (m *Mesh) devices() (ds []*reprise.Device) {
	for _, c := range m.Here() {
		ds = append(ds, c.Device)
	}
	return ds
}

// MemoryStage is what is allocated on a mesh at a stage of a program.
type MemoryStage struct {
	Label string       `json:"label"`
	Chips []ChipMemory `json:"chips"` // those of this host, row by row
}

// ChipMemory is what is allocated on a chip.
type ChipMemory struct {
	Coord Coord        `json:"coord"`
	Name  string       `json:"name"`
	Kinds []KindMemory `json:"kinds"`
}

// KindMemory is the use of a kind of memory, and its change since the stage before.
type KindMemory struct {
	allocator.Stats
	AllocatedChange int64 `json:"allocated_change"` // bytes in each bank
	ExtentsChange   int   `json:"extents_change"`
}

// MemoryStage returns what is allocated on each chip of this host. Changes count from the stage
// before; from an empty device if it is nil.
func (m *Mesh) MemoryStage(label string, before *MemoryStage) *MemoryStage {
	type place struct{ chip, kind string }
	was := map[place]KindMemory{}
	if before != nil {
		for _, c := range before.Chips {
			for _, k := range c.Kinds {
				was[place{c.Name, k.Kind.Code()}] = k
			}
		}
	}
	s := &MemoryStage{Label: label}
	for _, c := range m.Here() {
		chip := ChipMemory{Coord: c.Coord, Name: c.Name}
		for _, k := range allocator.Kinds() {
			now := KindMemory{Stats: c.Device.Memory(k)}
			old := was[place{c.Name, k.Code()}]
			now.AllocatedChange = int64(now.Allocated) - int64(old.Allocated)
			now.ExtentsChange = now.Extents - old.Extents
			chip.Kinds = append(chip.Kinds, now)
		}
		s.Chips = append(s.Chips, chip)
	}
	return s
}

// Print writes a line for each chip and kind of memory that is in use or was in the stage before.
// Sizes are bytes in all banks.
func (s *MemoryStage) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.Label)
	for _, c := range s.Chips {
		for _, k := range c.Kinds {
			if k.Allocated == 0 && k.AllocatedChange == 0 {
				continue
			}
			sign, change := "+", k.AllocatedChange
			if change < 0 {
				sign, change = "-", -change
			}
			banks := uint64(k.Banks)
			fmt.Fprintf(&b, "  chip %v  %-8s %s (%s%s) in %d banks, %d allocated (%+d)\n", c.Coord, k.Kind.Code(),
				humanize.IBytes(k.Allocated*banks), sign, humanize.IBytes(uint64(change)*banks), k.Banks, k.Extents, k.ExtentsChange)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
