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
func (l *loading) movable(i int) error {
	b := &l.f.Image.Buffers[i]
	end := b.Addr + l.rows(i)*uint64(b.Stride)
	inside := func(v uint32) bool { return uint64(v) >= b.Addr && uint64(v) < end }
	for _, t := range l.parts {
		if err := stays(t.image, inside); err != nil {
			return err
		}
	}
	return nil
}

// rows returns how many pages of a buffer a bank has room for.
func (l *loading) rows(i int) uint64 {
	plan := l.plans[i]
	if plan.dist != nil {
		return uint64(plan.dist.CorePages())
	}
	banks := l.d.DRAMBanks()
	if l.f.Image.Buffers[i].Kind != tracebuf.KindDRAM {
		banks = l.d.disp.L1Banks()
	}
	return uint64((plan.pages + banks - 1) / banks)
}

// stays says which argument keeps a buffer in its place, inside of which addresses are.
func stays(im *tracebuf.Image, inside func(uint32) bool) error {
	free := map[int]bool{}
	for i := range im.Params {
		if p := &im.Params[i]; p.Kind == tracebuf.BufferAddr {
			for _, at := range p.At {
				free[at] = true
			}
		}
	}
	config := false // what a relay brings
	for e := range cq.All(im.Layout, im.Bytes[:im.Size]) {
		for r := range e.Relayed {
			if r.Header {
				large, ok := r.Command.(cq.WritePackedLarge)
				config = !ok || large.Type == cq.LargeConfig
			}
			from, to := arguments(r)
			for at := from; at+4 <= to; at += 4 {
				if v := cq.Get32(im.Bytes, at); inside(v) && !free[at] {
					return fmt.Errorf("the argument at %#x of the commands is %#x, inside of the buffer, and no parameter: name it with Recorder.ParamBuffer", at, v)
				}
			}
		}
		if v, ok := residentWord(im, e, inside); ok && config {
			return fmt.Errorf("an argument that lies beside the kernels is %#x, inside of the buffer, and no parameter: name it with Recorder.ParamBuffer", v)
		}
	}
	return nil
}

// arguments returns where in the commands a command has runtime arguments, with whatever lies between them.
func arguments(r cq.Relayed) (from, to int) {
	list, data := 0, 0 // bytes before the data, and of them
	switch c := r.Command.(type) {
	case cq.WritePacked:
		if c.Type != cq.PackedRuntimeArgs {
			return 0, 0
		}
		list, data = 4*len(c.Cores)+8*len(c.Rects), len(c.Data)
	case cq.WritePackedLarge:
		if c.Type != cq.LargeConfig {
			return 0, 0
		}
		list, data = 12*len(c.Subs), len(c.Data)
	}
	from = r.At + cq.SlotStride(cq.HeaderSize+list)
	return from, from + data
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

// moved makes the commands use another place of a buffer.
func (l *loading) moved(i int, b *Buffer) {
	l.f.Image.Buffers[i].Addr = b.ext.Addr
	for _, t := range l.parts {
		for k := range t.image.Params {
			p := &t.image.Params[k]
			if p.Kind != tracebuf.BufferAddr || p.Buffer != i {
				continue
			}
			p.Value = b.Addr()
			for _, at := range p.At {
				cq.Put32(t.image.Bytes, at, p.Value)
			}
		}
	}
}
