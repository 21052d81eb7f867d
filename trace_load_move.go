package reprise

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// movable says whether a buffer of a trace that is being loaded may lie elsewhere than when it was recorded: every
// argument that could be an address in it is a parameter that stands for its address. Otherwise the error says which
// isn't. It errs on the side of refusing: a number that happens to look like an address in the buffer keeps it in place.
func (t *Trace) movable(i int) error {
	im := t.image
	b := &im.Buffers[i]
	for k := range im.Buffers {
		if o := &im.Buffers[k]; k != i && o.Addr == b.Addr {
			return fmt.Errorf("buffer %q has the same address in other memory, so parameters don't tell them apart", o.Name)
		}
	}
	free := map[int]bool{}
	for _, p := range im.Params {
		if p.Kind == tracebuf.BufferAddr && uint64(p.Value) == b.Addr {
			for _, at := range p.At {
				free[at] = true
			}
		}
	}
	pages, banks := uint64(b.Size/max(1, b.PageSize)), uint64(t.q.d.DRAMBanks())
	if b.Kind == tracebuf.KindL1 {
		banks = uint64(t.q.d.disp.L1Banks())
	}
	align := uint64(t.q.d.disp.Chip().Params().Align.DRAM())
	end := b.Addr + (pages+banks-1)/banks*roundUp(uint64(b.PageSize), align)
	inside := func(v uint32) bool { return uint64(v) >= b.Addr && uint64(v) < end }
	config := false // what a relay brings
	for e := range cq.All(im.Layout, im.Bytes[:im.Size]) {
		if h, ok := e.Command.(cq.RelayInlineNoFlush); ok {
			large, ok := h.Command.(cq.WritePackedLarge)
			config = !ok || large.Type == cq.LargeConfig
		}
		if v, ok := residentWord(im, e, inside); ok && config {
			return fmt.Errorf("an argument that lies beside the kernels is %#x, inside of the buffer, and no parameter: name it with Recorder.ParamBuffer", v)
		}
		from, to := arguments(e)
		for at := from; at+4 <= to; at += 4 {
			if v := cq.Get32(im.Bytes, at); inside(v) && !free[at] {
				return fmt.Errorf("the argument at %#x of the commands is %#x, inside of the buffer, and no parameter: name it with Recorder.ParamBuffer", at, v)
			}
		}
	}
	return nil
}

// arguments returns where in the commands an entry has runtime arguments, with whatever lies between them.
func arguments(e cq.Entry) (from, to int) {
	relay, ok := e.Command.(cq.RelayInline)
	if !ok {
		return 0, 0
	}
	list := 0 // bytes before the data
	switch c := relay.Command.(type) {
	case cq.WritePacked:
		if c.Type != cq.PackedRuntimeArgs {
			return 0, 0
		}
		list = 4*len(c.Cores) + 8*len(c.Rects)
	case cq.WritePackedLarge:
		if c.Type != cq.LargeConfig {
			return 0, 0
		}
		list = 12 * len(c.Subs)
	default:
		return 0, 0
	}
	return e.Offset + 2*cq.HeaderSize + (list+cq.L1Align-1)&^(cq.L1Align-1), e.Offset + len(e.Raw)
}

// residentWord finds a word with a property in what an entry relays from beside a program's kernels.
func residentWord(im *tracebuf.Image, e cq.Entry, is func(uint32) bool) (uint32, bool) {
	relay, ok := e.Command.(cq.RelayPagedPacked)
	if !ok {
		return 0, false
	}
	for i, sub := range relay.Subs {
		at := e.Offset + cq.AtPagedSub(i)
		n, found := slices.BinarySearchFunc(im.Relocs, at, func(r tracebuf.Reloc, at int) int { return r.At - at })
		if !found {
			continue
		}
		r := im.Relocs[n]
		data := im.Programs[r.Program].Binary[r.Page*dispatch.BinaryPageSize:]
		for o := 0; o+4 <= min(int(sub.Length), len(data)); o += 4 {
			if v := cq.Get32(data, o); is(v) {
				return v, true
			}
		}
	}
	return 0, false
}

// moving is a buffer of a trace that is being loaded, and the parameters that stand for its address.
type moving struct {
	index  int
	params []int
}

func (t *Trace) movingOf(i int) moving {
	m := moving{index: i}
	for k, p := range t.image.Params {
		if p.Kind == tracebuf.BufferAddr && uint64(p.Value) == t.image.Buffers[i].Addr {
			m.params = append(m.params, k)
		}
	}
	return m
}

// to makes the commands use another place of the buffer.
func (m moving) to(im *tracebuf.Image, b *Buffer) {
	im.Buffers[m.index].Addr = b.ext.Addr
	for _, k := range m.params {
		p := &im.Params[k]
		p.Value = b.Addr()
		for _, at := range p.At {
			cq.Put32(im.Bytes, at, p.Value)
		}
	}
}

// moveBuffer allocates a buffer anywhere.
func (t *Trace) moveBuffer(m moving) error {
	want := &t.image.Buffers[m.index]
	kind := DRAM
	if want.Kind == tracebuf.KindL1 {
		kind = L1
	}
	b, err := t.q.d.newBuffer(&BufferConfig{Kind: kind, Size: want.Size, PageSize: want.PageSize, Name: want.Name})
	if err != nil {
		return fmt.Errorf("buffer %q: %w", want.Name, err)
	}
	t.owned, t.made[m.index] = append(t.owned, b), b
	m.to(t.image, b)
	return t.keep(b)
}
