//go:build long || hours

package ttnn_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/ttnn"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

// TestLibrary loads the shared library as tt-umd does, from a memory file, and uses and misuses it.
// It needs Python, Go and a C compiler.
func TestLibrary(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to load the library")
	}
	library := filepath.Join(t.TempDir(), ttnn.LibraryName)
	if err := (&ttnn.Libraries{Source: ".."}).Build(t.Context(), library); err != nil {
		t.Skip(err)
	}
	if err := ttnn.CheckLibrary(library); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{ // what it prints before it ends with status 1; empty for a case that ends well
		"again": "", "twice": "", "threads": "", "no_exit": "",
		"misuse_early":        "libttsim_init has not been called",
		"misuse_init":         "the simulator is running already",
		"misuse_callbacks":    "it must come before libttsim_init",
		"misuse_write_config": "configuration space can't be written",
		"misuse_function":     "only bus 0 and function 0 have cards",
		"misuse_address":      "they are in no BAR",
		"misuse_tile":         "coordinate (99, 0)",
		"misuse_exit":         "libttsim_exit: misuse of the simulator interface",
	} {
		for _, machine := range []string{"n150", "p150"} {
			t.Run(name+"/"+machine, func(t *testing.T) {
				cmd := exec.Command(python, "testdata/library.py", library, name)
				cmd.Env = append(os.Environ(), libttsim.Variable+`={"machine":"`+machine+`"}`)
				out, err := cmd.CombinedOutput()
				text := string(out)
				var exit *exec.ExitError
				switch {
				case want == "" && (err != nil || text != "done\n"):
					t.Errorf("%v: %s", err, text)
				case want == "":
				case !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasPrefix(text, "ERROR: ") ||
					strings.Count(text, "\n") != 1 ||
					!strings.Contains(text, want):
					t.Errorf("%v: %q, want one line with %q", err, text, want)
				}
			})
		}
	}
}
