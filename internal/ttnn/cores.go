package ttnn

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/findings"
	"github.com/reprise-tt/reprise/sim/emu"
)

var errNoMemory = errors.New("there is no memory")

func coreFrames(c *emu.Chip, s *emu.CoreState, known *Kernels) []stack.Frame {
	read := func(addr uint32, p []byte) error {
		if !c.ReadCore(s.Tile, s.Core, addr, p) {
			return errNoMemory
		}
		return nil
	}
	return known.space(s.Core, s.PC, read).Unwind(stack.All(s.X, s.PC), read)
}

// PrintCores prints the call stack and wait of each processor that isn't in reset, grouped by equal
// state, the rarest first: most cores seldom are the cause.
func PrintCores(w io.Writer, c *emu.Chip, known *Kernels) error {
	type group struct {
		text  string
		cores []string
	}
	var groups []*group
	byText := map[string]*group{}
	states := c.Cores()
	for i := range states {
		s := &states[i]
		text := describe(c, s, known)
		g := byText[text]
		if g == nil {
			g = &group{text: text}
			byText[text] = g
			groups = append(groups, g)
		}
		g.cores = append(g.cores, tileName(c, s.Tile))
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

func describe(c *emu.Chip, s *emu.CoreState, known *Kernels) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", s.Core, s.State)
	if len(s.Registers) > 0 {
		fmt.Fprintf(&b, " on %s", strings.Join(s.Registers, ", "))
	}
	for i, at := range s.Waits {
		sep := ", "
		if i == 0 {
			sep = " on L1 at "
		}
		fmt.Fprintf(&b, "%s%#x", sep, at)
	}
	b.WriteByte('\n')
	if s.Engine != "" {
		fmt.Fprintf(&b, "    engines: %s\n", s.Engine)
	}
	frames := coreFrames(c, s, known)
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
func IsUserKernel(cache string) func(p chip.Processor, pc uint32, read func(addr uint32, b []byte) bool) bool {
	code, known := Code(cache), map[string]bool{}
	return func(p chip.Processor, pc uint32, read func(addr uint32, b []byte) bool) bool {
		var b [64]byte
		if !read(max(pc, 32)-32, b[:]) {
			return false
		}
		key := fmt.Sprintf("%v %#x %x", p, pc, b)
		is, ok := known[key]
		if !ok {
			m := code(p, pc, func(addr uint32, b []byte) error {
				if !read(addr, b) {
					return errNoMemory
				}
				return nil
			}).Find(pc)
			is = m != nil && m.Name != firmwareName && !strings.HasPrefix(m.Name, "cq_")
			known[key] = is
		}
		return is
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
		case m == nil || strings.Contains(m[1], "/site-packages/") || strings.Contains(m[1], "/lib/python3") || m[1][0] == '<':
			continue
		}
		c := findings.Call{File: m[1], Function: m[3]}
		c.Line, _ = strconv.Atoi(m[2])
		if source, err := os.ReadFile(c.File); err == nil {
			if lines := strings.Split(string(source), "\n"); c.Line > 0 && c.Line <= len(lines) {
				c.Text = strings.TrimSpace(lines[c.Line-1])
			}
		}
		out = append(out, c)
	}
	return out
}

// PrintFault prints the refusal that stopped a chip, with the call stack of the processor that
// caused it.
func PrintFault(w io.Writer, c *emu.Chip, fault error, known *Kernels) error {
	if _, err := fmt.Fprintf(w, "ERROR: %v\n", fault); err != nil {
		return err
	}
	r := (*emu.Refusal)(nil)
	if !errors.As(fault, &r) || !r.HasCore {
		return nil
	}
	states := c.Cores()
	i := slices.IndexFunc(states, func(s emu.CoreState) bool { return s.Tile == r.Tile && s.Core == r.Core })
	if i < 0 {
		return nil
	}
	states[i].PC = r.PC
	_, err := fmt.Fprintf(w, "%s: %s", tileName(c, r.Tile), describe(c, &states[i], known))
	return err
}
