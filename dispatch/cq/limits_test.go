package cq

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func rects(n int) []Rect { return make([]Rect, n) }

func TestEncoderLimits(t *testing.T) {
	fill := func(r []Rect) []Rect {
		for i := range r {
			r[i].Dests = 1
		}
		return r
	}
	subs := func(n int, length uint32) []LargeSub {
		s := make([]LargeSub, n)
		for i := range s {
			s[i] = LargeSub{Length: length, Dests: 1}
		}
		return s
	}
	for _, c := range []struct {
		name  string
		build func(*Builder)
		want  error
	}{
		{"1020 cores", func(b *Builder) { b.WritePacked(WritePacked{Size: 4, Cores: make([]uint32, 1020)}) }, nil},
		{"1021 cores", func(b *Builder) { b.WritePacked(WritePacked{Size: 4, Cores: make([]uint32, 1021)}) }, ErrLimit},
		{"510 rectangles", func(b *Builder) { b.WritePacked(WritePacked{Size: 4, Rects: fill(rects(510))}) }, nil},
		{"511 rectangles", func(b *Builder) { b.WritePacked(WritePacked{Size: 4, Rects: fill(rects(511))}) }, ErrLimit},
		{"neither cores nor rectangles", func(b *Builder) { b.WritePacked(WritePacked{Size: 4}) }, ErrFormat},
		{"cores and rectangles", func(b *Builder) { b.WritePacked(WritePacked{Size: 4, Cores: make([]uint32, 1), Rects: rects(1)}) }, ErrFormat},
		{"packed size 0", func(b *Builder) { b.WritePacked(WritePacked{Cores: make([]uint32, 1)}) }, ErrLimit},
		{"packed type 15", func(b *Builder) { b.WritePacked(WritePacked{Type: 15, Size: 4, Cores: make([]uint32, 1)}) }, nil},
		{"packed type 16", func(b *Builder) { b.WritePacked(WritePacked{Type: 16, Size: 4, Cores: make([]uint32, 1)}) }, ErrLimit},
		{"packed data without slots' padding", func(b *Builder) {
			b.WritePacked(WritePacked{Size: 8, Cores: make([]uint32, 2), Data: make([]byte, 16)})
		}, ErrFormat},
		{"packed data with it", func(b *Builder) {
			b.WritePacked(WritePacked{Size: 8, Cores: make([]uint32, 2), Data: make([]byte, 32)})
		}, nil},
		{"packed data, one slot", func(b *Builder) {
			b.WritePacked(WritePacked{NoStride: true, Size: 8, Cores: make([]uint32, 2), Data: make([]byte, 16)})
		}, nil},
		{"35 runs", func(b *Builder) { b.WritePackedLarge(WritePackedLarge{Alignment: 16, Subs: subs(35, 16)}) }, nil},
		{"36 runs", func(b *Builder) { b.WritePackedLarge(WritePackedLarge{Alignment: 16, Subs: subs(36, 16)}) }, ErrLimit},
		{"no runs", func(b *Builder) { b.WritePackedLarge(WritePackedLarge{Alignment: 16}) }, ErrLimit},
		{"run of 65536", func(b *Builder) { b.WritePackedLarge(WritePackedLarge{Alignment: 16, Subs: subs(1, 65536)}) }, nil},
		{"run of 65537", func(b *Builder) { b.WritePackedLarge(WritePackedLarge{Alignment: 16, Subs: subs(1, 65537)}) }, ErrLimit},
		{"run of 0", func(b *Builder) { b.WritePackedLarge(WritePackedLarge{Alignment: 16, Subs: subs(1, 0)}) }, ErrLimit},
		{"alignment 0", func(b *Builder) { b.WritePackedLarge(WritePackedLarge{Subs: subs(1, 16)}) }, ErrLimit},
		{"alignment 24", func(b *Builder) { b.WritePackedLarge(WritePackedLarge{Alignment: 24, Subs: subs(1, 16)}) }, ErrLimit},
		{"blocks without padding", func(b *Builder) {
			b.WritePackedLarge(WritePackedLarge{Alignment: 64, Subs: subs(2, 16), Data: make([]byte, 32)})
		}, ErrFormat},
		{"data after a NOFLUSH", func(b *Builder) { b.WriteLinearHeader(WriteLinear{Data: make([]byte, 4)}) }, ErrFormat},
		{"host record below its header", func(b *Builder) { b.WriteHost(WriteHost{Length: 15}) }, ErrLimit},
		{"host record of its header", func(b *Builder) { b.WriteHost(WriteHost{Length: 16}) }, nil},
		{"pages of 4 GiB", func(b *Builder) { b.WritePagedHeader(WritePaged{PageSize: 1 << 16, Pages: 1 << 16}) }, ErrLimit},
		{"pages of 4 GiB less a bit", func(b *Builder) { b.WritePagedHeader(WritePaged{PageSize: 1 << 16, Pages: 1<<16 - 1}) }, nil},
		{"pages and other data", func(b *Builder) { b.WritePaged(WritePaged{PageSize: 16, Pages: 2, Data: make([]byte, 31)}) }, ErrFormat},
		{"linear write of 2 GiB", func(b *Builder) { b.WriteLinear(WriteLinear{Length: 1 << 31}) }, ErrLimit},
		{"linear write of 2^64-1", func(b *Builder) { b.WriteLinear(WriteLinear{Length: 1<<64 - 1}) }, ErrLimit},
		{"its header alone", func(b *Builder) { b.WriteLinearHeader(WriteLinear{Length: 1<<64 - 1}) }, nil},
		{"4 write offsets", func(b *Builder) { b.SetWriteOffset(SetWriteOffset{Count: 4}) }, nil},
		{"5 write offsets", func(b *Builder) { b.SetWriteOffset(SetWriteOffset{Count: 5}) }, ErrLimit},
		{"length adjust 0x7fff", func(b *Builder) { b.RelayPaged(RelayPaged{LengthAdjust: 0x7FFF}) }, nil},
		{"length adjust 0x8000", func(b *Builder) { b.RelayPaged(RelayPaged{LengthAdjust: 0x8000}) }, ErrLimit},
		{"35 buffers", func(b *Builder) { b.RelayPagedPacked(RelayPagedPacked{Subs: make([]PagedSub, 35)}) }, nil},
		{"36 buffers", func(b *Builder) { b.RelayPagedPacked(RelayPagedPacked{Subs: make([]PagedSub, 36)}) }, ErrLimit},
		{"buffers of 4 GiB together", func(b *Builder) {
			b.RelayPagedPacked(RelayPagedPacked{Subs: []PagedSub{{Length: 1 << 31}, {Length: 1 << 31}}})
		}, ErrLimit},
		{"52 ranges", func(b *Builder) { b.RelayRingbuffer(RelayRingbuffer{Subs: make([]RingSub, 52)}) }, nil},
		{"53 ranges", func(b *Builder) { b.RelayRingbuffer(RelayRingbuffer{Subs: make([]RingSub, 53)}) }, ErrLimit},
		{"third dispatcher", func(b *Builder) { b.Wait(2, Wait{}) }, ErrLimit},
		{"third dispatcher for the table", func(b *Builder) { b.SetGoSignalNOCData(2, SetGoSignalNOCData{}) }, ErrLimit},
		{"no command", func(b *Builder) { b.Append(nil) }, ErrFormat},
		{"relay of no command", func(b *Builder) { b.Append(RelayInline{}) }, ErrFormat},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBuilder(Blackhole, make([]byte, 64))
			c.build(&b)
			if !errors.Is(b.err, c.want) {
				t.Fatalf("got %v, want %v", b.err, c.want)
			}
			if c.want == nil {
				return
			}
			if b.Stall(); b.Len() != 64 {
				t.Errorf("%d bytes after an error", b.Len()-64)
			}
			var le *LimitError
			if errors.As(b.err, &le) && (le.Command == "" || le.Field == "" || le.Want == "" || le.Fix == "") {
				t.Errorf("%+v says too little", le)
			}
			if !strings.HasPrefix(b.err.Error(), "cq: ") {
				t.Error(b.err)
			}
		})
	}
}

