package tracebuf

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

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
