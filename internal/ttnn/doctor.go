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
	var out []kmd.Check
	add := func(name string, status kmd.Status, found, fix string) {
		out = append(out, kmd.Check{Name: name, Status: status, Found: found, Fix: fix})
	}
	in, err := Find(ctx, python, environment)
	var e *Error
	switch {
	case errors.Is(err, ErrNotInstalled) && errors.As(err, &e):
		add("python", kmd.StatusOK, e.Found, "")
		add("ttnn", kmd.StatusFailed, "not installed", e.Fix)
	case errors.As(err, &e):
		add("python", kmd.StatusFailed, e.Error(), e.Fix)
	case err != nil:
		add("python", kmd.StatusFailed, err.Error(), "name a Python with --python")
	}
	if in == nil {
		for _, name := range []string{"version", "compiler"} {
			add(name, kmd.StatusSkipped, "needs ttnn", "")
		}
	} else {
		add("python", kmd.StatusOK, in.Python+", "+in.PythonVersion, "")
		add("ttnn", kmd.StatusOK, in.Dir, "")
		checkVersion(in, add)
		checkCompiler(in, add)
	}
	checkLibrary(l, add)
	return out
}

type addCheck func(name string, status kmd.Status, found, fix string)

func checkVersion(in *Installation, add addCheck) {
	tried := Tried()
	switch v := in.Version; {
	case slices.Contains(tried, v):
		add("version", kmd.StatusOK, in.Text, "")
	case v.Less(tried[0]):
		add("version", kmd.StatusFailed, in.Text+" is older than any that was tried", in.pipNewest())
	default:
		add("version", kmd.StatusWarning, in.Text+" was not tried", "if it fails: "+in.pipNewest())
	}
}

func checkCompiler(in *Installation, add addCheck) {
	path := in.Compiler()
	if path == "" {
		add("compiler", kmd.StatusFailed, "sfpi, the compiler of kernels, is neither in the wheel nor in /opt/tenstorrent/sfpi",
			"install the package sfpi of the release in "+in.Dir+"/tt_metal/sfpi-version")
		return
	}
	if out, err := exec.Command(path, "--version").CombinedOutput(); err != nil {
		add("compiler", kmd.StatusFailed, fmt.Sprintf("%s doesn't run: %v: %.100s", path, err, out), "install the package sfpi again")
		return
	}
	add("compiler", kmd.StatusOK, path, "")
}

func checkLibrary(l *Libraries, add addCheck) {
	path, ok, err := l.find()
	switch {
	case ok:
		add("library", kmd.StatusOK, path, "")
		return
	case err != nil:
		add("library", kmd.StatusFailed, err.Error(), "check that the program's file can be read")
		return
	}
	for _, tool := range []string{"go", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			add("library", kmd.StatusFailed, "not built, and there is no "+tool+" to build it",
				"apt install "+map[string]string{"go": "golang", "gcc": "gcc"}[tool])
			return
		}
	}
	add("library", kmd.StatusOK, "will be built by the first `reprise ttnn run`", "")
}
