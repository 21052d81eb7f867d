package ttnn

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/findings"
	"github.com/reprise-tt/reprise/sim/emu"
)

// View is a chip on which TT-NN runs, and what is known of its programs.
type View struct {
	Chip    *emu.Chip
	Kernels *Kernels
	// Layout is that of the wheel's launch messages, for the names of semaphores, circular buffers
	// and operations; nil if it isn't known.
	Layout *abi.Layout
}

func (v *View) memory(s *emu.CoreState) stack.Memory {
	return stack.Of(v.Chip.ReadCore, s.Tile, s.Core)
}

// PrintCores prints the call stack and wait of each processor that isn't in reset, grouped by equal
// state, the rarest first: most cores seldom are the cause. Circles of waits come last.
func (v *View) PrintCores(w io.Writer) error {
	states := v.Chip.Cores()
	if len(states) == 0 {
		_, err := fmt.Fprintln(w, "all processors are in reset")
		return err
	}
	var all, closed groups
	for i := range states {
		all.add(v.describe(&states[i]), tileName(v.Chip, states[i].Tile))
	}
	for _, path := range circles(states) {
		first := path[0].Tile
		name := func(tile chip.XY, p chip.Processor) string {
			if tile == first {
				return p.String()
			}
			return fmt.Sprintf("%v of %s", p, tileName(v.Chip, tile))
		}
		var parts []string
		for _, s := range path {
			parts = append(parts, name(s.Tile, s.Core)+" for "+name(waitsFor(s)))
		}
		closed.add("waits in a circle, "+strings.Join(parts, ", ")+"\n", tileName(v.Chip, first))
	}
	return errors.Join(all.print(w), closed.print(w))
}

// groups are cores by what is said of them.
type groups struct {
	texts []string
	cores map[string][]string
}

func (g *groups) add(text, core string) {
	if g.cores == nil {
		g.cores = map[string][]string{}
	}
	if g.cores[text] == nil {
		g.texts = append(g.texts, text)
	}
	g.cores[text] = append(g.cores[text], core)
}

func (g *groups) print(w io.Writer) error {
	slices.SortStableFunc(g.texts, func(a, b string) int { return cmp.Compare(len(g.cores[a]), len(g.cores[b])) })
	for _, text := range g.texts {
		if _, err := fmt.Fprintf(w, "%s: %s", names(g.cores[text]), text); err != nil {
			return err
		}
	}
	return nil
}

func tileName(c *emu.Chip, xy chip.XY) string {
	if at, ok := c.Topology().LogicalOf(xy); ok {
		return "core " + at.String()
	}
	return "tile " + xy.String()
}

const maxNames = 6

