package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/findings"
)

// seededFault is a change of one of TT-NN's kernels, of testdata/ttnn_seeded.txt.
type seededFault struct{ Name, Kernel, Check, Text string }

// in reports whether findings have the fault: of its check, with its text, in its kernel or, if it
// was compiled too late to be known, in an unknown one.
func (f *seededFault) in(list []findings.Finding) bool {
	text := regexp.MustCompile(f.Text)
	return slices.ContainsFunc(list, func(g findings.Finding) bool {
		frames := g.At.Frames
		if g.Other != nil {
			frames = slices.Concat(frames, g.Other.Frames)
		}
		return g.Check == f.Check && text.MatchString(g.Text) &&
			slices.ContainsFunc(frames, func(s stack.Frame) bool { return s.Module == f.Kernel || s.Module == "" })
	})
}

// Each fault in a kernel of TT-NN is found there by the check meant for it, and isn't without the
// fault.
func TestTTNNSeeded(t *testing.T) {
	r := newTTNN(t)
	const script = "testdata/ttnn_seeded.py"
	list, err := exec.Command(r.python, script, "list").Output()
	must(t, err)
	var runs []struct {
		Chips  []string
		Faults []seededFault
	}
	must(t, json.Unmarshal(list, &runs))
	for i, run := range runs {
		for _, chip := range run.Chips {
			name := fmt.Sprintf("%d/%s", i, chip)
			t.Run(name, func(t *testing.T) {
				effort.OneOf(t, name, 0, 8)
				found := func(folder ...string) ([]findings.Finding, string, string) {
					report := filepath.Join(t.TempDir(), "findings.json")
					args := []string{"--chip", chip, "--check", "all", "--timeout", "5m", "--known", "--report", report, script,
						fmt.Sprint(i)}
					out, errs, _ := r.output(append(args, folder...)...)
					list, err := findings.Read(report)
					must(t, err)
					return list, out, errs
				}
				wrong, _, errs := found(t.TempDir())
				right, out, rightErrs := found()
				if !strings.Contains(out, "sha256") || strings.Contains(out, `"error"`) {
					t.Errorf("without faults: printed %q: %s", out, rightErrs)
				}
				for _, f := range run.Faults {
					if !f.in(wrong) && (f.Check != "hang" || !strings.Contains(errs, f.Text)) {
						t.Errorf("%s isn't found: %s", f.Name, errs)
					}
					if f.in(right) {
						t.Errorf("%s is found without the fault, too: %s", f.Name, rightErrs)
					}
				}
			})
		}
	}
}
