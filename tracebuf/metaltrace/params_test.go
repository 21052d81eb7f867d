package metaltrace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

func twoPrograms(t *testing.T, arch chip.Arch) (*metalStream, *metaltrace.Trace) {
	m := newMetalStream(t, arch)
	m.program()
	m.program()
	trace, err := m.read(m.bytes())
	if err == nil {
		err = trace.FindLaunches(m.layout)
	}
	devtest.Must(t, err)
	return m, trace
}

func TestArgumentsOfKernels(t *testing.T) {
	for _, arch := range arches {
		_, trace := twoPrograms(t, arch)
		for i := range trace.Steps {
			k := trace.Steps[i].Launches[0].Kernels[0]
			noDiff(t, k.Args, []uint32{0x01010101, 0x01010101, 0x01010101}, "%v, program %d: arguments", arch, i)
			noDiff(t, k.Common, []uint32{0x02020202, 0x02020202, 0, 0}, "%v, program %d: common arguments", arch, i)
		}
	}
}

func TestArgumentsBecomeParameters(t *testing.T) {
	for _, arch := range arches {
		m, trace := twoPrograms(t, arch)
		one, err := m.ch.Virtual(chip.Core{X: 1})
		devtest.Must(t, err)
		f, err := trace.File(metaltrace.FileOptions{
			Name: "named", Target: m.target(),
			Buffers: []tracebuf.Buffer{{Name: "in", Kind: tracebuf.KindDRAM, Addr: 0x01010101 &^ 0x3F, Size: 2048, PageSize: 2048, Stride: 2048}},
			Arguments: []metaltrace.Argument{
				{Name: "first", Step: 0, Processor: chip.BRISC, Index: 0},
				{Name: "both", Step: 0, Processor: chip.BRISC, Index: 1},
				{Name: "both", Step: 1, Processor: chip.BRISC, Index: 1},
				{Name: "core", Step: 1, Processor: chip.BRISC, Index: 2, Core: one},
				{Name: "common", Step: 1, Processor: chip.BRISC, Index: 1, Common: true},
			},
		})
		devtest.Must(t, err)
		if _, err := metaltrace.Write(f); err != nil {
			t.Fatal(err)
		}
		want := []tracebuf.Param{
			{Name: "first", Kind: tracebuf.Arg, Value: 0x01010101}, {Name: "both", Kind: tracebuf.Arg, Value: 0x01010101},
			{Name: "core", Kind: tracebuf.Arg, Value: 0x01010101}, {Name: "common", Kind: tracebuf.Arg, Value: 0x02020202},
		}
		if diff := cmp.Diff(want, f.Image.Params, cmpopts.IgnoreFields(tracebuf.Param{}, "At")); diff != "" {
			t.Errorf("%v: parameters (-want +got):\n%s", arch, diff)
		}
		for i, n := range []int{4, 8, 1, 1} { // common ones are in the command once
			if got := len(f.Image.Params[i].At); got != n {
				t.Errorf("%v: %q is %d words, want %d", arch, want[i].Name, got, n)
			}
		}
		second := f.Image.Steps[1].Offset
		for _, at := range f.Image.Params[0].At {
			if at >= second {
				t.Errorf("%v: a word of the first program at +%#x, the second begins at +%#x", arch, at, second)
			}
		}
	}
}

func TestArgumentsRefused(t *testing.T) {
	m, trace := twoPrograms(t, chip.Blackhole)
	for _, c := range []struct {
		why  string
		args []metaltrace.Argument
	}{
		{"the trace has 2 programs", []metaltrace.Argument{{Step: 2}}},
		{"the trace has 2 programs", []metaltrace.Argument{{Step: -1}}},
		{"counted from 0", []metaltrace.Argument{{Index: -1}}},
		{"no such kernel", []metaltrace.Argument{{Processor: chip.NCRISC}}},
		{"no such kernel", []metaltrace.Argument{{Kernel: "reader"}}},
		{"no such kernel", []metaltrace.Argument{{Core: chip.XY{X: 60, Y: 60}}}},
		{"writes no such argument", []metaltrace.Argument{{Index: 3}}},               // past the end of what is written
		{"writes no such argument", []metaltrace.Argument{{Index: 4}}},               // the first common one
		{"writes no such argument", []metaltrace.Argument{{Index: 4, Common: true}}}, // a semaphore
		{"writes no such argument", []metaltrace.Argument{{Index: 1 << 30}}},
		{"there is no buffer \"in\"", []metaltrace.Argument{{Buffer: "in"}}},
		{"buffer \"out\" is at 0x40", []metaltrace.Argument{{Buffer: "out"}}},
		{"use another name", []metaltrace.Argument{{}, {Step: 1, Common: true}}},
	} {
		for i := range c.args {
			c.args[i].Name = "n"
		}
		_, err := trace.File(metaltrace.FileOptions{Name: "refused", Target: m.target(), Arguments: c.args,
			Buffers: []tracebuf.Buffer{{Name: "out", Kind: tracebuf.KindDRAM, Addr: 0x40, Size: 2048, PageSize: 2048, Stride: 2048}}})
		var of *metaltrace.ArgumentError
		if !errors.Is(err, metaltrace.ErrArgument) || !errors.As(err, &of) || !strings.Contains(err.Error(), c.why) ||
			!strings.Contains(err.Error(), `parameter "n"`) {
			t.Errorf("%+v: %v, want %q", c.args, err, c.why)
		}
	}
}
