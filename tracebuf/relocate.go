package tracebuf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// FindRelocs returns the places in the commands that name DRAM of programs' kernels: the entries of
// the RELAY_PAGED_PACKED commands of each step with kernels. pages returns the first page of the
// program's kernels for each of a step's entries, in order; further entries are left out.
func (im *Image) FindRelocs(pages func(step int) []int) []Reloc {
	var out []Reloc
	step, next := -1, 0
	var starts []int
	for e := range cq.All(im.Layout, im.Bytes[:im.Size]) {
		for step+1 < len(im.Steps) && e.Offset >= im.Steps[step+1].Offset {
			step++
			if starts, next = nil, 0; im.Steps[step].program() != NoProgram {
				starts = pages(step)
			}
		}
		relay, ok := e.Command.(cq.RelayPagedPacked)
		if !ok {
			continue
		}
		for i := range relay.Subs {
			if next < len(starts) {
				out = append(out, Reloc{At: e.Offset + cq.AtPagedSub(i), Program: im.Steps[step].program(), Page: starts[next]})
			}
			next++
		}
	}
	return out
}

// Relocate changes the commands for the present addresses of the programs' kernels (Program.Addr)
// and of callees (Callee.Addr), and for the present queues: to has a target for each part, in
// order.
func (f *File) Relocate(to []Target) error {
	if len(to) != 1+len(f.Others) {
		return fmt.Errorf("tracebuf: relocate: %d targets for %d parts", len(to), 1+len(f.Others))
	}
	stream := uint16(f.Target.Arch.Params().Stream.FirstDispatch)
	numbers := map[int]int{}
	for i, p := range f.Parts() {
		numbers[p.Target.Queue] = to[i].Queue
	}
	for i, im := range f.Images() {
		t := &f.Target
		if i > 0 {
			t = &f.Others[i-1].Target
		}
		*t = to[i]
		im.relocate(t, im.Callees)
		for k := range im.Callees {
			im.Callees[k].Image.relocate(t, im.Callees)
		}
		var peers []Peer
		for k, o := range f.Images() {
			if k != i {
				peers = append(peers, Peer{Dispatcher: to[k].dispatcher(), Recorded: o.Recorded()})
			}
		}
		runs := 0
		for k := range im.Steps {
			s := &im.Steps[k]
			if s.Program != NoProgram {
				runs++
				continue
			}
			if s.Edge.Kind == EdgeNone {
				continue
			}
			if s.Edge.Kind == EdgeWait {
				s.Edge.Queue = numbers[s.Edge.Queue]
			}
			cmds, err := AppendEdge(nil, im.Layout, stream, t.dispatcher(), peers, s.Edge, uint32(runs*t.Workers.Size()))
			if err != nil {
				return err
			}
			copy(im.Bytes[s.Offset:s.Offset+s.Size], cmds)
		}
	}
	return nil
}

func (im *Image) relocate(to *Target, callees []Callee) {
	for _, r := range im.Relocs {
		p := &im.Programs[r.Program]
		page, base := p.place(r.Page, to.Banks)
		cq.Put16(im.Bytes, r.At+cq.AtPagedSubStart, page)
		cq.Put32(im.Bytes, r.At+cq.AtPagedSubBase, base)
	}
	for at, c := range im.goSignals {
		cq.Put32(im.Bytes, at+cq.AtGoWord, uint32(cq.NewGoWord(c.Go.Offset(), to.Dispatch.X, to.Dispatch.Y, c.Go.Signal())))
	}
	for i := range im.Steps {
		if s := &im.Steps[i]; s.Control.Kind == flow.Call {
			cq.Put32(im.Bytes, s.Offset+cq.AtCallBase, uint32(callees[s.Control.Callee].Addr))
		}
	}
}

// SetCond has a condition read its word at an address of the tile noc, as Layout.NOCXY.
func (im *Image) SetCond(i int, noc, addr uint32) {
	at := im.Conds[i].At
	cq.Put32(im.Bytes, at+cq.AtBranchNOC, noc)
	cq.Put32(im.Bytes, at+cq.AtBranchAddr, addr)
}

func (p *Program) place(page, banks int) (start uint16, base uint32) {
	return uint16(page % banks), uint32(p.Addr) + uint32(page/banks)*binaryPage
}

