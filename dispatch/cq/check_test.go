package cq

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
)

func build(t testing.TB, l Layout, f func(b *Builder)) []byte {
	t.Helper()
	b := NewBuilder(l, nil)
	f(&b)
	return value(b.Finish())(t)
}

type cmds = []any // commands of the prefetcher or of a dispatcher

func argGo(args bool) ForwardSubordinate {
	return ForwardSubordinate{Wait: true, Args: args, Command: SendGoSignal{WaitStream: 48}}
}

func TestCheckOrder(t *testing.T) {
	wait := Wait{Flags: WaitStream, Stream: 48, Count: 1}
	arg := ReadArg{OffsetIndex: 1, Addr: 64, Targets: []ArgTarget{{NOC: Blackhole.NOCXY(1, 2), Addr: 16}, {Addr: 20, Dests: 4}}}
	exec := ExecBuf{Base: 0x400000, LogPageSize: 12, Pages: 3}
	notify := Wait{Flags: WaitBarrier | NotifyFetch}
	head := RelayInlineNoFlush{WriteLinear{Length: 100}}
	first := Wait{Flags: WaitStream | WaitBarrier | NotifyFetch, Stream: 48, Count: 1} // of a STALL
	for _, c := range []struct {
		name     string
		commands cmds
		text     string // part of the error, empty for no error
	}{
		{"nothing", nil, "size is 0"},
		{"a replay", cmds{RelayInline{Subordinate, SendGoSignal{}}, wait, exec}, ""},
		{"a stall", cmds{first, Stall{}}, ""},
		{"two stalls", cmds{first, Stall{}, wait, first, Stall{}}, ""},
		{"a stall without notification", cmds{wait, Stall{}}, "STALL at +0x40: commands out of order: it is number 1 after 0 WAITs"},
		{"a notification without stall", cmds{notify}, "1 WAITs notify the prefetcher for 0 STALLs"},
		{"two notifications for one stall", cmds{notify, first, Stall{}}, "it is number 1 after 2 WAITs"},
		{"header and data", cmds{head, RelayLinear{Length: 100}}, ""},
		{"header and padded data in the same page", cmds{head, RelayLinear{Length: 128}}, ""},
		{"header and too few data", cmds{head, RelayLinear{Length: 99}}, "it brings 99 bytes for a WRITE_LINEAR of 100"},
		{"header and a page too many", cmds{head, RelayLinear{Length: 4065}}, "it brings 4065 bytes"},
		{"header and no data", cmds{head}, "the data for its NOFLUSH never come"},
		{"header and something else", cmds{head, wait}, "RELAY_INLINE at +0x40: commands out of order: the relay with the data of the WRITE_LINEAR before it is missing"},
		{"two headers", cmds{head, head}, "is missing"},
		{"data without header", cmds{RelayLinear{Length: 100}}, "there is no NOFLUSH"},
		{"pages", cmds{
			RelayInlineNoFlush{WritePaged{PageSize: 2048, Pages: 3}},
			RelayPaged{DRAM: true, PageSize: 2048, Pages: 4, LengthAdjust: 2048},
		}, ""},
		{"binaries", cmds{
			RelayInlineNoFlush{WritePackedLarge{Alignment: 64, Subs: []LargeSub{{Length: 80, Dests: 1, Unlink: true},
				{Length: 64, Dests: 1, Unlink: true}}}},
			RelayPagedPacked{Subs: []PagedSub{{Length: 128}, {Length: 64}}},
		}, ""},
		{"cached binaries", cmds{
			PagedToRingbuffer{Reset: true, Advance: 192, LogPageSize: 11, Length: 192},
			RelayInlineNoFlush{WritePackedLarge{Alignment: 64, Subs: []LargeSub{{Length: 192, Dests: 1, Unlink: true}}}},
			RelayRingbuffer{Subs: []RingSub{{Start: 0, Length: 192}}},
		}, ""},
		{"a host record", cmds{
			RelayInlineNoFlush{WriteHost{Length: 16 + 4096}},
			RelayPaged{PageSize: 1024, Pages: 4},
		}, ""},
		{"RELAY_LINEAR_H in company", cmds{head, RelayLinearH{Length: 100}}, "alone in its fetch entry"},
		{"end of a trace in an entry", cmds{ExecBufEnd{}}, "not in a buffer"},
		{"two EXEC_BUFs", cmds{exec, exec}, "one EXEC_BUF in a fetch entry"},
		{"a field beyond its limit", cmds{wait, Wait{Flags: 0x80}}, "cq: WAIT at +0x50: flags is 128"},
		{"an argument and its program", cmds{arg, argGo(true)}, ""},
		{"arguments and their program", append(slices.Repeat(cmds{arg}, MaxReadArgs), argGo(true), argGo(false)), ""},
		{"an argument without a program", cmds{arg}, "no FORWARD_WITH_ARGS after it"},
		{"an argument and a program that takes none", cmds{arg, argGo(false)}, "1 READ_ARGs before it"},
		{"a program that takes an argument which isn't there", cmds{argGo(true)}, "0 READ_ARGs before it"},
		{"too many arguments", append(slices.Repeat(cmds{arg}, MaxReadArgs+1), argGo(true)), "33 of them with"},
		{"beyond the largest entry", cmds{
			WriteLinear{Length: 64 << 10},
			WriteLinear{Length: 64 << 10},
		}, "fetch entry: size is 131200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Check(Blackhole, DefaultLimits(118), build(t, Blackhole, func(b *Builder) {
				for _, c := range c.commands {
					b.Append(prefetched(c))
				}
			}))
			if (err == nil) != (c.text == "") || (err != nil && !strings.Contains(err.Error(), c.text)) {
				t.Errorf("got %v, want %q", err, c.text)
			}
		})
	}
}

