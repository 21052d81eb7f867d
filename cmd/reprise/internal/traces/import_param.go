package traces

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

// importParam is a value of --param: arguments that are named, in all programs that start the kernel or in one.
type importParam struct {
	value     string // of the flag
	name      string
	kernel    string // in the cache; empty if a processor is given
	processor chip.Processor
	index     int
	common    bool
	program   int     // -1 for all
	core      chip.XY // virtual coordinates; zero for all
	buffer    string
}

// parseImportParam reads a value of --param.
func parseImportParam(s string) (importParam, error) {
	bad := func(why string) (importParam, error) {
		return importParam{}, cli.Wrong("--param", s, why,
			"give name=kernel:argument, such as n=reader_unary:3, src=ncrisc:0,buffer=in or scale=trisc1:c0,program=2,core=18x20")
	}
	options := strings.Split(s, ",")
	p := importParam{value: s, program: -1}
	name, of, ok := strings.Cut(options[0], "=")
	if !ok || name == "" {
		return bad("it names no parameter")
	}
	i := strings.LastIndexByte(of, ':')
	if i <= 0 {
		return bad("it names no argument of a kernel")
	}
	p.name, p.kernel = name, of[:i]
	for q := range chip.Processor(chip.NumProcessors) {
		if strings.EqualFold(p.kernel, q.String()) {
			p.kernel, p.processor = "", q
		}
	}
	index, common := strings.CutPrefix(of[i+1:], "c")
	n, err := strconv.ParseUint(index, 10, 16)
	if err != nil {
		return bad("an argument is a number, or c and a number for a common one")
	}
	p.index, p.common = int(n), common
	for _, o := range options[1:] {
		key, value, _ := strings.Cut(o, "=")
		switch key {
		case "program":
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				return bad("a program is a number")
			}
			p.program = int(n)
		case "core":
			x, y, _ := strings.Cut(value, "x")
			cx, errX := strconv.ParseUint(x, 10, 6)
			cy, errY := strconv.ParseUint(y, 10, 6)
			if errX != nil || errY != nil || cx == 0 && cy == 0 {
				return bad("a core is two virtual coordinates such as 18x20")
			}
			p.core = chip.XY{X: uint8(cx), Y: uint8(cy)}
		case "buffer":
			if p.buffer = value; value == "" {
				return bad("the buffer has no name")
			}
		default:
			return bad("its options are program, core and buffer")
		}
	}
	return p, nil
}

// arguments returns the arguments that the parameter names in a trace whose launches have been found.
func (p *importParam) arguments(t *metaltrace.Trace) ([]metaltrace.Argument, error) {
	var out []metaltrace.Argument
	for i := range t.Steps {
		if p.program >= 0 && i != p.program {
			continue
		}
		seen := map[chip.Processor]bool{}
		for _, l := range t.Steps[i].Launches {
			if c := p.core; c != (chip.XY{}) && (c.X < l.Start.X || c.X > l.End.X || c.Y < l.Start.Y || c.Y > l.End.Y) {
				continue
			}
			for _, k := range l.Kernels {
				if p.kernel != "" && k.Name != p.kernel || p.kernel == "" && k.Processor != p.processor || seen[k.Processor] {
					continue
				}
				seen[k.Processor] = true
				out = append(out, metaltrace.Argument{Name: p.name, Step: i, Processor: k.Processor, Kernel: p.kernel, Index: p.index,
					Common: p.common, Core: p.core, Buffer: p.buffer})
			}
		}
	}
	if len(out) == 0 {
		return nil, cli.Wrong("--param", p.value, "no program starts such a kernel there", "--dry-run prints kernels and arguments")
	}
	return out, nil
}

// argumentText is arguments for people, in hexadecimal, at most 16 of them.
func argumentText(args, common []uint32) string {
	var b strings.Builder
	for i, list := range [][]uint32{args, common} {
		if len(list) == 0 {
			continue
		}
		b.WriteString([]string{" arguments", " common"}[i])
		for k, v := range list {
			if k == 16 {
				fmt.Fprintf(&b, " and %d more", len(list)-k)
				break
			}
			fmt.Fprintf(&b, " %#x", v)
		}
	}
	return b.String()
}
