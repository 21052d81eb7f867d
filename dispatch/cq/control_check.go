package cq

import "slices"

// flow checks the control flow of a trace: loops nest, and what commands go to are commands of the same trace that don't
// separate a header from its data.
type flow struct {
	starts  []uint32 // of commands, in order, but for those that bring the data of a header
	header  bool     // the next command brings them
	loops   []uint16 // that are open
	targets []flowTarget
}

type flowTarget struct {
	at   int // of the command
	name string
	to   uint32
}

// add takes the next command of a trace. header says that the next one brings its data.
func (f *flow) add(e Entry, header bool) error {
	if !f.header {
		f.starts = append(f.starts, uint32(e.Offset))
	}
	f.header = header
	var to uint32
	switch c := e.Command.(type) {
	case LoopBegin:
		if len(f.loops) == MaxLoops {
			return bad(ErrOrder, e.Offset, c.Name(), "loops nest %d deep, the prefetcher has room for %d", len(f.loops)+1, MaxLoops)
		}
		f.loops = append(f.loops, c.Loop)
		to = c.Exit
	case LoopEnd:
		if len(f.loops) == 0 || f.loops[len(f.loops)-1] != c.Loop {
			return bad(ErrOrder, e.Offset, c.Name(), "it ends loop %d, open are %d", c.Loop, f.loops)
		}
		f.loops = f.loops[:len(f.loops)-1]
		to = c.Body
	case Branch:
		if (c.Leave || c.Limited) && len(f.loops) == 0 {
			return bad(ErrOrder, e.Offset, c.Name(), "it is in no loop")
		}
		if int(c.Level) > len(f.loops) {
			return bad(ErrOrder, e.Offset, c.Name(), "it compares the iteration of loop %d from the innermost, open are %d", c.Level, len(f.loops))
		}
		to = c.Else
	default:
		return nil
	}
	f.targets = append(f.targets, flowTarget{e.Offset, e.Command.Name(), to})
	return nil
}

// check is called after the last command.
func (f *flow) check() error {
	if n := len(f.loops); n > 0 {
		return bad(ErrOrder, int(f.starts[len(f.starts)-1]), PrefetchExecBufEnd.String(), "loop %d has no LOOP_END", f.loops[n-1])
	}
	for _, t := range f.targets {
		if _, ok := slices.BinarySearch(f.starts, t.to); !ok {
			return bad(ErrOrder, t.at, t.name, "it goes to %#x, where no command of the trace begins", t.to)
		}
	}
	return nil
}