func TestCheckerFollowsEntries(t *testing.T) {
	c := checker{Layout: Wormhole, Limits: DefaultLimits(64)}
	for i, f := range []func(b *Builder){
		func(b *Builder) {
			b.WaitStall(Wait{Flags: WaitStream})
			b.WritePagedHeader(WritePaged{PageSize: 2048, Pages: 3})
		},
		func(b *Builder) { b.RelayLinearH(RelayLinearH{Length: 3 * 2048}) },
		func(b *Builder) { b.WaitStall(Wait{Flags: WaitStream}) },
	} {
		if err := c.Entry(build(t, Wormhole, f)); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		if err := c.Idle(); (err == nil) != (i != 0) {
			t.Fatalf("after entry %d: %v", i, err)
		}
	}
}

func TestCheckTrace(t *testing.T) {
	l, m := Blackhole, DefaultLimits(118)
	body := func(b *Builder) { b.Wait(Master, Wait{Flags: WaitStream}) }
	good := build(t, l, func(b *Builder) { body(b); b.ExecBufEnd() })
	must(t, CheckTrace(l, m, good))
	expect.Fails(t, CheckTrace(l, m, append(good[:len(good):len(good)], make([]byte, 4096-len(good))...)), nil, "padded to a page")
	expect.Fails(t, CheckTrace(l, m, append(good[:len(good):len(good)], 1)), ErrPadding, "bytes after the end")
	expect.Fails(t, CheckTrace(l, m, build(t, l, body)), ErrOrder, "no end")
	expect.Fails(t, CheckTrace(l, m, build(t, l, func(b *Builder) { exampleExec(b); b.ExecBufEnd() })), ErrOrder, "nested")
	expect.Fails(t, CheckTrace(l, m, good[:len(good)-8]), ErrTruncated, "cut")
}