// CheckMovable checks whether a buffer of the file, which occupies size bytes of each bank, may
// move to another address: every argument that could be an address in it must be a patch point of
// kind BufferAddr. A number that happens to look like an address in the buffer keeps it in place.
func (f *File) CheckMovable(buffer int, size uint64) error {
	start := f.Image.Buffers[buffer].Addr
	inside := func(v uint32) bool { return uint64(v) >= start && uint64(v) < start+size }
	for _, im := range f.everyImage() {
		if err := im.checkMovable(inside); err != nil {
			return err
		}
	}
	return nil
}

// MoveBuffer makes the file's commands use a buffer at another address. The words of conditions are
// for [Image.SetCond].
func (f *File) MoveBuffer(buffer int, addr uint32) {
	f.Image.Buffers[buffer].Addr = uint64(addr)
	for _, im := range f.everyImage() {
		for i := range im.Params {
			if p := &im.Params[i]; p.Kind == BufferAddr && p.Buffer == buffer {
				p.SetValue(im.Bytes, addr)
			}
		}
	}
}

// SetValue changes the patch point's value, and all words of the commands that hold it.
func (p *Param) SetValue(commands []byte, v uint32) {
	p.Value = v
	for _, at := range p.At {
		cq.Put32(commands, at, v)
	}
}

func (im *Image) checkMovable(inside func(uint32) bool) error {
	covered := map[int]bool{}
	for i := range im.Params {
		if p := &im.Params[i]; p.Kind == BufferAddr {
			for _, at := range p.At {
				covered[at] = true
			}
		}
	}
	config := false
	for e := range cq.All(im.Layout, im.Bytes[:im.Size]) {
		for r := range e.Relayed {
			if r.Header {
				large, ok := r.Command.(cq.WritePackedLarge)
				config = !ok || large.Type == cq.LargeConfig
			}
			args := argumentsOf(r)
			for at := args.Start; at+4 <= args.End; at += 4 {
				if v := cq.Get32(im.Bytes, at); inside(v) && !covered[at] {
					return fmt.Errorf("the argument at %#x of the commands is %#x, inside of the buffer, and no parameter: name it with Recorder.ParamBuffer", at, v)
				}
			}
		}
		if v, ok := im.residentWord(e, inside); ok && config {
			return fmt.Errorf("an argument that lies beside the kernels is %#x, inside of the buffer, and no parameter: name it with Recorder.ParamBuffer", v)
		}
	}
	return nil
}

func argumentsOf(r cq.Relayed) ByteRange {
	list, data := 0, 0
	switch c := r.Command.(type) {
	case cq.WritePacked:
		if c.Type != cq.PackedRuntimeArgs {
			return ByteRange{}
		}
		list, data = 4*len(c.Cores)+8*len(c.Rects), len(c.Data)
	case cq.WritePackedLarge:
		if c.Type != cq.LargeConfig {
			return ByteRange{}
		}
		list, data = 12*len(c.Subs), len(c.Data)
	}
	start := r.At + cq.SlotStride(cq.HeaderSize+list)
	return ByteRange{start, start + data}
}

// Arguments may follow the kernels in DRAM.
func (im *Image) residentWord(e cq.Entry, is func(uint32) bool) (uint32, bool) {
	relay, ok := e.Command.(cq.RelayPagedPacked)
	if !ok {
		return 0, false
	}
	for i, sub := range relay.Subs {
		at := e.Offset + cq.AtPagedSub(i)
		n, found := slices.BinarySearchFunc(im.Relocs, at, func(r Reloc, at int) int { return r.At - at })
		if !found {
			continue
		}
		r := im.Relocs[n]
		data := im.Programs[r.Program].Binary[r.Page*binaryPage:]
		for o := 0; o+4 <= min(int(sub.Length), len(data)); o += 4 {
			if v := cq.Get32(data, o); is(v) {
				return v, true
			}
		}
	}
	return 0, false
}

// AlignedPieces returns the smallest ranges of the commands that hold the words at the ascending
// offsets at. Their bounds are multiples of align bytes, a power of two that divides PageSize. None
// crosses the end of a page.
func (im *Image) AlignedPieces(at []int, align int) []ByteRange {
	var out []ByteRange
	for _, o := range at {
		start := o &^ (align - 1)
		if n := len(out); n > 0 {
			last := &out[n-1]
			if start < last.End {
				continue
			}
			if start == last.End && start%im.PageSize != 0 {
				last.End = start + align
				continue
			}
		}
		out = append(out, ByteRange{start, start + align})
	}
	return out
}

// ErrNoParam: a trace has no parameter of a name, or it is of another kind.
var ErrNoParam = errors.New("the trace has no such parameter")