func TestFirmwareLimits(t *testing.T) {
	m := DefaultLimits(118)
	cores := func(n int) []uint32 { return make([]uint32, n) }
	dests := func(n int) []Rect {
		r := rects(n)
		for i := range r {
			r[i].Dests = 1
		}
		return r
	}
	inline := func(c DispatchCommand) PrefetchCommand { return RelayInline{Master, c} }
	sub := func(c DispatchCommand) PrefetchCommand { return RelayInline{Subordinate, c} }
	large := func(s ...LargeSub) DispatchCommand { return WritePackedLarge{Alignment: 16, Subs: s} }
	for i, c := range []struct {
		c    any // a command of the prefetcher or of a dispatcher
		l    Layout
		want error
	}{
		{inline(WriteLinear{Data: make([]byte, 128<<10-48)}), Blackhole, nil},
		{inline(WriteLinear{Data: make([]byte, 128<<10-47)}), Blackhole, ErrLimit},
		{WriteLinear{OffsetIndex: 3}, Wormhole, nil},
		{WriteLinear{OffsetIndex: 4}, Wormhole, ErrLimit},
		{WritePacked{Size: 4, Cores: cores(118)}, Blackhole, nil},
		{WritePacked{Size: 4, Cores: cores(119)}, Blackhole, ErrLimit},
		{WritePacked{Size: 4, Rects: dests(59)}, Blackhole, nil},
		{WritePacked{Size: 4, Rects: dests(60)}, Blackhole, ErrLimit},
		{WritePacked{Size: 4, Rects: rects(1)}, Blackhole, ErrLimit},
		{WritePacked{Size: 4096, Cores: cores(1)}, Blackhole, nil},
		{WritePacked{Size: 4097, Cores: cores(1)}, Blackhole, ErrLimit},
		{WritePacked{Size: 4, Cores: cores(1), OffsetIndex: 4}, Blackhole, ErrLimit},
		{large(LargeSub{Length: 16, Dests: 1, Unlink: true}), Blackhole, nil},
		{large(LargeSub{Length: 16, Dests: 1}), Blackhole, ErrFormat},
		{large(LargeSub{Length: 16, Unlink: true}), Blackhole, ErrLimit},
		{large(LargeSub{Length: 20, Dests: 1, Unlink: true}), Blackhole, ErrLimit},
		{large(LargeSub{NOC: 1, Length: 16, Dests: 1}, LargeSub{NOC: 1, Length: 16, Dests: 1, Unlink: true}), Blackhole, nil},
		{large(LargeSub{NOC: 1, Length: 16, Dests: 1}, LargeSub{NOC: 2, Length: 16, Dests: 1, Unlink: true}), Blackhole, ErrFormat},
		{large(LargeSub{NOC: 1, Length: 16, Dests: 1, Unlink: true}, LargeSub{NOC: 2, Length: 16, Dests: 1, Unlink: true}), Blackhole, nil},
		{sub(SendGoSignal{}), Blackhole, nil},
		{sub(WritePacked{Size: 4, Cores: cores(1)}), Blackhole, ErrFormat},
		{sub(SetGoSignalNOCData{Words: cores(60)}), Blackhole, nil},
		{sub(SetGoSignalNOCData{Words: cores(61)}), Blackhole, ErrLimit},
		{inline(SetGoSignalNOCData{Words: cores(64)}), Blackhole, nil},
		{inline(SetGoSignalNOCData{Words: cores(65)}), Blackhole, ErrLimit},
		{RelayInline{2, Wait{}}, Blackhole, ErrLimit},
		{RelayInline{}, Blackhole, ErrFormat},
		{RelayInlineNoFlush{}, Blackhole, ErrFormat},
		{RelayInlineNoFlush{WritePacked{Size: 4064, Cores: cores(1), Data: make([]byte, 4064)}}, Blackhole, nil},
		{RelayInlineNoFlush{WritePacked{Size: 4080, Cores: cores(1)}}, Blackhole, nil}, // its data come after it
		{RelayInlineNoFlush{WritePacked{Size: 4080, Cores: cores(1), Data: make([]byte, 4080)}}, Blackhole, ErrLimit},
		{Wait{Flags: 0x1F}, Blackhole, nil},
		{Wait{Flags: 0x20}, Blackhole, ErrLimit},
		{Wait{Flags: WaitMemory, Addr: 2}, Blackhole, ErrLimit},
		{SendGoSignal{Multicast: 7}, Blackhole, nil},
		{SendGoSignal{Multicast: 8}, Blackhole, ErrLimit},
		{SendGoSignal{Multicast: NoMulticast, NOCStart: 60, NumUnicast: 4}, Blackhole, nil},
		{SendGoSignal{Multicast: NoMulticast, NOCStart: 60, NumUnicast: 5}, Blackhole, ErrLimit},
		{NotifySubordinate{Mask: 0xFF}, Blackhole, nil},
		{NotifySubordinate{Mask: 0x100}, Blackhole, ErrLimit},
		{SetNumWorkerSems{Num: 8}, Blackhole, nil},
		{SetNumWorkerSems{Num: 9}, Blackhole, ErrLimit},
		{SetWriteOffset{Count: 5}, Blackhole, ErrLimit},
		{WritePaged{PageSize: 0, Pages: 4}, Blackhole, ErrLimit},
		{WriteHost{Length: 15}, Blackhole, ErrLimit},
		{RelayLinear{}, Blackhole, ErrLimit},
		{RelayLinearH{Length: 128<<10 - 64}, Blackhole, nil},
		{RelayLinearH{Length: 128<<10 - 63}, Blackhole, ErrLimit},
		{RelayLinearH{Length: 128<<10 - 32}, Wormhole, nil},
		{RelayLinearH{Length: 128<<10 - 31}, Wormhole, ErrLimit},
		{RelayPaged{DRAM: true, PageSize: 2048, Pages: 3, LengthAdjust: 2047}, Blackhole, nil},
		{RelayPaged{DRAM: true, PageSize: 32, Pages: 3}, Wormhole, nil},
		{RelayPaged{DRAM: true, PageSize: 32, Pages: 3}, Blackhole, ErrLimit},
		{RelayPaged{PageSize: 16, Pages: 3}, Blackhole, nil},
		{RelayPaged{PageSize: 16, Pages: 3, LengthAdjust: 48}, Blackhole, ErrLimit},
		{RelayPaged{PageSize: 16}, Blackhole, ErrLimit},
		{RelayPagedPacked{[]PagedSub{{Length: 64 << 10}}}, Blackhole, nil},
		{RelayPagedPacked{[]PagedSub{{Length: 64<<10 + 64}}}, Blackhole, ErrLimit},
		{RelayPagedPacked{[]PagedSub{{Length: 32}}}, Wormhole, nil},
		{RelayPagedPacked{[]PagedSub{{Length: 32}}}, Blackhole, ErrLimit},
		{RelayPagedPacked{[]PagedSub{{Length: 64, LogPageSize: 32}}}, Blackhole, ErrLimit},
		{RelayPagedPacked{}, Blackhole, ErrLimit},
		{ExecBuf{LogPageSize: 12, Pages: 1}, Blackhole, nil},
		{ExecBuf{LogPageSize: 12}, Blackhole, ErrLimit},
		{ExecBuf{LogPageSize: 5, Pages: 1}, Wormhole, nil},
		{ExecBuf{LogPageSize: 5, Pages: 1}, Blackhole, ErrLimit},
		{ExecBuf{LogPageSize: 4096, Pages: 1}, Blackhole, ErrLimit},
		{PagedToRingbuffer{Length: 1 << 20, Advance: 1 << 20}, Blackhole, nil},
		{PagedToRingbuffer{Length: 1<<20 + 64}, Blackhole, ErrLimit},
		{PagedToRingbuffer{Length: 64, Advance: 1<<20 + 1}, Blackhole, ErrLimit},
		{PagedToRingbuffer{Length: 32}, Blackhole, ErrLimit},
		{PagedToRingbuffer{}, Blackhole, ErrLimit},
		{SetRingbufferOffset{Offset: 1 << 20}, Blackhole, nil},
		{SetRingbufferOffset{Offset: 1<<20 + 1}, Blackhole, ErrLimit},
		{RelayRingbuffer{[]RingSub{{1<<20 - 64, 64}}}, Blackhole, nil},
		{RelayRingbuffer{[]RingSub{{1<<20 - 64, 65}}}, Blackhole, ErrLimit},
		{RelayRingbuffer{[]RingSub{{1<<32 - 1, 1<<32 - 1}}}, Blackhole, ErrLimit},
		{RelayRingbuffer{}, Blackhole, ErrLimit},
		{Opaque{make([]byte, 16)}, Blackhole, ErrIllegal},
	} {
		if err := validate(c.l, m, c.c); !errors.Is(err, c.want) {
			t.Errorf("%d: %v %T %+v: got %v, want %v", i, c.l, c.c, short(c.c), err, c.want)
		}
	}
}

