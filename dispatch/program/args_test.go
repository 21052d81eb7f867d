package program

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// A core gets the unique arguments of all its processors in one write, if they are for the same
// cores and not too long; each argument is found where it lies.
func TestArgumentsOfSeveralProcessors(t *testing.T) {
	d := target(t)
	d.Stock = true
	part := chip.Range{Start: d.Grid.Start, End: chip.Core{X: d.Grid.End.X, Y: d.Grid.Start.Y}}
	for _, c := range []struct {
		name   string
		procs  []chip.Processor
		cores  []chip.Range // of each
		words  []int
		writes int
	}{
		{"all", []chip.Processor{0, 1, 2, 3, 4}, []chip.Range{d.Grid, d.Grid, d.Grid, d.Grid, d.Grid}, []int{2, 3, 4, 5, 6}, 1},
		{"a gap", []chip.Processor{0, 3}, []chip.Range{d.Grid, d.Grid}, []int{5, 1}, 1},
		{"other cores", []chip.Processor{0, 1, 2}, []chip.Range{d.Grid, part, part}, []int{2, 2, 2}, 2},
		{"long ones", []chip.Processor{0, 1, 2}, []chip.Range{d.Grid, d.Grid, d.Grid}, []int{200, 100, 4}, 2},
	} {
		p := &Program{Name: "p"}
		for i, proc := range c.procs {
			k := Kernel{Name: proc.String(), Processor: proc, Cores: []chip.Range{c.cores[i]}, Text: make([]byte, 16)}
			for core := range c.cores[i].Cores() {
				args := make([]uint32, c.words[i])
				for n := range args {
					args[n] = uint32(core.X<<24 | core.Y<<16 | i<<12 | n)
				}
				k.Args = append(k.Args, CoreArgs{Core: core, Args: args})
			}
			p.Kernels = append(p.Kernels, k)
		}
		im, err := d.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		writes := map[uint32]bool{} // by their addresses: cores may be in several
		for e, err := range cq.All(d.layout(), im.main.bytes) {
			if err != nil {
				t.Fatal(err)
			}
			if r, ok := e.Command.(cq.RelayInline); ok {
				if w, ok := r.Command.(cq.WritePacked); ok && w.Type == cq.PackedRuntimeArgs {
					writes[w.Addr] = true
				}
			}
		}
		if len(writes) != c.writes {
			t.Errorf("%s: %d writes for a core, want %d", c.name, len(writes), c.writes)
		}
		for i, proc := range c.procs {
			for core := range c.cores[i].Cores() {
				for n := range c.words[i] {
					at, err := im.UniqueArg(nil, proc.String(), n, func(x chip.Core) bool { return x == core })
					if err != nil {
						t.Fatal(err)
					}
					if got, want := cq.Get32(im.main.bytes, at[0]), uint32(core.X<<24|core.Y<<16|i<<12|n); got != want {
						t.Fatalf("%s: argument %d of %v on %v is %#x, want %#x", c.name, n, proc, core, got, want)
					}
				}
			}
		}
	}
}