func TestCheckControlFlow(t *testing.T) {
	for _, l := range layouts {
		n := uint32(l.PCIeAlign())
		loop := func(exit uint32) LoopBegin { return LoopBegin{Exit: exit * n, Count: 4} }
		end := func(body uint32) LoopEnd { return LoopEnd{Body: body * n} }
		wait := Wait{Flags: WaitBarrier}
		header := RelayInlineNoFlush{WriteLinear{NOC: l.NOCXY(1, 1), Addr: 0x100, Length: 16}}
		data := RelayLinear{Length: 16, NOC: l.NOCXY(1, 1)}
		deep := func(loops int) (out cmds) {
			for i := range loops {
				out = append(out, LoopBegin{Loop: uint16(i), Exit: uint32(2*loops-i) * n, Count: 2})
			}
			for i := range loops {
				out = append(out, LoopEnd{Loop: uint16(loops - 1 - i), Body: uint32(loops-i) * n})
			}
			return out
		}
		for _, c := range []struct {
			name     string
			commands cmds
			bad      bool
		}{
			{"a loop", cmds{loop(3), wait, end(1)}, false},
			{"a loop with a condition", cmds{loop(4), Branch{Compare: Less, Else: 4 * n, Leave: true, Limited: true}, wait, LoopEnd{Body: n, Limited: true}}, false},
			{"a call", cmds{CallTrace{Base: 64, LogPageSize: 10, Pages: 1}}, false},
			{"a call of no pages", cmds{CallTrace{Base: 64, LogPageSize: 10}}, true},
			{"the deepest loops", deep(MaxLoops), false},
			{"loops that are too deep", deep(MaxLoops + 1), true},
			{"an exit into the middle", cmds{LoopBegin{Exit: 3*n + 4, Count: 4}, wait, end(1)}, true},
			{"an exit out of the trace", cmds{loop(30), wait, end(1)}, true},
			{"a body between a header and its data", cmds{loop(4), header, data, end(2)}, true},
			{"a loop without an end", cmds{loop(2), wait}, true},
			{"an end without a loop", cmds{wait, end(0)}, true},
			{"loops that cross", cmds{LoopBegin{Loop: 1, Exit: n, Count: 1}, LoopBegin{Loop: 2, Exit: n, Count: 1}, LoopEnd{Loop: 1, Body: n}, LoopEnd{Loop: 2, Body: n}}, true},
			{"leaving no loop", cmds{Branch{Compare: Equal, Else: n, Leave: true}}, true},
			{"a branch back", cmds{wait, Branch{Compare: Equal, Else: 0}}, true},
			{"a branch to itself", cmds{wait, Branch{Compare: Never, Else: n}}, true},
			{"a branch out of a loop", cmds{loop(4), Branch{Compare: Less, Else: 4 * n}, wait, end(1)}, true},
			{"a branch into a loop", cmds{Branch{Compare: Less, Else: 3 * n}, loop(4), wait, end(2)}, true},
			{"an exit inside of the loop", cmds{loop(2), wait, end(1)}, true},
			{"a body outside of the loop", cmds{wait, loop(3), end(0)}, true},
			{"a limit that nothing tests", cmds{loop(3), wait, LoopEnd{Body: n, Limited: true}}, true},
			{"an iteration of a loop", cmds{loop(3), Branch{Compare: Less, Level: 1, Else: 2 * n}, end(1)}, false},
			{"an iteration of no loop", cmds{Branch{Compare: Less, Level: 1, Else: n}}, true},
			{"an iteration of a loop that isn't open", cmds{loop(3), Branch{Compare: Less, Level: 2, Else: 2 * n}, end(1)}, true},
			{"an unknown comparison", cmds{Branch{Compare: compares, Else: n}}, true},
			{"a word at an odd address", cmds{Branch{Compare: Equal, Addr: 2, Else: n}}, true},
		} {
			b := NewBuilder(l, nil)
			for _, p := range c.commands {
				b.Append(prefetched(p))
			}
			b.ExecBufEnd()
			stream, err := b.Finish()
			must(t, err)
			equal(t, CheckTrace(l, DefaultLimits(0), stream) != nil, c.bad, "%v, %s", l, c.name)
			entry, err := appendCommand(nil, l, prefetched(c.commands[0]))
			must(t, err)
			if err := Check(l, DefaultLimits(0), entry); PrefetchID(entry[0]).control() && !errors.Is(err, ErrOrder) && !c.bad {
				t.Errorf("%v, %s outside of a trace: %v, want an ErrOrder", l, c.name, err)
			}
		}
	}
}

func TestCompareHolds(t *testing.T) {
	for _, c := range []struct {
		c           Compare
		word, value uint32
		want        bool
	}{
		{Never, 0, 0, false}, {Equal, 3, 3, true}, {Equal, 3, 4, false}, {NotEqual, 3, 4, true}, {NotEqual, 3, 3, false},
		{Less, 3, 0xFFFFFFFF, true}, {Less, 3, 3, false}, {LessEqual, 3, 3, true}, {LessEqual, 4, 3, false},
		{Greater, 0xFFFFFFFF, 3, true}, {Greater, 3, 3, false}, {GreaterEqual, 3, 3, true}, {GreaterEqual, 2, 3, false},
		{AnySet, 6, 2, true}, {AnySet, 4, 2, false}, {NoneSet, 4, 2, true}, {NoneSet, 6, 2, false},
	} {
		if got := c.c.Holds(c.word, c.value); got != c.want || !c.c.Valid() {
			t.Errorf("%d %v %d is %v, want %v", c.word, c.c, c.value, got, c.want)
		}
	}
	if compares.Valid() || compares.Holds(0, 0) {
		t.Errorf("comparison %d isn't refused", compares)
	}
}

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
			expect.Fails(t, validate(l, m, c.c), c.want, "%d: %v %T %+v", i, l, c.c, short(c.c))
		}
	}
}

func TestRelayFitsTheRing(t *testing.T) {
	m := DefaultLimits(0)
	m.DispatchRing = 128 << 10
	must(t, validate(Wormhole, m, WriteLinear{Length: 64<<10 - 32}))
	expect.Fails(t, validate(Wormhole, m, WriteLinear{Length: 64<<10 - 31}), ErrLimit, "error")
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
