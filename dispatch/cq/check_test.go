package cq

import (
	"errors"
	"slices"
	"strings"
	"testing"
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
	if err := CheckTrace(l, m, append(good[:len(good):len(good)], make([]byte, 4096-len(good))...)); err != nil {
		t.Errorf("padded to a page: %v", err)
	}
	if err := CheckTrace(l, m, append(good[:len(good):len(good)], 1)); !errors.Is(err, ErrPadding) {
		t.Errorf("bytes after the end: %v", err)
	}
	if err := CheckTrace(l, m, build(t, l, body)); !errors.Is(err, ErrOrder) {
		t.Errorf("no end: %v", err)
	}
	if err := CheckTrace(l, m, build(t, l, func(b *Builder) { exampleExec(b); b.ExecBufEnd() })); !errors.Is(err, ErrOrder) {
		t.Errorf("nested: %v", err)
	}
	if err := CheckTrace(l, m, good[:len(good)-8]); !errors.Is(err, ErrTruncated) {
		t.Errorf("cut: %v", err)
	}
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
			if err := CheckTrace(l, DefaultLimits(0), stream); (err != nil) != c.bad {
				t.Errorf("%v, %s: %v, want an error: %v", l, c.name, err, c.bad)
			}
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
