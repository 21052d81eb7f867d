package cq

import (
	"cmp"
	"slices"
)

// flow checks the control flow of a trace. Loops nest. Targets are commands of the same loop,
// except where a loop is left, and never separate a header from its data. Only a loop's end goes
// back, so every trace ends.
type flow struct {
	starts  []flowStart
	header  bool
	loops   []openLoop
	begun   int
	targets []flowTarget
}

type flowStart struct {
	at   uint32
	loop int
}

type openLoop struct {
	id      uint16
	number  int
	body    uint32
	limited bool   // the first command is a condition that counts against the limit
	exit    uint32 // of its LOOP_BEGIN
	leave   bool
	exits   uint32
}

type flowTarget struct {
	at   int
	name string
	to   uint32
	loop int // of the loop that the target must be in
}

func (f *flow) add(e Entry, name string, header bool) error {
	if !f.header {
		f.starts = append(f.starts, flowStart{uint32(e.Offset), f.loop()})
	}
	f.header = header
	next := uint32(e.Offset + len(e.Raw))
	switch c := e.Command.(type) {
	case LoopBegin:
		if len(f.loops) == MaxLoops {
			return bad(ErrOrder, e.Offset, name, "loops nest %d deep, the prefetcher has room for %d", len(f.loops)+1, MaxLoops)
		}
		f.begun++
		f.loops = append(f.loops, openLoop{id: c.Loop, number: f.begun, body: next, exit: c.Exit})
	case LoopEnd:
		return f.end(&c, name, e.Offset, next)
	case Branch:
		if (c.Leave || c.Limited) && len(f.loops) == 0 {
			return bad(ErrOrder, e.Offset, name, "it is in no loop")
		}
		if int(c.Level) > len(f.loops) {
			return bad(ErrOrder, e.Offset, name, "it compares the iteration of loop %d from the innermost, open are %d", c.Level, len(f.loops))
		}
		if c.Else <= uint32(e.Offset) {
			return bad(ErrOrder, e.Offset, name, "it goes back to %#x, as only the end of a loop does", c.Else)
		}
		to := flowTarget{e.Offset, name, c.Else, f.loop()}
		if !c.Leave {
			if c.Limited {
				return bad(ErrOrder, e.Offset, name, "it counts against the limit of a loop that it doesn't leave")
			}
			f.targets = append(f.targets, to)
			return nil
		}
		l := &f.loops[len(f.loops)-1]
		if l.leave && l.exits != c.Else {
			return bad(ErrOrder, e.Offset, name, "it leaves loop %d to %#x, another one to %#x", l.id, c.Else, l.exits)
		}
		l.leave, l.exits = true, c.Else
		l.limited = l.limited || c.Limited && uint32(e.Offset) == l.body
	}
	return nil
}

func (f *flow) loop() int {
	if n := len(f.loops); n > 0 {
		return f.loops[n-1].number
	}
	return 0
}

func (f *flow) end(c *LoopEnd, name string, at int, next uint32) error {
	n := len(f.loops)
	if n == 0 || f.loops[n-1].id != c.Loop {
		return bad(ErrOrder, at, name, "it ends loop %d, which isn't the innermost of %d that are open", c.Loop, n)
	}
	l := f.loops[n-1]
	f.loops = f.loops[:n-1]
	switch {
	case c.Body != l.body:
		return bad(ErrOrder, at, name, "it goes back to %#x, the body of loop %d begins at %#x", c.Body, c.Loop, l.body)
	case l.exit != next || l.leave && l.exits != next:
		return bad(ErrOrder, at, name, "loop %d is left to %#x or %#x, what follows it is at %#x", c.Loop, l.exit, l.exits, next)
	case c.Limited && !l.limited:
		return bad(ErrOrder, at, name, "loop %d never ends: it is limited, and its body doesn't begin with a limited BRANCH that leaves it",
			c.Loop)
	}
	f.targets = append(f.targets, flowTarget{at, name, c.Body, l.number}, flowTarget{at, name, next, f.loop()})
	return nil
}

func (f *flow) check() error {
	if n := len(f.loops); n > 0 {
		return bad(ErrOrder, int(f.starts[len(f.starts)-1].at), PrefetchExecBufEnd.String(), "loop %d has no LOOP_END", f.loops[n-1].id)
	}
	for _, t := range f.targets {
		i, ok := slices.BinarySearchFunc(f.starts, t.to, func(s flowStart, to uint32) int { return cmp.Compare(s.at, to) })
		if !ok {
			return bad(ErrOrder, t.at, t.name, "it goes to %#x, where no command of the trace begins", t.to)
		}
		if f.starts[i].loop != t.loop {
			return bad(ErrOrder, t.at, t.name, "it goes to %#x, which is in another loop", t.to)
		}
	}
	return nil
}
