// Package optimize makes recorded traces shorter, so that a replay takes less of the device's time.
// What workers get before each go signal stays the same to the byte, and [Files] proves it by
// comparing both traces' writes, core by core.
package optimize

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/tracebuf"
)

// ErrControl: the trace has control flow, whose commands name places among the commands.
var ErrControl = errors.New("a trace with loops, conditions, calls or computed arguments can't be optimized")

// ErrNames: two buffers of a device have the same name, so a file can't tell which is which.
var ErrNames = errors.New("two buffers have the same name")

// Rewrite is Files for a trace that is loaded again with the buffers that it has, by their names.
func Rewrite(to io.Writer, from io.Reader) error {
	files, err := tracebuf.DecodeAll(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		for i := 0; f != nil && i < len(f.Image.Buffers); i++ {
			name := f.Image.Buffers[i].Name
			if slices.ContainsFunc(f.Image.Buffers[:i], func(b tracebuf.Buffer) bool { return b.Name == name }) {
				return fmt.Errorf("optimize: %w: %q", ErrNames, name)
			}
		}
	}
	if files, err = Files(files); err != nil {
		return err
	}
	return tracebuf.EncodeAll(to, files)
}

// A ProofError says where an optimized trace would do something else: a fault of this package.
type ProofError struct {
	Step int
	What string
}

func (e *ProofError) Error() string {
	return fmt.Sprintf("optimize: step %d would not do the same: %s", e.Step, e.What)
}

// Files returns the files of a trace (one for each device, nil for none) with shorter commands, for
// queues with this runtime's own firmware. What was changed, and why that is allowed, is in each
// image's Changes. Results and buffers are the given files'. The error matches ErrControl or is a
// *ProofError.
func Files(files []*tracebuf.File) ([]*tracebuf.File, error) {
	out := slices.Clone(files)
	for i, f := range files {
		if f == nil {
			continue
		}
		ch, err := chip.New(f.Target.Arch, f.Target.Harvesting)
		if err != nil {
			return nil, fmt.Errorf("optimize: %w", err)
		}
		o := *f
		o.Others = slices.Clone(f.Others)
		images := o.Images()
		for _, im := range images {
			if err := optimize(im, ch, f.Target.Banks); err != nil {
				return nil, err
			}
		}
		out[i] = &o
	}
	return out, nil
}

func optimize(im *tracebuf.Image, ch *chip.Chip, banks int) error {
	if im.HasControl() {
		return fmt.Errorf("optimize: %w", ErrControl)
	}
	old := *im
	params := make(map[int]int) // by offset of a word, 1 + the parameter
	for i, p := range im.Params {
		for _, at := range p.At {
			params[at] = i + 1
		}
	}
	rec := tracebuf.NewRecording(im.Layout)
	var moves moved
	var changes []tracebuf.Change
	for i := range old.Steps {
		s := &old.Steps[i]
		cmds := old.Bytes[s.Offset : s.Offset+s.Size]
		base := len(rec.Bytes())
		if s.Program == tracebuf.NoProgram {
			rec.AddEdge(s.Name, s.Edge, cmds)
			moves = append(moves, span{s.Offset, base, s.Size})
			continue
		}
		r := rewriter{ch: ch, step: i, param: func(at int) int { return params[s.Offset+at] }, b: cq.NewBuilder(im.Layout, nil),
			relayed: func(at int, relay *cq.RelayPagedPacked) []byte { return relayed(&old, s.Offset+at, relay) }}
		if err := r.rewrite(im.Layout, cmds); err != nil {
			return fmt.Errorf("optimize: step %d %s: %w", i, tracebuf.Printable(s.Name), err)
		}
		changes = append(changes, r.changes...)
		for _, m := range r.moves {
			moves = append(moves, span{m.from + s.Offset, m.to + base, m.n})
		}
		rec.Add(s.Name, s.Program, func(dst []byte) ([]byte, uint8) { return append(dst, r.out...), s.Variant })
	}
	next, err := rec.Finish(banks)
	if err != nil {
		return err
	}
	im.Bytes, im.Size, im.PageSize, im.Steps = next.Bytes, next.Size, next.PageSize, next.Steps
	im.Changes = append(slices.Clone(old.Changes), changes...)
	im.Relocs = nil
	for _, r := range old.Relocs {
		if r.At = moves.at(r.At); r.At >= 0 {
			im.Relocs = append(im.Relocs, r)
		}
	}
	slices.SortFunc(im.Relocs, func(a, b tracebuf.Reloc) int { return cmp.Compare(a.At, b.At) })
	im.Params = slices.Clone(old.Params)
	for i := range im.Params {
		p := &im.Params[i]
		p.At = nil
		for _, at := range old.Params[i].At {
			if now := moves.at(at); now >= 0 { // else another core's word stands for it
				p.At = append(p.At, now)
			}
		}
		slices.Sort(p.At)
	}
	return prove(&old, im, ch)
}

