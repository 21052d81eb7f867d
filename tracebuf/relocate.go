package tracebuf

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
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
	numbers := map[int]int{f.Target.Queue: to[0].Queue}
	for i := range f.Others {
		numbers[f.Others[i].Target.Queue] = to[1+i].Queue
	}
	relocate := func(i int, t *Target, im *Image) error {
		*t = to[i]
		im.relocate(t.Banks, t.Dispatch)
		im.relocateCalls(im.Callees)
		for i := range im.Callees {
			c := &im.Callees[i].Image
			c.relocate(t.Banks, t.Dispatch)
			c.relocateCalls(im.Callees)
		}
		var peers []Peer
		for k, p := range f.Parts() {
			if k != i {
				peers = append(peers, Peer{Dispatcher: to[k].dispatcher(), Recorded: p.Image.Recorded()})
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
		return nil
	}
	if err := relocate(0, &f.Target, &f.Image); err != nil {
		return err
	}
	for i := range f.Others {
		if err := relocate(1+i, &f.Others[i].Target, &f.Others[i].Image); err != nil {
			return err
		}
	}
	return nil
}

func (im *Image) relocate(banks int, dispatch chip.XY) {
	for _, r := range im.Relocs {
		p := &im.Programs[r.Program]
		page, base := p.place(r.Page, p.Addr, banks)
		cq.Put16(im.Bytes, r.At+cq.AtPagedSubStart, page)
		cq.Put32(im.Bytes, r.At+cq.AtPagedSubBase, base)
	}
	for e := range cq.All(im.Layout, im.Bytes[:im.Size]) {
		for r := range e.Relayed {
			at := r.At
			if h, ok := r.Command.(cq.ForwardSubordinate); ok {
				at, r.Command = at+cq.AtForwarded, h.Command
			}
			if c, ok := r.Command.(cq.SendGoSignal); ok {
				cq.Put32(im.Bytes, at+cq.AtGoWord, uint32(cq.NewGoWord(c.Go.Offset(), dispatch.X, dispatch.Y, c.Go.Signal())))
			}
		}
	}
}

func (im *Image) relocateCalls(callees []Callee) {
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

func (p *Program) place(page int, addr uint64, banks int) (start uint16, base uint32) {
	return uint16(page % banks), uint32(addr) + uint32(page/banks)*binaryPage
}
