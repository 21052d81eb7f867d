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
		name string
		c    any // a command of the prefetcher or of a dispatcher
		want error
	}{
		{"1020 cores", WritePacked{Size: 4, Cores: make([]uint32, 1020)}, nil},
		{"1021 cores", WritePacked{Size: 4, Cores: make([]uint32, 1021)}, ErrLimit},
		{"510 rectangles", WritePacked{Size: 4, Rects: fill(rects(510))}, nil},
		{"511 rectangles", WritePacked{Size: 4, Rects: fill(rects(511))}, ErrLimit},
		{"neither cores nor rectangles", WritePacked{Size: 4}, ErrFormat},
		{"cores and rectangles", WritePacked{Size: 4, Cores: make([]uint32, 1), Rects: rects(1)}, ErrFormat},
		{"packed size 0", WritePacked{Cores: make([]uint32, 1)}, ErrLimit},
		{"packed type 15", WritePacked{Type: 15, Size: 4, Cores: make([]uint32, 1)}, nil},
		{"packed type 16", WritePacked{Type: 16, Size: 4, Cores: make([]uint32, 1)}, ErrLimit},
		{"packed data without slots' padding", WritePacked{Size: 8, Cores: make([]uint32, 2), Data: make([]byte, 16)}, ErrFormat},
		{"packed data with it", WritePacked{Size: 8, Cores: make([]uint32, 2), Data: make([]byte, 32)}, nil},
		{"packed data, one slot", WritePacked{NoStride: true, Size: 8, Cores: make([]uint32, 2), Data: make([]byte, 16)}, nil},
		{"35 runs", WritePackedLarge{Alignment: 16, Subs: subs(35, 16)}, nil},
		{"36 runs", WritePackedLarge{Alignment: 16, Subs: subs(36, 16)}, ErrLimit},
		{"no runs", WritePackedLarge{Alignment: 16}, ErrLimit},
		{"run of 65536", WritePackedLarge{Alignment: 16, Subs: subs(1, 65536)}, nil},
		{"run of 65537", WritePackedLarge{Alignment: 16, Subs: subs(1, 65537)}, ErrLimit},
		{"run of 0", WritePackedLarge{Alignment: 16, Subs: subs(1, 0)}, ErrLimit},
		{"alignment 0", WritePackedLarge{Subs: subs(1, 16)}, ErrLimit},
		{"alignment 24", WritePackedLarge{Alignment: 24, Subs: subs(1, 16)}, ErrLimit},
		{"blocks without padding", WritePackedLarge{Alignment: 64, Subs: subs(2, 16), Data: make([]byte, 32)}, ErrFormat},
		{"data after a NOFLUSH", RelayInlineNoFlush{WriteLinear{Data: make([]byte, 4)}}, ErrFormat},
		{"host record below its header", WriteHost{Length: 15}, ErrLimit},
		{"host record of its header", WriteHost{Length: 16}, nil},
		{"pages of 4 GiB", RelayInlineNoFlush{WritePaged{PageSize: 1 << 16, Pages: 1 << 16}}, ErrLimit},
		{"pages of 4 GiB less a bit", RelayInlineNoFlush{WritePaged{PageSize: 1 << 16, Pages: 1<<16 - 1}}, nil},
		{"pages and other data", WritePaged{PageSize: 16, Pages: 2, Data: make([]byte, 31)}, ErrFormat},
		{"linear write of 2 GiB", WriteLinear{Length: 1 << 31}, ErrLimit},
		{"linear write of 2^64-1", WriteLinear{Length: 1<<64 - 1}, ErrLimit},
		{"its header alone", RelayInlineNoFlush{WriteLinear{Length: 1<<64 - 1}}, nil},
		{"4 write offsets", SetWriteOffset{Count: 4}, nil},
		{"5 write offsets", SetWriteOffset{Count: 5}, ErrLimit},
		{"length adjust 0x7fff", RelayPaged{LengthAdjust: 0x7FFF}, nil},
		{"length adjust 0x8000", RelayPaged{LengthAdjust: 0x8000}, ErrLimit},
		{"35 buffers", RelayPagedPacked{Subs: make([]PagedSub, 35)}, nil},
		{"36 buffers", RelayPagedPacked{Subs: make([]PagedSub, 36)}, ErrLimit},
		{"buffers of 4 GiB together", RelayPagedPacked{Subs: []PagedSub{{Length: 1 << 31}, {Length: 1 << 31}}}, ErrLimit},
		{"52 ranges", RelayRingbuffer{Subs: make([]RingSub, 52)}, nil},
		{"53 ranges", RelayRingbuffer{Subs: make([]RingSub, 53)}, ErrLimit},
		{"third dispatcher", RelayInline{2, Wait{}}, ErrLimit},
		{"third dispatcher for the table", RelayInline{2, SetGoSignalNOCData{}}, ErrLimit},
		{"no command", nil, ErrFormat},
		{"relay of no command", RelayInline{}, ErrFormat},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBuilder(Blackhole, make([]byte, 64))
			b.Append(prefetched(c.c))
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
	type row struct {
		c    any
		want error
	}
	for l, rows := range map[Layout][]row{
		Wormhole: {
			{WriteLinear{OffsetIndex: 3}, nil},
			{WriteLinear{OffsetIndex: 4}, ErrLimit},
			{RelayLinearH{Length: 128<<10 - 32}, nil},
			{RelayLinearH{Length: 128<<10 - 31}, ErrLimit},
			{RelayPaged{DRAM: true, PageSize: 32, Pages: 3}, nil},
			{RelayPagedPacked{[]PagedSub{{Length: 32}}}, nil},
			{ExecBuf{LogPageSize: 5, Pages: 1}, nil},
		},
		Blackhole: {
			{inline(WriteLinear{Data: make([]byte, 128<<10-48)}), nil},
			{inline(WriteLinear{Data: make([]byte, 128<<10-47)}), ErrLimit},
			{WritePacked{Size: 4, Cores: cores(118)}, nil},
			{WritePacked{Size: 4, Cores: cores(119)}, ErrLimit},
			{WritePacked{Size: 4, Rects: dests(59)}, nil},
			{WritePacked{Size: 4, Rects: dests(60)}, ErrLimit},
			{WritePacked{Size: 4, Rects: rects(1)}, ErrLimit},
			{WritePacked{Size: 4096, Cores: cores(1)}, nil},
			{WritePacked{Size: 4097, Cores: cores(1)}, ErrLimit},
			{WritePacked{Size: 4, Cores: cores(1), OffsetIndex: 4}, ErrLimit},
			{large(LargeSub{Length: 16, Dests: 1, Unlink: true}), nil},
			{large(LargeSub{Length: 16, Dests: 1}), ErrFormat},
			{large(LargeSub{Length: 16, Unlink: true}), ErrLimit},
			{large(LargeSub{Length: 20, Dests: 1, Unlink: true}), ErrLimit},
			{large(LargeSub{NOC: 1, Length: 16, Dests: 1}, LargeSub{NOC: 1, Length: 16, Dests: 1, Unlink: true}), nil},
			{large(LargeSub{NOC: 1, Length: 16, Dests: 1}, LargeSub{NOC: 2, Length: 16, Dests: 1, Unlink: true}), ErrFormat},
			{large(LargeSub{NOC: 1, Length: 16, Dests: 1, Unlink: true}, LargeSub{NOC: 2, Length: 16, Dests: 1, Unlink: true}), nil},
			{sub(SendGoSignal{}), nil},
			{sub(WritePacked{Size: 4, Cores: cores(1)}), ErrFormat},
			{sub(SetGoSignalNOCData{Words: cores(60)}), nil},
			{sub(SetGoSignalNOCData{Words: cores(61)}), ErrLimit},
			{inline(SetGoSignalNOCData{Words: cores(64)}), nil},
			{inline(SetGoSignalNOCData{Words: cores(65)}), ErrLimit},
			{RelayInline{2, Wait{}}, ErrLimit},
			{RelayInline{}, ErrFormat},
			{RelayInlineNoFlush{}, ErrFormat},
			{RelayInlineNoFlush{WritePacked{Size: 4064, Cores: cores(1), Data: make([]byte, 4064)}}, nil},
			{RelayInlineNoFlush{WritePacked{Size: 4080, Cores: cores(1)}}, nil}, // its data come after it
			{RelayInlineNoFlush{WritePacked{Size: 4080, Cores: cores(1), Data: make([]byte, 4080)}}, ErrLimit},
			{Wait{Flags: 0x1F}, nil},
			{Wait{Flags: 0x20}, ErrLimit},
			{Wait{Flags: WaitMemory, Addr: 2}, ErrLimit},
			{SendGoSignal{Multicast: 7}, nil},
			{SendGoSignal{Multicast: 8}, ErrLimit},
			{SendGoSignal{Multicast: NoMulticast, NOCStart: 60, NumUnicast: 4}, nil},
			{SendGoSignal{Multicast: NoMulticast, NOCStart: 60, NumUnicast: 5}, ErrLimit},
			{NotifySubordinate{Mask: 0xFF}, nil},
			{NotifySubordinate{Mask: 0x100}, ErrLimit},
			{SetNumWorkerSems{Num: 8}, nil},
			{SetNumWorkerSems{Num: 9}, ErrLimit},
			{SetWriteOffset{Count: 5}, ErrLimit},
			{WritePaged{PageSize: 0, Pages: 4}, ErrLimit},
			{WriteHost{Length: 15}, ErrLimit},
			{RelayLinear{}, ErrLimit},
			{RelayLinearH{Length: 128<<10 - 64}, nil},
			{RelayLinearH{Length: 128<<10 - 63}, ErrLimit},
			{RelayPaged{DRAM: true, PageSize: 2048, Pages: 3, LengthAdjust: 2047}, nil},
			{RelayPaged{DRAM: true, PageSize: 32, Pages: 3}, ErrLimit},
			{RelayPaged{PageSize: 16, Pages: 3}, nil},
			{RelayPaged{PageSize: 16, Pages: 3, LengthAdjust: 48}, ErrLimit},
			{RelayPaged{PageSize: 16}, ErrLimit},
			{RelayPagedPacked{[]PagedSub{{Length: 64 << 10}}}, nil},
			{RelayPagedPacked{[]PagedSub{{Length: 64<<10 + 64}}}, ErrLimit},
			{RelayPagedPacked{[]PagedSub{{Length: 32}}}, ErrLimit},
			{RelayPagedPacked{[]PagedSub{{Length: 64, LogPageSize: 32}}}, ErrLimit},
			{RelayPagedPacked{}, ErrLimit},
			{ExecBuf{LogPageSize: 12, Pages: 1}, nil},
			{ExecBuf{LogPageSize: 12}, ErrLimit},
			{ExecBuf{LogPageSize: 5, Pages: 1}, ErrLimit},
			{ExecBuf{LogPageSize: 4096, Pages: 1}, ErrLimit},
			{PagedToRingbuffer{Length: 1 << 20, Advance: 1 << 20}, nil},
			{PagedToRingbuffer{Length: 1<<20 + 64}, ErrLimit},
			{PagedToRingbuffer{Length: 64, Advance: 1<<20 + 1}, ErrLimit},
			{PagedToRingbuffer{Length: 32}, ErrLimit},
			{PagedToRingbuffer{}, ErrLimit},
			{SetRingbufferOffset{Offset: 1 << 20}, nil},
			{SetRingbufferOffset{Offset: 1<<20 + 1}, ErrLimit},
			{RelayRingbuffer{[]RingSub{{1<<20 - 64, 64}}}, nil},
			{RelayRingbuffer{[]RingSub{{1<<20 - 64, 65}}}, ErrLimit},
			{RelayRingbuffer{[]RingSub{{1<<32 - 1, 1<<32 - 1}}}, ErrLimit},
			{RelayRingbuffer{}, ErrLimit},
			{Opaque{make([]byte, 16)}, ErrIllegal},
		},
	} {
		for i, c := range rows {
			if err := validate(l, m, c.c); !errors.Is(err, c.want) {
				t.Errorf("%d: %v %T %+v: got %v, want %v", i, l, c.c, short(c.c), err, c.want)
			}
		}
	}
}

func TestRelayFitsTheRing(t *testing.T) {
	m := DefaultLimits(0)
	m.DispatchRing = 128 << 10
	must(t, validate(Wormhole, m, WriteLinear{Length: 64<<10 - 32}))
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
		equal(t, b.err == nil, c.ok, "%v after %d bytes: %v", c.l, c.n, b.err)
	}
}

func validate(l Layout, m Limits, c any) error {
	b, err := appendCommand(nil, l, prefetched(c))
	if err != nil {
		return err
	}
	p := parser{v: own(), l: l}
	if err := p.prefetch(b); err != nil {
		return err
	}
	return p.validate(m)
}

func prefetched(c any) PrefetchCommand {
	if d, ok := c.(DispatchCommand); ok {
		return RelayInline{Master, d}
	}
	p, _ := c.(PrefetchCommand)
	return p
}

func short(c any) string {
	s := fmt.Sprintf("%+v", c)
	return s[:min(len(s), 80)]
}