// span is bytes that lie at another place now.
type span struct{ from, to, n int }

type moved []span

// at returns -1 for a byte that is left out.
func (m moved) at(from int) int {
	i, _ := slices.BinarySearchFunc(m, from, func(s span, from int) int {
		if s.from <= from {
			return -1
		}
		return 1
	})
	if i == 0 || from >= m[i-1].from+m[i-1].n {
		return -1
	}
	return m[i-1].to + from - m[i-1].from
}

// rewriter rewrites the commands of one step.
type rewriter struct {
	ch      *chip.Chip
	step    int
	param   func(at int) int
	b       cq.Builder
	moves   moved
	changes []tracebuf.Change
	out     []byte

	offsets *cq.SetWriteOffset
	relayed func(at int, relay *cq.RelayPagedPacked) []byte
	header  *cq.WritePackedLarge // whose data the next relay brings
}

func (r *rewriter) rewrite(l cq.Layout, cmds []byte) error {
	for e, err := range cq.All(l, cmds) {
		if err != nil {
			return err
		}
		if relay, ok := e.Command.(cq.RelayPagedPacked); ok && r.inline(e.Offset, &relay) {
			continue
		}
		if _, _, ok := e.Dispatch(); !ok {
			r.move(e.Offset, r.b.Append(e.Command), len(e.Raw))
			continue
		}
		for c := range e.Relayed {
			r.command(c)
		}
	}
	stock, err := r.b.Finish()
	if err != nil {
		return err
	}
	// Words can only be found again where they were moved to; a go signal's are in no parameter.
	packed, moves, err := cq.Pack(l, memmap.PageSize, stock)
	if err != nil {
		return err
	}
	var all moved
	for _, m := range r.moves {
		if to, ok := moves.At(m.to); ok {
			all = append(all, span{m.from, to, m.n})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	r.moves, r.out = all, packed
	if before, after := len(cmds), len(packed); after < before {
		r.change(tracebuf.Packed, fmt.Sprintf("%d B of commands became %d B", before, after))
	}
	return nil
}

func (r *rewriter) change(kind tracebuf.ChangeKind, what string) {
	r.changes = append(r.changes, tracebuf.Change{Step: r.step, Kind: kind, What: what})
}

func (r *rewriter) move(from, to, n int) { r.moves = append(r.moves, span{from, to, n}) }

func (r *rewriter) command(c cq.Relayed) {
	switch d := c.Command.(type) {
	case cq.ForwardSubordinate:
		r.b.Dispatch(cq.Master, cq.NotifySubordinate{Wait: d.Wait, Mask: 1})
		r.b.Dispatch(cq.Subordinate, d.Command)
		return
	case cq.Wait:
		if d.Flags == 0 {
			r.change(tracebuf.Dropped, "a WAIT for nothing")
			return
		}
	case cq.SetWriteOffset:
		if r.offsets != nil && *r.offsets == d {
			r.change(tracebuf.Dropped, "a SET_WRITE_OFFSET to what they are")
			return
		}
		r.offsets = &d
	case cq.WritePacked:
		if d.OffsetIndex == 1 && len(d.Cores) > 1 && len(d.Data) > 0 && !d.NoStride {
			r.join(c.At, &d)
			return
		}
	}
	if c.Header {
		if d, ok := c.Command.(cq.WritePackedLarge); ok {
			r.header = &d
			return
		}
		r.b.Append(cq.RelayInlineNoFlush{Command: c.Command})
		return
	}
	before := r.b.Len()
	at := r.b.Dispatch(c.To, c.Command)
	r.move(c.At, at, r.b.Len()-before-cq.HeaderSize)
}
