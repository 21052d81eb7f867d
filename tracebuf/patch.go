package tracebuf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

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
