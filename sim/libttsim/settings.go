package libttsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/waivers"
)

// Variable is the environment variable with the shared library's Settings, as JSON.
const Variable = "REPRISE_LIBTTSIM"

// ErrSettings.
var ErrSettings = errors.New("unusable settings of the simulator library")

// Settings describe the emulated machine.
type Settings struct {
	Machine string   `json:"machine"`          // of package chip, such as "n150" or "p300"
	Seed    uint64   `json:"seed,omitempty"`   // of the order in which processors run
	Checks  []string `json:"checks,omitempty"` // names of [Checks]
	Awake   bool     `json:"awake,omitempty"`  // as emu.Config.Awake
	// Serve is the path of a Unix socket for the first card; further cards append their number:
	// PATH.1.
	Serve string `json:"serve,omitempty"`
	// ServeUMD is a folder for the sockets of package umd, one for each chip.
	ServeUMD string `json:"serveUMD,omitempty"`
	// Described is the folder with the machine's descriptions for tt-umd.
	Described string `json:"described,omitempty"`
	// Report is the path of a Unix socket on which each connection gets a report of all cores.
	Report string `json:"report,omitempty"`
	// KernelCache is the folder of the host's compiled programs, for reports, and for checks, which
	// don't refuse what those are known to rely on.
	KernelCache string `json:"kernelCache,omitempty"`
	// Wheel is the version of ttnn, for the names of what cores wait for in reports.
	Wheel string `json:"wheel,omitempty"`
	// Findings is the path of a file for what the checks find, of package internal/findings; the
	// chip then runs inside the host's accesses. Without it the first finding stops the chip.
	Findings string `json:"findings,omitempty"`
	// Schedule is the path of a file of sim.Schedule; the chip then runs inside the host's
	// accesses. ScheduleResult is that of a file for a schedules.Result. With Stop it stands still
	// when the first access is held back, until a debugger has come.
	Schedule       string `json:"schedule,omitempty"`
	ScheduleResult string `json:"scheduleResult,omitempty"`
	Stop           bool   `json:"stop,omitempty"`
	// Perf is the path of a file for the times of programs (ttnn.PerfRecorder). The chip then runs
	// inside the host's accesses.
	Perf string `json:"perf,omitempty"`
	// Record is the path of a file for [Steps]. The chip then runs inside the host's accesses.
	Record string `json:"record,omitempty"`
}

var checks = map[string]sim.Option{
	"counters":  sim.RefuseCounters(),
	"delays":    sim.Delay(100),
	"races":     sim.RefuseRaces(),
	"stack":     sim.RefuseOverflow(),
	"stalecode": sim.RefuseStaleCode(),
	"datacache": sim.DataCache(),
	"unwritten": sim.RefuseUnwritten(),
}

// Checks returns the names of the emulator's checks, sorted.
func Checks() []string { return slices.Sorted(maps.Keys(checks)) }

// Expand returns names of checks; "all" alone stands for all of them.
func Expand(names []string) []string {
	if slices.Equal(names, []string{"all"}) {
		return Checks()
	}
	return names
}

// ParseSettings reads Settings as JSON.
func ParseSettings(text string) (Settings, error) {
	var s Settings
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("libttsim: %s=%q: %w: %w", Variable, text, ErrSettings, err)
	}
	_, _, err := s.machine()
	return s, err
}

// Spec returns the machine that the settings name.
func (s *Settings) Spec() (chip.Machine, error) {
	spec, _, err := s.machine()
	return spec, err
}

func (s *Settings) machine() (chip.Machine, []sim.Option, error) {
	spec, ok := chip.MachineNamed(s.Machine)
	if !ok {
		var names []string
		for _, m := range chip.Machines() {
			names = append(names, m.Name)
		}
		return spec, nil, fmt.Errorf("libttsim: machine %q: %w: use one of %s", s.Machine, ErrSettings, strings.Join(names, ", "))
	}
	opts := []sim.Option{sim.Seed(s.Seed)}
	if s.Record == "" && s.Perf == "" {
		opts = append(opts, sim.EasesIdle())
	}
	if s.Record == "" && s.Perf == "" && s.Findings == "" && s.Schedule == "" {
		opts = append(opts, sim.Paced())
	} else {
		opts = append(opts, sim.RunToIdle())
	}
	if s.Awake {
		opts = append(opts, sim.Awake())
	}
	for _, name := range s.Checks {
		o, ok := checks[name]
		if !ok {
			return spec, nil, fmt.Errorf("libttsim: check %q: %w: use some of %s", name, ErrSettings, strings.Join(Checks(), ", "))
		}
		opts = append(opts, o)
	}
	if s.Record != "" {
		if slices.ContainsFunc(spec.Chips, func(c chip.MachineChip) bool { return !c.PCI }) {
			return spec, nil, fmt.Errorf("libttsim: record on machine %q: %w: some of its chips have no PCI interface, and so no queues in TT-NN",
				s.Machine, ErrSettings)
		}
		opts = append(opts, sim.Track())
	}
	spec.Chips = slices.Clone(spec.Chips)
	for i := range spec.Chips {
		spec.Chips[i].Harvesting = harvesting(spec.Arch, &spec.Chips[i])
	}
	return spec, opts, nil
}

func (s *Settings) waivers() ([]emu.Waiver, error) {
	if len(s.Checks) == 0 || s.KernelCache == "" {
		return nil, nil
	}
	w, err := waivers.Metal(context.Background(), s.KernelCache)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, metal.ErrEmpty):
		return nil, nil // nothing is compiled yet
	case err != nil:
		return nil, fmt.Errorf("libttsim: kernel cache: %w: %w", ErrSettings, err)
	}
	return w, nil
}

// waiverRefresher returns a function that returns the waivers if the cache's files have changed
// since its last call.
func (s *Settings) waiverRefresher() func() []emu.Waiver {
	known := filesOf(s.KernelCache)
	return func() []emu.Waiver {
		n := filesOf(s.KernelCache)
		if n == known {
			return nil
		}
		known = n
		w, err := s.waivers()
		if err != nil {
			return nil
		}
		return w
	}
}

// filesOf sums up which compiled files a kernel cache has, as they are. Deleted and
// unreadable ones don't count.
func filesOf(cache string) uint64 {
	h := fnv.New64a()
	_ = filepath.WalkDir(cache, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".elf" {
			if info, err := d.Info(); err == nil {
				fmt.Fprintln(h, path, info.Size(), info.ModTime())
			}
		}
		return nil
	})
	return h.Sum64()
}

// UnusedPCIe masks a chip's unconnected PCIe tiles.
func UnusedPCIe(a chip.Arch, c *chip.MachineChip) uint32 {
	switch {
	case a != chip.Blackhole:
		return 0
	case c.Harvesting.SecondPCIe:
		return 1
	}
	return 2
}

// harvesting returns a simulated chip's missing tiles. TT-NN assumes only two of the Ethernet tiles
// that every Blackhole lacks (tt-umd device/tt_device/tt_sim_tt_device.cpp, get_chip_info: mask
// 0x120), except for a P100, of which it gets a description.
func harvesting(a chip.Arch, c *chip.MachineChip) chip.Harvesting {
	switch {
	case c.Kind == chip.BoardP100:
		return c.Harvesting
	case a == chip.Blackhole:
		return chip.Harvesting{Ethernet: 0x120, SecondPCIe: c.Harvesting.SecondPCIe}
	}
	return chip.Harvesting{}
}
