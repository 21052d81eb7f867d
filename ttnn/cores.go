package ttnn

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/debug/live"
	"github.com/reprise-tt/reprise/kmd"
)

// pausePatience is how long the processors of a chip may take altogether to pause.
const pausePatience = 2 * time.Second

// Stacks returns the call stacks of a chip's processors while TT-NN uses it. They pause for as long as it takes to read them.
func Stacks(ctx context.Context, dev *kmd.Device, known *Kernels) ([]live.Snapshot, error) {
	h, err := dev.Harvesting(ctx)
	if err != nil {
		return nil, err
	}
	topology, err := chip.New(dev.Arch(), h)
	if err != nil {
		return nil, err
	}
	var places []live.Place
	for at := range topology.Workers() {
		xy, err := topology.Virtual(at)
		if err != nil {
			return nil, err
		}
		for p := range chip.NumProcessors {
			places = append(places, live.Place{Core: at, XY: xy, Processor: chip.Processor(p)})
		}
	}
	all, err := live.Take(ctx, dev, places, pausePatience)
	if err != nil {
		return nil, err
	}
	l1 := uint32(topology.Params().L1Size)
	for i := range all {
		s := &all[i]
		if s.PC == 0 && s.Registers == nil {
			continue
		}
		read := func(addr uint32, b []byte) error { return dev.Read(places[i].XY, uint64(addr), b) }
		s.UnwindIn(known.Space(s.Processor, s.PC, l1, read), l1, read)
	}
	return all, nil
}

// PrintStacks prints call stacks. Processors with the same one are printed together, the rarest first: what a program waits for is seldom
// what most cores do.
func PrintStacks(w io.Writer, all []live.Snapshot) error {
	type group struct {
		text  string
		cores []string
	}
	var groups []*group
	byText := map[string]*group{}
	for _, s := range all {
		if s.Note == "in reset" {
			continue
		}
		text := describe(s)
		g := byText[text]
		if g == nil {
			g = &group{text: text}
			byText[text] = g
			groups = append(groups, g)
		}
		g.cores = append(g.cores, s.Core.String())
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(len(a.cores), len(b.cores)) })
	if len(groups) == 0 {
		_, err := fmt.Fprintln(w, "all processors are in reset")
		return err
	}
	for _, g := range groups {
		if _, err := fmt.Fprintf(w, "%s: %s", names(g.cores), g.text); err != nil {
			return err
		}
	}
	return nil
}

// maxNames is how many cores are named of a group.
const maxNames = 6

func names(cores []string) string {
	if len(cores) <= maxNames {
		return "core " + strings.Join(cores, ", ")
	}
	return fmt.Sprintf("core %s and %d more", strings.Join(cores[:maxNames-1], ", "), len(cores)-maxNames+1)
}

// describe returns a processor's call stack as text, without what differs between processors that do the same.
func describe(s live.Snapshot) string {
	var b strings.Builder
	fmt.Fprint(&b, s.Processor)
	if s.Note != "" {
		fmt.Fprintf(&b, " (%s)", s.Note)
	}
	b.WriteByte('\n')
	if len(s.Frames) == 0 {
		fmt.Fprintf(&b, "    pc %#x, in no kernel that is known\n", s.PC)
	}
	for i, f := range s.Frames {
		f.Args = nil
		fmt.Fprintf(&b, "    #%d %v\n", i, f)
	}
	return b.String()
}
