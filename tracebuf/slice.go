package tracebuf

import (
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// SliceConfig is what a slice must know of the device that the commands are for.
type SliceConfig struct {
	Workers    int    // completions that one program causes
	Launch     uint32 // L1 address of the first launch message
	LaunchSize uint32 // bytes of one
	Slots      int    // launch messages
	Banks      int    // DRAM banks
}

// Slice returns a trace of the steps from, from+1, ... to-1 alone: what would have been recorded if only they had been
// run. Counts of completions and launch messages count from its first step, and waits for what ran before it are over
// at once, since a replay begins when nothing runs. It has no state behind it (After), which its maker knows. Patch
// points stay as far as their words are in it.
func (im *Image) Slice(from, to int, c SliceConfig) (*Image, error) {
	if from < 0 || to > len(im.Steps) || from >= to {
		return nil, fmt.Errorf("tracebuf: slice: steps %d to %d of %d: there must be at least one", from, to, len(im.Steps))
	}
	start, end := im.Steps[from].Offset, im.Steps[to-1].Offset+im.Steps[to-1].Size
	rec := NewRecording(im.Layout)
	for _, s := range im.Steps[from:to] {
		rec.Add(s.Name, s.Program, func(dst []byte) []byte { return append(dst, im.Bytes[s.Offset:s.Offset+s.Size]...) })
	}
	out, err := rec.Finish(c.Banks)
	if err != nil {
		return nil, err
	}
	out.rebase(from, c)
	out.Programs, out.Buffers, out.L1End = im.Programs, im.Buffers, im.L1End
	for _, r := range im.Relocs {
		if r.At >= start && r.At < end {
			r.At -= start
			out.Relocs = append(out.Relocs, r)
		}
	}
	for _, p := range im.Params {
		var at []int
		for _, a := range p.At {
			if a >= start && a < end {
				at = append(at, a-start)
			}
		}
		if len(at) > 0 {
			p.At = at
			out.Params = append(out.Params, p)
		}
	}
	return out, nil
}

// rebase makes commands that were those of steps from on the first ones.
func (im *Image) rebase(from int, c SliceConfig) {
	before := uint32(from * c.Workers)
	step := 0
	for e := range cq.All(im.Layout, im.Bytes[:im.Size]) {
		relay, ok := e.Command.(cq.RelayInline)
		if !ok {
			continue
		}
		at := e.Offset + cq.AtRelayed
		switch d := relay.Command.(type) {
		case cq.Wait:
			if d.Flags&cq.WaitStream != 0 {
				cq.Put32(im.Bytes, at+cq.AtWaitCount, max(d.Count, before)-before)
			}
		case cq.WritePacked:
			if d.Type == cq.PackedLaunch {
				cq.Put32(im.Bytes, at+cq.AtPackedAddr, c.Launch+uint32(step%c.Slots)*c.LaunchSize)
			}
		case cq.SendGoSignal:
			cq.Put32(im.Bytes, at+cq.AtGoWaitCount, d.WaitCount-before)
			step++
		}
	}
}
