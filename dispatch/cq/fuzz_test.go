package cq

import (
	"io"
	"testing"
)

func FuzzWalk(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(uint8(Blackhole), b)
	}
	for _, c := range examples {
		b := NewBuilder(c.l, nil)
		c.build(&b)
		f.Add(uint8(c.l), b.Bytes())
	}
	for id := range 32 {
		f.Add(uint8(Wormhole), append([]byte{byte(id), 0, 1, 0, 16, 0, 0, 0, 32}, make([]byte, 23)...))
	}
	f.Fuzz(func(t *testing.T, layout uint8, b []byte) {
		l, at, clean := Layout(layout), 0, true
		for e, err := range All(l, b) {
			if e.Offset != at || len(e.Raw) == 0 {
				t.Fatalf("%d bytes at %d, the one before ends at %d", len(e.Raw), e.Offset, at)
			}
			if l.Valid() {
				strict(t, l, b[at:])
			}
			at += len(e.Raw)
			clean = clean && err == nil
		}
		if at > len(b) {
			t.Fatalf("read up to %d of %d bytes", at, len(b))
		}
		if err := Print(io.Discard, l, b); (err == nil) != clean {
			t.Fatalf("printer says %v, clean is %v", err, clean)
		}
		if err := Dump(io.Discard, l, b); (err == nil) != clean {
			t.Fatalf("dump says %v, clean is %v", err, clean)
		}
		if err := Check(l, DefaultLimits(0), b); err == nil && !clean {
			t.Fatal("checked, but it does not decode")
		}
		_ = CheckTrace(l, DefaultLimits(64), b)
	})
}

func FuzzControlFlow(f *testing.F) {
	n := uint32(Blackhole.PCIeAlign())
	for _, commands := range [][]PrefetchCommand{
		{LoopBegin{Exit: 2 * n, Count: 4}, LoopEnd{Body: n}},
		{LoopBegin{Exit: 3 * n, Count: 4}, Branch{Compare: Less, Else: 3 * n, Leave: true, Limited: true}, LoopEnd{Body: n, Limited: true}},
		{Branch{Compare: Less, Else: 2 * n}, Branch{Compare: Never, Else: 3 * n}, Branch{Compare: Equal, Same: true, Else: 3 * n}},
		{LoopBegin{Loop: 1, Exit: 6 * n, Count: 4}, LoopBegin{Exit: 4 * n, Count: 2}, Branch{Compare: Less, Level: 2, Else: 3 * n},
			LoopEnd{Body: 2 * n}, CallTrace{Base: 64, LogPageSize: 10, Pages: 1}, LoopEnd{Loop: 1, Body: n}},
	} {
		b := NewBuilder(Blackhole, nil)
		for _, c := range commands {
			b.Append(c)
		}
		b.ExecBufEnd()
		f.Add(uint8(Blackhole), b.Bytes(), uint64(0x5A5A))
	}
	f.Fuzz(func(t *testing.T, l uint8, trace []byte, conditions uint64) {
		if !Layout(l).Valid() || len(trace) > 2048 || CheckTrace(Layout(l), DefaultLimits(64), trace) != nil {
			return
		}
		runControl(t, Layout(l), trace, conditions)
	})
}

func runControl(t *testing.T, l Layout, trace []byte, conditions uint64) {
	t.Helper()
	type loop struct{ left, count uint32 }
	const most = 2 // iterations of a loop
	var loops []loop
	innermost := func() *loop {
		if len(loops) == 0 {
			t.Fatal("a command needs a loop, and none is open")
		}
		return &loops[len(loops)-1]
	}
	commands := map[uint32]Entry{}
	for e, err := range All(l, trace) {
		if err != nil {
			break // what follows the end of the trace
		}
		commands[uint32(e.Offset)] = e
	}
	at := uint32(0)
	for steps := 0; ; steps++ {
		e, ok := commands[at]
		if !ok {
			t.Fatalf("no command at %#x", at)
		}
		if steps > len(commands)<<(2*MaxLoops) {
			t.Fatal("the trace doesn't end")
		}
		at += uint32(len(e.Raw))
		switch c := e.Command.(type) {
		case ExecBufEnd:
			if len(loops) != 0 {
				t.Fatalf("%d loops are open at the end of the trace", len(loops))
			}
			return
		case LoopBegin:
			if c.Count == 0 {
				at = c.Exit
				continue
			}
			if len(loops) == MaxLoops {
				t.Fatal("the stack of loops is full")
			}
			n := min(c.Count, most)
			loops = append(loops, loop{n, n})
		case LoopEnd:
			i := innermost()
			if i.left--; i.left == 0 && !c.Limited {
				loops = loops[:len(loops)-1]
			} else {
				at = c.Body
			}
		case Branch:
			if int(c.Level) > len(loops) {
				t.Fatal("a condition compares the iteration of a loop that isn't open")
			}
			holds := conditions&1 == 1 && c.Compare != Never
			conditions = conditions>>1 | conditions<<63
			if holds {
				if c.Limited && innermost().left == 0 {
					return // the prefetcher stops there
				}
				continue
			}
			if c.Leave {
				innermost()
				loops = loops[:len(loops)-1]
			}
			at = c.Else
		}
	}
}
