package cq

import (
	"errors"
	"testing"
)

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