// Patches are the parameters of a trace that change between replays, and the pieces of its commands
// to write for the changed ones. B is the buffer type of parameters of kind BufferAddr. The zero
// value has no parameters. Its methods must not be called concurrently.
type Patches[B comparable] struct {
	list   []*Patch[B]
	byName map[string]*Patch[B]
	dirty  []*Patch[B]
	pieces []ByteRange
}

// Patch is a parameter with its buffer.
type Patch[B comparable] struct {
	Param
	Of B // of a BufferAddr

	pieces []ByteRange
	dirty  bool
}

// Add adds words of the commands to a parameter, and reports whether its name is new. All words of
// a parameter have one value.
func (ps *Patches[B]) Add(name string, kind ParamKind, value uint32, of B, at []int) (added bool, err error) {
	p := ps.byName[name]
	if p == nil {
		p = &Patch[B]{Param: Param{Name: name, Kind: kind, Value: value}, Of: of}
		if ps.byName == nil {
			ps.byName = map[string]*Patch[B]{}
		}
		ps.byName[name] = p
		ps.list = append(ps.list, p)
		added = true
	}
	if p.Kind != kind || p.Value != value || p.Of != of {
		return false, fmt.Errorf("the name stands for a %v of value %#x already, this is a %v of value %#x: use another name", p.Kind, p.Value,
			kind, value)
	}
	p.At = append(p.At, at...)
	return added, nil
}

// SameWords checks that words of the commands are equal, and returns their value.
func SameWords(cmds []byte, at []int) (uint32, error) {
	value := cq.Get32(cmds, at[0])
	for _, o := range at {
		if v := cq.Get32(cmds, o); v != value {
			return 0, fmt.Errorf("the arguments have different values, %#x and %#x: use a name for each", value, v)
		}
	}
	return value, nil
}

// Place finds the pieces of an image to write for each parameter, in multiples of align bytes.
func (ps *Patches[B]) Place(im *Image, align int) {
	for _, p := range ps.list {
		slices.Sort(p.At)
		p.At = slices.Compact(p.At)
		p.pieces = im.AlignedPieces(p.At, align)
	}
}

// All returns the parameters in the order in which they were added.
func (ps *Patches[B]) All() []*Patch[B] { return ps.list }

// Has reports whether there is a parameter of a name.
func (ps *Patches[B]) Has(name string) bool { return ps.byName[name] != nil }

// Find returns the parameter of a name, or ErrNoParam.
func (ps *Patches[B]) Find(name string, kind ParamKind) (*Patch[B], error) {
	p := ps.byName[name]
	if p == nil {
		var names []string
		for _, p := range ps.list {
			names = append(names, fmt.Sprintf("%q", p.Name))
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("%w: it has none", ErrNoParam)
		}
		return nil, fmt.Errorf("%w: it has %s", ErrNoParam, strings.Join(names, ", "))
	}
	if p.Kind != kind {
		return nil, fmt.Errorf("%w: it is of the other kind (%v): use Set for arguments and SetBuffer for buffers", ErrNoParam, p.Kind)
	}
	return p, nil
}

// Set changes a parameter's value, and reports whether it differs.
func (ps *Patches[B]) Set(cmds []byte, p *Patch[B], v uint32) bool {
	if v == p.Value {
		return false
	}
	p.SetValue(cmds, v)
	if !p.dirty {
		p.dirty = true
		ps.dirty = append(ps.dirty, p)
	}
	return true
}

// Changed returns the pieces of the commands to write for the parameters that were set since the
// last call of Written. They don't overlap. The result is valid until the next call.
func (ps *Patches[B]) Changed() []ByteRange {
	ps.pieces = ps.pieces[:0]
	for _, p := range ps.dirty {
		ps.pieces = append(ps.pieces, p.pieces...)
	}
	if len(ps.dirty) > 1 {
		ps.pieces = dropOverlaps(ps.pieces)
	}
	return ps.pieces
}

// Written notes that the pieces of Changed are written.
func (ps *Patches[B]) Written() {
	for _, p := range ps.dirty {
		p.dirty = false
	}
	ps.dirty = ps.dirty[:0]
}

// dropOverlaps joins no pieces, which may not cross the end of a page.
func dropOverlaps(ps []ByteRange) []ByteRange {
	slices.SortFunc(ps, func(a, b ByteRange) int { return cmp.Or(a.Start-b.Start, b.End-a.End) })
	out, end := ps[:0], 0
	for _, p := range ps {
		if p.Start = max(p.Start, end); p.Start < p.End {
			out, end = append(out, p), p.End
		}
	}
	return out
}
