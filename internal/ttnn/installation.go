package ttnn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// Errors that a caller can act on, wrapped in an *Error with the fix.
var (
	// ErrNoPython means that no Python interpreter runs.
	ErrNoPython = errors.New("no Python")
	// ErrNotInstalled means that the Python interpreter lacks the package ttnn.
	ErrNotInstalled = errors.New("ttnn is not installed")
	// ErrNoLibrary means that the simulator library is missing and can't be built.
	ErrNoLibrary = errors.New("no simulator library")
	// ErrUnusable means that files of an installation or the cache are missing or unwritable.
	ErrUnusable = errors.New("unusable installation")
)

// Error says what is missing and how to get it.
type Error struct {
	Kind  error
	Found string
	Fix   string
	Err   error
}

func (e *Error) Error() string {
	s := "ttnn: " + e.Kind.Error()
	if e.Found != "" {
		s += ": " + e.Found
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + ": " + e.Fix
}

func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// Version is the version of a ttnn wheel.
type Version struct{ Major, Minor, Patch int }

// String returns "0.77.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

func (v Version) Less(w Version) bool {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch)) < 0
}

// ParseVersion reads the leading numbers of a version such as "0.77.0rc3". Missing numbers are 0.
func ParseVersion(s string) (v Version, err error) {
	for i, part := range strings.SplitN(s, ".", 4) {
		digits := len(part) - len(strings.TrimLeft(part, "0123456789"))
		n, err := strconv.Atoi(part[:digits])
		if i < 2 && err != nil {
			return Version{}, fmt.Errorf("ttnn: version %q: want numbers such as 0.77.0", s)
		}
		if i < 3 {
			*[]*int{&v.Major, &v.Minor, &v.Patch}[i] = n
		}
	}
	return v, nil
}

// An Installation is a Python interpreter that has TT-NN.
type Installation struct {
	Python        string
	PythonVersion string
	Dir           string
	Text          string // the wheel's version, such as "0.77.0"
	Version       Version
}

// Importing ttnn would take seconds.
const probe = `
import importlib.metadata as m, importlib.util as u, json, platform, sys
s = u.find_spec("ttnn")
d = list(s.submodule_search_locations or []) if s else []
try: v = m.version("ttnn")
except m.PackageNotFoundError: v = ""
print("reprise:" + json.dumps({"python": sys.executable, "pythonVersion": platform.python_version(), "dir": d[0] if d else "", "version": v}))
`

const probePatience = 30 * time.Second

// Find finds TT-NN of an interpreter by name or path, else of the virtual environment in the folder
// environment, else of python3 in PATH. The error is an *Error of ErrNoPython or ErrNotInstalled,
// or the context's.
func Find(ctx context.Context, python, environment string) (*Installation, error) {
	in := cmp.Or(python, "python3")
	if python == "" && environment != "" {
		in = filepath.Join(environment, "bin", "python")
	}
	noPython := func(found string, err error) error {
		return &Error{Kind: ErrNoPython, Found: found, Fix: "name a Python 3.10 or newer with --python", Err: err}
	}
	ctx, stop := context.WithTimeout(ctx, probePatience)
	defer stop()
	cmd := exec.CommandContext(ctx, in, "-c", probe)
	cmd.Stderr = new(strings.Builder)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		if context.Cause(ctx) != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, ctx.Err()
		}
		return nil, noPython(in, err)
	}
	_, text, _ := strings.Cut(string(out), "reprise:")
	var found struct{ Python, PythonVersion, Dir, Version string }
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, noPython(in+" printed "+strconv.Quote(string(out)), err)
	}
	i := &Installation{Python: cmp.Or(found.Python, in), PythonVersion: found.PythonVersion, Dir: found.Dir, Text: found.Version}
	if i.Dir == "" || i.Text == "" {
		return nil, &Error{Kind: ErrNotInstalled, Found: fmt.Sprintf("%s, Python %s", i.Python, i.PythonVersion),
			Fix: i.pip("ttnn")}
	}
	if i.Version, err = ParseVersion(i.Text); err != nil {
		return nil, &Error{Kind: ErrNotInstalled, Found: i.Dir, Fix: i.pip("--force-reinstall ttnn"), Err: err}
	}
	return i, nil
}

// Tried are the versions of the wheel that are known to run (docs/ttnn.md).
func Tried() []Version {
	return []Version{{0, 68, 0}, {0, 70, 1}, {0, 72, 0}, {0, 76, 0}, {0, 77, 0}, {0, 80, 0}, {0, 81, 1}}
}

func (i *Installation) pip(what string) string { return i.Python + " -m pip install " + what }

func (i *Installation) pipNewest() string {
	all := Tried()
	return i.pip("ttnn==" + all[len(all)-1].String())
}

var socFiles = map[chip.Arch]string{
	chip.Wormhole:  "wormhole_b0_80_arch.yaml",
	chip.Blackhole: "blackhole_140_arch.yaml",
}

func (i *Installation) socDescriptor(a chip.Arch) ([]byte, error) {
	path := filepath.Join(i.Dir, "tt_metal", "soc_descriptors", socFiles[a])
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &Error{Kind: ErrUnusable, Found: "ttnn " + i.Text + " has no description of a " + a.String(),
			Fix: i.pip("--force-reinstall ttnn"), Err: err}
	}
	return b, nil
}

// Compiler returns the path of this installation's kernel compiler, sfpi; "" if there is none.
func (i *Installation) Compiler() string {
	for _, root := range []string{filepath.Join(i.Dir, "runtime", "sfpi"), "/opt/tenstorrent/sfpi"} {
		path := filepath.Join(root, "compiler", "bin", "riscv-tt-elf-g++")
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && info.Mode()&fs.ModeType == 0 {
			return path
		}
	}
	return ""
}

// KernelCache returns TT-NN's folder of compiled kernels for an environment.
func KernelCache(getenv func(string) string) string {
	folder := os.TempDir()
	if home := getenv("HOME"); home != "" {
		folder = filepath.Join(home, ".cache")
	}
	return cmp.Or(getenv("TT_METAL_CACHE"), filepath.Join(folder, "tt-metal-cache"))
}
