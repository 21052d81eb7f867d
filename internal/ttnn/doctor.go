package ttnn

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"

	"github.com/reprise-tt/reprise/kmd"
)

// Diagnose checks TT-NN's requirements on an emulated machine; python and environment are as for
// Find. Each failed check names one fix.
func Diagnose(ctx context.Context, python, environment string, l *Libraries) []kmd.Check {
	var out checks
	in, err := Find(ctx, python, environment)
	var e *Error
	switch {
	case errors.Is(err, ErrNotInstalled) && errors.As(err, &e):
		out.pass("python", e.Found)
		out.fail("ttnn", "not installed", e.Fix)
	case errors.As(err, &e):
		out.fail("python", e.Error(), e.Fix)
	case err != nil:
		out.fail("python", err.Error(), "name a Python with --python")
	}
	if in == nil {
		out.add("version", kmd.StatusSkipped, "needs ttnn", "")
		out.add("compiler", kmd.StatusSkipped, "needs ttnn", "")
	} else {
		out.pass("python", in.Python+", "+in.PythonVersion)
		out.pass("ttnn", in.Dir)
		out.version(in)
		out.compiler(in)
	}
	out.library(l)
	return out
}

type checks []kmd.Check

func (l *checks) add(name string, status kmd.Status, found, fix string) {
	*l = append(*l, kmd.Check{Name: name, Status: status, Found: found, Fix: fix})
}

func (l *checks) pass(name, found string) { l.add(name, kmd.StatusOK, found, "") }

func (l *checks) fail(name, found, fix string) { l.add(name, kmd.StatusFailed, found, fix) }

func (l *checks) version(in *Installation) {
	tried := Tried()
	switch v := in.Version; {
	case slices.Contains(tried, v):
		l.pass("version", in.Text)
	case v.Less(tried[0]):
		l.fail("version", in.Text+" is older than any that was tried", in.pipNewest())
	default:
		l.add("version", kmd.StatusWarning, in.Text+" was not tried", "if it fails: "+in.pipNewest())
	}
}

func (l *checks) compiler(in *Installation) {
	path := in.Compiler()
	if path == "" {
		l.fail("compiler", "sfpi, the compiler of kernels, is neither in the wheel nor in /opt/tenstorrent/sfpi",
			"install the package sfpi of the release in "+in.Dir+"/tt_metal/sfpi-version")
		return
	}
	if out, err := exec.Command(path, "--version").CombinedOutput(); err != nil {
		l.fail("compiler", fmt.Sprintf("%s doesn't run: %v: %.100s", path, err, out), "install the package sfpi again")
		return
	}
	l.pass("compiler", path)
}

func (l *checks) library(from *Libraries) {
	path, ok, err := from.find()
	switch {
	case ok:
		l.pass("library", path)
		return
	case err != nil:
		l.fail("library", err.Error(), "check that the program's file can be read")
		return
	}
	for _, tool := range []string{"go", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			l.fail("library", "not built, and there is no "+tool+" to build it",
				"apt install "+map[string]string{"go": "golang", "gcc": "gcc"}[tool])
			return
		}
	}
	l.pass("library", "will be built by the first `reprise ttnn run`")
}
