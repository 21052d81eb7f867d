package ttnn

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

// The first wheel versions with features for simulated chips.
var (
	firstQueues     = Version{0, 70, 0} // have command queues, if the library helps
	firstHostMemory = Version{0, 72, 0} // by themselves
	firstDescribed  = Version{0, 76, 0} // have several chips, or a P100: they read cluster_descriptor.yaml beside the simulator
	firstRemote     = Version{0, 80, 0} // reach a chip without a PCI interface
)

const clusterFile = "cluster_descriptor.yaml"

const (
	variableSimulator = "TT_METAL_SIMULATOR"
	variableCluster   = "TT_METAL_MOCK_CLUSTER_DESC_PATH"
	variableSlow      = "TT_METAL_SLOW_DISPATCH_MODE"
	variableTelemetry = "TT_METAL_DISPATCH_TELEMETRY_DISABLE"
)

// observer is a module that Python imports before each program.
//
//go:embed observer/sitecustomize.py
var observer []byte

// Run describes a Python program's run on an emulated machine.
type Run struct {
	Installation *Installation
	Library      string
	Cache        string // for descriptions of machines; made when needed
	Settings     libttsim.Settings
	// Tensors, if not empty, is a file for the tensors that the program's variables hold when it
	// replays a trace, for package recording.
	Tensors string
	// Calls, if not empty, is a file for the calls of operations and the replays, for
	// [Run.WritePerf].
	Calls string
}

// Prepare writes the machine's description into the cache and returns environ with further
// variables for a Python process. TT-NN's variables in environ stay, except those that name the
// simulator. Cache files are named by their contents and never changed, so a killed run leaves
// nothing behind. The error is an *Error of ErrUnusable, or wraps libttsim.ErrSettings.
func (r *Run) Prepare(environ []string) ([]string, error) {
	spec, err := r.Settings.Spec()
	if err != nil {
		return nil, err
	}
	library, err := filepath.Abs(r.Library)
	if err != nil {
		return nil, err
	}
	soc, err := r.Installation.socDescriptor(spec.Arch)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"soc_descriptor.yaml": soc, "sitecustomize.py": observer}
	// Without a description TT-NN opens one chip that lacks no Tensix tile and no DRAM bank.
	described := len(spec.Chips) > 1 || spec.Chips[0].Kind == chip.BoardP100
	remote := slices.ContainsFunc(spec.Chips, func(c chip.MachineChip) bool { return !c.PCI })
	if described {
		first := firstDescribed
		if remote {
			first = firstRemote
		}
		if r.Installation.Version.Less(first) {
			return nil, &Error{Kind: ErrUnusable, Found: fmt.Sprintf("ttnn %s can't open a simulated %s: %v is the first that can",
				r.Installation.Text, spec.Name, first), Fix: r.Installation.pipNewest()}
		}
		files[clusterFile] = clusterDescriptor(&spec)
	}
	dir, err := r.folder(library, files)
	if err != nil {
		return nil, &Error{Kind: ErrUnusable, Found: "the folder that TT-NN loads the simulator from can't be made",
			Fix: "free space, or set XDG_CACHE_HOME to a folder that can be written", Err: err}
	}
	r.Settings.Wheel, r.Settings.Described = r.Installation.Version.String(), dir
	settings, err := json.Marshal(r.Settings)
	if err != nil {
		return nil, err
	}
	env := environment(environ)
	env.set(variableSimulator, filepath.Join(dir, LibraryName))
	env.set(libttsim.Variable, string(settings))
	if r.Tensors != "" {
		env.set("REPRISE_TENSORS", r.Tensors)
	}
	if r.Calls != "" {
		env.set("REPRISE_PERF", r.Calls)
	}
	if r.Settings.Findings != "" || r.Settings.Report != "" {
		env.set("REPRISE_OPERATIONS", "")
	}
	env.set("PYTHONPATH", strings.TrimSuffix(dir+string(filepath.ListSeparator)+env.get("PYTHONPATH"), string(filepath.ListSeparator)))
	env.preset("PYTHONFAULTHANDLER", "1") // Python then prints where a signal ended it
	if described {
		env.preset(variableCluster, filepath.Join(dir, clusterFile)) // without it 0.76 and 0.77 open the first board alone
	}
	if remote {
		env.preset(variableSlow, "1") // tt-umd gives a simulated chip without a PCI interface no queues
	}
	if len(r.Settings.Checks) > 0 || r.Settings.Record != "" || r.Settings.Perf != "" || r.Settings.Schedule != "" {
		env.preset(variableTelemetry, "1") // it never waits, and accepts data if a counter is the same before and after, which is a race
	}
	if r.Settings.Findings != "" || r.Settings.ServeUMD != "" {
		env.preset("TT_METAL_RISCV_DEBUG_INFO", "1") // for source lines, also those of tools
	}
	switch v := r.Installation.Version; {
	case v.Less(firstQueues):
		env.preset(variableSlow, "1")
	case v.Less(firstHostMemory):
		env.set("LD_PRELOAD", filepath.Join(dir, LibraryName)) // old_wheels.c of the library
	}
	return env, nil
}

func (r *Run) folder(library string, files map[string][]byte) (string, error) {
	names := slices.Sorted(maps.Keys(files))
	h := sha256.New()
	fmt.Fprintf(h, "%q", library)
	for _, name := range names {
		fmt.Fprintf(h, "%q%q", name, files[name])
	}
	dir := filepath.Join(r.Cache, hex.EncodeToString(h.Sum(nil)[:12]))
	if _, err := os.Stat(filepath.Join(dir, LibraryName)); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(r.Cache, 0o755); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(r.Cache, ".new")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(temp, name), files[name], 0o644); err != nil {
			return "", err
		}
	}
	if err := errors.Join(os.Symlink(library, filepath.Join(temp, LibraryName)), os.Chmod(temp, 0o755)); err != nil {
		return "", err
	}
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, there := os.Stat(filepath.Join(dir, LibraryName)); there != nil {
			return "", err
		}
	}
	return dir, nil
}

// MachineOf returns the machine with one chip of an architecture.
func MachineOf(a chip.Arch) string {
	if a == chip.Wormhole {
		return "n150"
	}
	return "p150"
}

type environment []string

func (e environment) index(name string) int {
	return slices.IndexFunc(e, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

func (e environment) get(name string) string {
	if i := e.index(name); i >= 0 {
		return e[i][len(name)+1:]
	}
	return ""
}

func (e *environment) set(name, value string) {
	if i := e.index(name); i >= 0 {
		*e = slices.Concat((*e)[:i], (*e)[i+1:])
	}
	*e = append(*e, name+"="+value)
}

func (e *environment) preset(name, value string) {
	if e.index(name) < 0 {
		e.set(name, value)
	}
}
