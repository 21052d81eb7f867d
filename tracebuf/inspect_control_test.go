package tracebuf_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

func argsFile(t testing.TB) []byte {
	t.Helper()
	return unzipped(t, controlFiles, "testdata/v4-args-blackhole.trace.gz")
}

func eachControlFile(t *testing.T, f func(t *testing.T, b []byte)) {
	for name, b := range map[string][]byte{"wormhole": controlFile(t, chip.Wormhole), "blackhole": controlFile(t, chip.Blackhole),
		"arguments": argsFile(t)} {
		t.Run(name, func(t *testing.T) { f(t, b) })
	}
}

func TestPrintControl(t *testing.T) {
	var out bytes.Buffer
	must(t, inspect(t, decode(t, argsFile(t))).Print(&out))
	want, err := os.ReadFile(filepath.Join("testdata", "v4-args-blackhole.txt"))
	must(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatsOfControlAddUp(t *testing.T) {
	eachControlFile(t, func(t *testing.T, b []byte) {
		f := decode(t, b)
		bytes, steps, runs := f.Image.Size, len(f.Image.Steps), f.Image.Runs()
		for i := range f.Image.Callees {
			im := &f.Image.Callees[i].Image
			bytes, steps, runs = bytes+im.Size, steps+len(im.Steps), runs+im.Runs()
		}
		s := inspect(t, f).Stats()
		all, kinds, commands, ran := s.ControlBytes+(1+s.Callees)*int(f.Image.Layout.PCIeAlign()), 0, 0, 0
		for _, p := range s.Programs {
			all, ran = all+p.Bytes, ran+p.Runs
		}
		for _, k := range s.Kinds {
			kinds, commands = kinds+k.Bytes, commands+k.Count
		}
		if s.Bytes != bytes || all != bytes || kinds != bytes || commands != s.Commands {
			t.Errorf("%d B in all: programs and control flow have %d B, kinds %d B, the stats say %d B; %d and %d commands", bytes, all, kinds,
				s.Bytes, commands, s.Commands)
		}
		if ran != runs || s.Control != steps-runs || s.Callees != len(f.Image.Callees) || s.Callees == 0 {
			t.Errorf("%d runs, %d steps of control flow, %d callees: the trace has %d runs of %d steps and %d callees", ran, s.Control, s.Callees,
				runs, steps, len(f.Image.Callees))
		}
	})
}

func TestDiffOfControl(t *testing.T) {
	eachControlFile(t, func(t *testing.T, b []byte) {
		f := decode(t, b)
		base := inspect(t, f)
		move := func(im *tracebuf.Image) {
			for i := range im.Programs {
				im.Programs[i].Addr += 1 << 20
			}
			for i, c := range im.Conds {
				im.SetCond(i, cq.Get32(im.Bytes, c.At+cq.AtBranchNOC)^1, cq.Get32(im.Bytes, c.At+cq.AtBranchAddr)+64)
			}
		}
		moved := decode(t, b)
		move(&moved.Image)
		for i := range moved.Image.Callees {
			moved.Image.Callees[i].Addr += 1 << 20
			move(&moved.Image.Callees[i].Image)
		}
		must(t, moved.Relocate([]tracebuf.Target{moved.Target}))
		if d := tracebuf.Diff(base, inspect(t, moved)); len(d) != 0 || bytes.Equal(moved.Image.Bytes, f.Image.Bytes) {
			t.Errorf("a trace and a copy elsewhere: %+v", d)
		}
		kinds := map[flow.Kind]int{} // the first step of each
		for i := len(f.Image.Steps) - 1; i >= 0; i-- {
			kinds[f.Image.Steps[i].Control.Kind] = i
		}
		for _, c := range []struct {
			kind flow.Kind
			off  int // of the byte that is changed, in the command
			what string
		}{
			{flow.Branch, 16, "field value: "},
			{flow.Branch, 2, "field compare: "},
			{flow.Loop, cq.AtLoopCount, "field count: "},
		} {
			other, step := decode(t, b), kinds[c.kind]
			at := other.Image.Steps[step].Offset + c.off
			other.Image.Bytes[at] = 1 + other.Image.Bytes[at]%8 // as comparisons must be
			if d := tracebuf.Diff(base, inspect(t, other)); len(d) != 1 || d[0].Step != step || d[0].Callee != "" ||
				!strings.HasPrefix(d[0].What, c.what) {
				t.Errorf("want one difference, %s in step %d: %+v", c.what, step, d)
			}
		}
		other := decode(t, b)
		callee := &other.Image.Callees[0].Image
		callee.Steps[0].Name = "other"
		if d := tracebuf.Diff(base, inspect(t, other)); len(d) != 1 || d[0].Callee != other.Image.Callees[0].Name || d[0].Step != 0 {
			t.Errorf("want one difference, in the callee: %+v", d)
		}
	})
}
