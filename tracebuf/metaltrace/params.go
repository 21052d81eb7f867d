package metaltrace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// ErrArgument: a runtime argument can't be a parameter.
var ErrArgument = errors.New("it can't be a parameter")

// Argument names a runtime argument of a kernel, on one core or on all that run it. Arguments of
// one name are one parameter: they have one value in the trace, and change together.
type Argument struct {
	Name      string // of the parameter
	Step      int    // that runs the program
	Processor chip.Processor
	Kernel    string // "" for all kernels of the processor
	Index     int    // among the common ones if Common is set
	Common    bool
	Core      chip.XY // virtual; zero for all cores
	Buffer    string  // empty for a value
}

// An ArgumentError says why an argument can't be a parameter. It matches ErrArgument.
type ArgumentError struct {
	Argument Argument
	Why      string
}

func (e *ArgumentError) Error() string {
	kind := "argument"
	if e.Argument.Common {
		kind = "common argument"
	}
	return fmt.Sprintf("metaltrace: parameter %q: %s %d of program %d on %v: %s: %v", e.Argument.Name, kind, e.Argument.Index,
		e.Argument.Step, e.Argument.Processor, e.Why, ErrArgument)
}

func (e *ArgumentError) Unwrap() error { return ErrArgument }

func (a *Argument) fail(format string, args ...any) error {
	return &ArgumentError{*a, fmt.Sprintf(format, args...)}
}

func (t *Trace) params(im *tracebuf.Image, buffers []tracebuf.Buffer, args []Argument) ([]tracebuf.Param, error) {
	var patches tracebuf.Patches[int]
	writes := map[int]*l1Memory{}
	for i := range args {
		a := &args[i]
		kind, of := tracebuf.Arg, -1
		if a.Buffer != "" {
			kind = tracebuf.BufferAddr
			of = slices.IndexFunc(buffers, func(b tracebuf.Buffer) bool { return b.Name == a.Buffer })
			if of < 0 {
				return nil, a.fail("there is no buffer %q", a.Buffer)
			}
		}
		if a.Step < 0 || a.Step >= len(t.Steps) {
			return nil, a.fail("the trace has %d programs", len(t.Steps))
		}
		if a.Index < 0 {
			return nil, a.fail("arguments are counted from 0")
		}
		if writes[a.Step] == nil {
			var err error
			if writes[a.Step], err = configOf(im, &im.Steps[a.Step]); err != nil {
				return nil, err
			}
		}
		at, err := t.Steps[a.Step].argument(writes[a.Step], a)
		if err != nil {
			return nil, err
		}
		value, err := tracebuf.SameWords(im.Bytes, at)
		if err == nil && of >= 0 && uint64(value) != buffers[of].Addr {
			err = fmt.Errorf("it is %#x, buffer %q is at %#x", value, a.Buffer, buffers[of].Addr)
		}
		if err == nil {
			_, err = patches.Add(a.Name, kind, value, of, at)
		}
		if err != nil {
			return nil, a.fail("%v", err)
		}
	}
	patches.Place(im, cq.L1Align)
	var out []tracebuf.Param
	for _, p := range patches.All() {
		param := p.Param
		if p.Of >= 0 {
			param.Buffer, param.Pages = p.Of, buffers[p.Of].Pages()
		}
		out = append(out, param)
	}
	return out, nil
}

func (s *Step) argument(writes *l1Memory, a *Argument) ([]int, error) {
	var at []int
	runs := false
	for i := range s.Launches {
		l := &s.Launches[i]
		for k := range l.Kernels {
			kernel := &l.Kernels[k]
			if kernel.Processor != a.Processor || a.Kernel != "" && kernel.Name != a.Kernel {
				continue
			}
			r := kernel.args
			if a.Common {
				r = kernel.common
			}
			addr := r.start + 4*uint64(a.Index)
			for y := uint(l.Start.Y); y <= uint(l.End.Y); y++ {
				for x := uint(l.Start.X); x <= uint(l.End.X); x++ {
					core := chip.XY{X: uint8(x), Y: uint8(y)}
					if a.Core != (chip.XY{}) && core != a.Core {
						continue
					}
					runs = true
					if i := writes.find(core, addr, 4); i >= 0 && addr+4 <= r.end {
						at = append(at, writes.writes[i].at+int(addr-writes.writes[i].addr))
					} else if a.Core != (chip.XY{}) {
						return nil, a.fail("the trace writes no such argument to %v", core)
					}
				}
			}
		}
	}
	switch {
	case !runs:
		return nil, a.fail("the program starts no such kernel there")
	case len(at) == 0:
		return nil, a.fail("the trace writes no such argument")
	}
	return at, nil
}

func configOf(im *tracebuf.Image, s *tracebuf.Step) (*l1Memory, error) {
	ws := &l1Memory{layout: im.Layout}
	for e, err := range cq.All(im.Layout, im.Bytes[s.Offset:s.Offset+s.Size]) {
		inline, _ := e.Command.(cq.RelayInline)
		at := s.Offset + e.Offset + cq.HeaderSize
		switch c := inline.Command.(type) {
		case cq.WritePacked:
			at += cq.SlotStride(cq.AtPackedCore(len(c.Cores)))
		case cq.WritePackedLarge:
			at += cq.SlotStride(cq.AtLargeSub(len(c.Subs)))
		}
		if err = cmp.Or(err, ws.config(inline.Command, at)); err != nil {
			return nil, fmt.Errorf("metaltrace: %w", err)
		}
	}
	return ws, nil
}