func names(cores []string) string {
	if len(cores) <= maxNames {
		return strings.Join(cores, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(cores[:maxNames-1], ", "), len(cores)-maxNames+1)
}

func (v *View) describe(s *emu.CoreState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", s.Core, s.State)
	if len(s.Registers) > 0 {
		fmt.Fprintf(&b, " on %s", strings.Join(s.Registers, ", "))
	}
	read := v.memory(s)
	of, known := launchOf(v.Layout, read)
	for i, at := range s.Waits {
		sep := ", "
		if i == 0 {
			sep = " on L1 at "
		}
		fmt.Fprintf(&b, "%s%#x", sep, at)
		if name := of.word(at, read); name != "" {
			fmt.Fprintf(&b, " (%s)", name)
		}
	}
	b.WriteByte('\n')
	for _, c := range s.Changers {
		what, _, _ := strings.Cut(cmp.Or(of.word(c.Addr, read), fmt.Sprintf("%#x", c.Addr)), ",")
		fmt.Fprintf(&b, "    %v of %s last changed %s\n", c.Core, tileName(v.Chip, c.Tile), what)
	}
	for i := range s.Pages {
		if known {
			fmt.Fprintf(&b, "    waits %s\n", of.pages(&s.Pages[i], read))
		}
	}
	for _, idle := range s.Idle {
		fmt.Fprintf(&b, "    NIU %d expects no answer: %d acknowledgements, %d reads and %d atomics came\n",
			idle.NIU, idle.Acks, idle.Reads, idle.Atomics)
	}
	if s.Engine != "" {
		fmt.Fprintf(&b, "    engines: %s\n", s.Engine)
	}
	frames := v.Kernels.space(s.Core, s.PC, read).Unwind(stack.All(s.X, s.PC), read)
	if len(frames) == 0 {
		fmt.Fprintf(&b, "    pc %#x, in no kernel that is known\n", s.PC)
	}
	for i, f := range frames {
		f.Args = nil
		fmt.Fprintf(&b, "    #%d %v\n", i, f)
	}
	return b.String()
}

//go:embed known.txt
var known string

// Known returns what checks are known to find in kernels of TT-NN.
func Known() ([]findings.Known, error) { return findings.ReadKnown(strings.NewReader(known)) }

// Code returns a function that finds TT-NN's kernels in a kernel cache, also those that it compiles
// meanwhile, for package findings.
func Code(cache string) func(chip.Processor, uint32, stack.Memory) stack.Space {
	known, _ := OpenKernels(context.Background(), "") // an empty one
	return func(p chip.Processor, pc uint32, read stack.Memory) stack.Space {
		space := known.space(p, pc, read)
		if space.Find(pc) != nil {
			return space
		}
		_ = known.update(context.Background(), cache) // what can be read is known
		return known.space(p, pc, read)
	}
}

// IsUserKernel returns a function that tells kernels from firmware and the command queues' kernels.
func IsUserKernel(cache string) func(p chip.Processor, pc uint32, read stack.Memory) bool {
	code, known := Code(cache), map[string]bool{}
	return func(p chip.Processor, pc uint32, read stack.Memory) bool {
		b := make([]byte, 64)
		key := fmt.Sprint(p, pc, read(pc-32, b), b)
		if _, ok := known[key]; !ok {
			m := code(p, pc, read).Find(pc)
			known[key] = m != nil && m.Name != "firmware" && !strings.HasPrefix(m.Name, "cq_")
		}
		return known[key]
	}
}

var frameLine = regexp.MustCompile(`^  File "([^"]+)", line (\d+) in (.*)$`)

// Calls reads what Python's faulthandler prints of the threads' stacks, and returns the calls of
// the first thread that is in a program: of files that are neither Python's nor those of packages.
func Calls(text string) (out []findings.Call) {
	for line := range strings.Lines(text) {
		m := frameLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		switch {
		case m == nil && len(out) > 0:
			return out // the next thread
		case m == nil || isPythons(m[1]):
			continue
		}
		at, _ := strconv.Atoi(m[2])
		out = append(out, call(m[1], at, m[3]))
	}
	return out
}

func isPythons(file string) bool {
	return strings.Contains(file, "/site-packages/") || strings.Contains(file, "/lib/python3") || file[0] == '<' ||
		filepath.Base(file) == "sitecustomize.py"
}

// call is a call at a line, with its text if the file can be read.
func call(file string, line int, function string) findings.Call {
	c := findings.Call{File: file, Line: line, Function: function}
	if source, err := os.ReadFile(file); err == nil {
		if lines := strings.Split(string(source), "\n"); line > 0 && line <= len(lines) {
			c.Text = strings.TrimSpace(lines[line-1])
		}
	}
	return c
}

// PrintFault prints the refusal that stopped the chip, with the call stack of the processor that
// caused it.
func (v *View) PrintFault(w io.Writer, fault error) error {
	if _, err := fmt.Fprintf(w, "ERROR: %v\n", fault); err != nil {
		return err
	}
	r := (*emu.Refusal)(nil)
	if !errors.As(fault, &r) || !r.HasCore {
		return nil
	}
	states := v.Chip.Cores()
	i := slices.IndexFunc(states, func(s emu.CoreState) bool { return s.Tile == r.Tile && s.Core == r.Core })
	if i < 0 {
		return nil
	}
	states[i].PC = r.PC
	_, err := fmt.Fprintf(w, "%s: %s", tileName(v.Chip, r.Tile), v.describe(&states[i]))
	return err
}
