// Package target turns a device's name into one to open: emu:blackhole, emu:wormhole, a machine
// such as emu:t3000, ttsim:PATH, socket:PATH, session:FILE, far:MACHINE or a device node.
package target

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/serve/cards"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// Help lists what Parse accepts.
const Help = "emu:blackhole, emu:wormhole (with options such as emu:blackhole,strict=1), emu:t3000 or another machine (for what needs several chips, and one of its chips for the rest), ttsim:PATH of the vendor's libttsim.so, socket:PATH where reprise sim serves a card, session:FILE of a recorded session, far:MACHINE for a chip without a PCI interface (far:emu:n300), or a device node such as /dev/tenstorrent/0"

// ErrUnknown is returned for a name that [Parse] doesn't know.
var ErrUnknown = errors.New("unknown kind of device")

// Kind is the kind of a device.
type Kind uint8

const (
	Emulator  Kind = iota // of package sim; each opening is a card of its own
	Simulator             // the vendor's, or a card of another process: slow, may be thrown away
	Silicon               // a card with a device node
	Recording             // a recorded session
)

// Device is a device by name, not yet open.
type Device struct {
	Name  string // of tests and reports: emu_blackhole, ttsim_wormhole, dev_tenstorrent_0
	Given string // as the user called it
	Kind  Kind
	Arch  chip.Arch // of an emulator and of a remote chip, else 0 until it is open

	Strict bool

	open    func() kmd.Target
	opts    []sim.Option  // of an emulator
	machine *chip.Machine // whose chips an emulator's are
	links   []sim.Option  // of the machine: faults of links

	nodes []string // device nodes, the first of which is the device

	library string // of the vendor's simulator
	server  ttsim.Option
}

// One reports whether all openings are of one card; otherwise each has its own.
func (d *Device) One() bool { return d.Kind == Silicon || strings.HasPrefix(d.Given, "socket:") }

// Several reports whether more device nodes were named.
func (d *Device) Several() bool { return len(d.nodes) > 1 }

// socket returns what opens a served card, with a target for each opening.
func socket(path string) func() kmd.Target { return func() kmd.Target { return cards.Socket(path) } }

// Error is returned for a wrong name of a device, or another wrong value of a program's flag.
type Error struct {
	Flag  string // or empty
	Value string
	Why   string
	Hint  string // what to give instead
	Err   error  // such as ErrUnknown or chip.ErrUnknownArch
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s %q: %s", cmp.Or(e.Flag, "target: device"), e.Value, e.Why)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Wrong says what to do about a flag's value.
func Wrong(flag string, value any, why, hint string) *Error {
	return &Error{Flag: flag, Value: fmt.Sprint(value), Why: why, Hint: hint}
}

func unknown(name, why, hint string) error { return Wrong("", name, why, hint).By(ErrUnknown) }

// By adds the cause.
func (e *Error) By(err error) *Error {
	e.Err = err
	return e
}

func (e *Error) Unwrap() error { return e.Err }

// Parse turns a name into a device; an error is an *Error. The server starts the vendor's
// simulator.
func Parse(name string, server ttsim.Option) (*Device, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case strings.HasPrefix(name, "/"), strings.HasPrefix(name, "."):
		return parseNodes(name)
	case kind == "emu":
		return parseEmulator(name, rest)
	case kind == "ttsim" && rest != "":
		return &Device{Name: label(rest), Given: name, Kind: Simulator, library: rest, server: server,
			open: func() kmd.Target { return ttsim.Library(rest, server) }}, nil
	case kind == "socket" && rest != "":
		return &Device{Name: "socket_" + filepath.Base(rest), Given: name, Kind: Simulator, open: socket(rest)}, nil
	case kind == "far" && rest != "":
		return parseFar(name, rest, server)
	case kind == "session" && rest != "":
		return parseSession(name, rest)
	}
	return nil, unknown(name, ErrUnknown.Error(), "use "+Help)
}

// parseNodes makes a device of a node; more of them are its machine.
func parseNodes(name string) (*Device, error) {
	nodes := strings.Split(name, ",")
	for i, n := range nodes {
		if n == "" || slices.Contains(nodes[:i], n) {
			return nil, unknown(name, fmt.Sprintf("node %q is empty or there twice", n), "give each device node once, with commas between them")
		}
	}
	label := strings.Trim(strings.NewReplacer("/", "_", ",", "").Replace(name), "_")
	return &Device{Name: label, Given: name, Kind: Silicon, nodes: nodes, open: func() kmd.Target { return kmd.Path(nodes[0]) }}, nil
}

func label(path string) string {
	for _, part := range strings.Split(filepath.ToSlash(path), "/") {
		switch {
		case strings.HasSuffix(part, "_wh"):
			return "ttsim_wormhole"
		case strings.HasSuffix(part, "_bh"):
			return "ttsim_blackhole"
		}
	}
	return "ttsim"
}

// Slow reports whether the device is at least a hundred times slower.
func (d *Device) Slow() bool { return d.Kind == Simulator || d.Strict }

// Open returns the device as a target to open.
func (d *Device) Open() kmd.Target { return d.open() }

// parseSession reads the file of session:FILE, which each opening plays from its start.
func parseSession(name, path string) (*Device, error) {
	wrong := &Error{Value: name, Hint: "reprise demo --record FILE makes one"}
	f, err := os.Open(path)
	if err != nil {
		wrong.Why, wrong.Err = "the recording can't be read: "+errors.Unwrap(err).Error(), err
		return nil, wrong
	}
	s, err := session.Read(f)
	if err = errors.Join(err, f.Close()); err != nil {
		wrong.Why, wrong.Err = err.Error(), err
		return nil, wrong
	}
	return &Device{Name: "session_" + filepath.Base(path), Given: name, Kind: Recording, open: func() kmd.Target { return s.Player() }}, nil
}