func TestRelayFitsTheRing(t *testing.T) {
	m := DefaultLimits(0)
	m.DispatchRing = 128 << 10
	if err := validate(Wormhole, m, WriteLinear{Length: 64<<10 - 32}); err != nil {
		t.Error(err)
	}
	if err := validate(Wormhole, m, WriteLinear{Length: 64<<10 - 31}); !errors.Is(err, ErrLimit) {
		t.Errorf("got %v", err)
	}
}

func TestBuilderWantsWholeSlots(t *testing.T) {
	for _, c := range []struct {
		l  Layout
		n  int
		ok bool
	}{{Wormhole, 32, true}, {Wormhole, 16, false}, {Blackhole, 32, false}, {Blackhole, 128, true}} {
		b := NewBuilder(c.l, make([]byte, c.n))
		if (b.err == nil) != c.ok {
			t.Errorf("%v after %d bytes: %v", c.l, c.n, b.err)
		}
	}
}

func validate(l Layout, m Limits, c any) error {
	if d, ok := c.(DispatchCommand); ok {
		c = RelayInline{Master, d}
	}
	b, err := appendCommand(nil, l, c.(PrefetchCommand))
	if err != nil {
		return err
	}
	p := parser{v: own(), l: l}
	if err := p.prefetch(b); err != nil {
		return err
	}
	return p.validate(m)
}

func short(c any) string {
	s := fmt.Sprintf("%+v", c)
	return s[:min(len(s), 80)]
}
