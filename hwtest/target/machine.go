package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/remote"
	"github.com/reprise-tt/reprise/mesh/topology"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/serve/cards"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// MachineHelp lists what ParseMachine accepts.
const MachineHelp = "emu:n300, emu:t3000, emu:quietbox, emu:galaxy-wh, emu:galaxy-bh and the like (with faults of links: emu:n300,link-down=0:8), ttsim:PATH of a libttsim.so, device nodes with commas between them, or a device as elsewhere"

func targets[C kmd.Target](cards []C) []kmd.Target {
	var all []kmd.Target
	for _, c := range cards {
		all = append(all, c)
	}
	return all
}

// emulatedMachine is what opens a machine of package sim.
func emulatedMachine(spec chip.Machine, opts []sim.Option) func(...sim.Option) (*Linked, error) {
	return func(more ...sim.Option) (*Linked, error) {
		e := sim.NewMachine(spec, slices.Concat(opts, more)...)
		return &Linked{Cards: targets(e.Cards()), Emulated: e, close: e.Close}, e.Err()
	}
}

func endsNothing() error { return nil }

// Machine is a machine with cards, by name.
type Machine struct {
	Name  string // of tests and reports: emu_t3000
	Given string // as the user called it
	Kind  Kind
	Spec  *chip.Machine // of an emulator

	strict bool
	open   func(...sim.Option) (*Linked, error)
}

// OpenPart starts a part of an emulated machine whose others are in other processes.
func (m *Machine) OpenPart(p sim.Part) (cards []kmd.Target, end func() error, err error) {
	if m.Spec == nil {
		return nil, nil, unknown(m.Given, "only an emulated machine has parts", "name a machine such as emu:galaxy-bh")
	}
	return m.started(sim.OfPart(p))
}

// Open starts the machine, and returns its cards and what ends it.
func (m *Machine) Open() (cards []kmd.Target, end func() error, err error) { return m.started() }

func (m *Machine) started(opts ...sim.Option) (cards []kmd.Target, end func() error, err error) {
	l, err := m.open(opts...)
	if err != nil {
		return nil, nil, err
	}
	return l.Cards, l.Close, nil
}

// ParseMachine turns a name into a machine; an error is an *Error. A device is a machine of one
// card.
func ParseMachine(name string, server ttsim.Option) (*Machine, error) {
	return parseMachine(name, name, "", server)
}

// parseMachine takes names of further options, each with a comma.
func parseMachine(given, name, more string, server ttsim.Option) (*Machine, error) {
	kind, rest, _ := strings.Cut(name, ":")
	words := strings.Split(rest, ",")
	if spec, ok := chip.MachineNamed(words[0]); kind == "emu" && ok {
		m := &Machine{Name: "emu_" + strings.ReplaceAll(spec.Name, "-", "_"), Given: name, Kind: Emulator, Spec: &spec}
		var opts []sim.Option
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			o, err := sim.LinkFault(w), error(nil)
			if !strings.HasPrefix(w, "link-") {
				if o, err = numberOption(key, value); err != nil || more == "" {
					return nil, unknown(given, fmt.Sprintf("there is no option %q", w), "use "+more+"faults of links such as link-down=0:8")
				}
				m.strict = m.strict || key == "strict"
			}
			opts = append(opts, o)
		}
		m.open = emulatedMachine(spec, opts)
		return m, nil
	}
	d, err := Parse(name, server)
	if err != nil {
		return nil, err
	}
	return &Machine{Name: d.Name, Given: name, Kind: d.Kind, open: func(...sim.Option) (*Linked, error) {
		if d.library == "" && len(d.nodes) == 0 {
			return &Linked{Cards: []kmd.Target{d.Open()}, close: endsNothing}, nil
		}
		return d.Linked(chip.Machine{})
	}}, nil
}

// Linked are cards that are linked.
type Linked struct {
	Cards    []kmd.Target
	Emulated *sim.Machine // nil unless it is one of package sim
	close    func() error
}

// Close stops what runs for the machine.
func (m *Linked) Close() error { return m.close() }

// Machine returns the description that an emulator was named by, or nil.
func (d *Device) Machine() *chip.Machine { return d.machine }

// Linked returns linked cards like the device: an emulator's machine or one of a description, the
// library's cards, or the device nodes named. It is nil for others.
func (d *Device) Linked(spec chip.Machine) (*Linked, error) {
	switch {
	case d.Kind == Emulator:
		if d.machine != nil {
			spec = *d.machine
		}
		return emulatedMachine(spec, d.opts)(d.links...)
	case len(d.nodes) > 0:
		m := &Linked{close: endsNothing}
		for _, n := range d.nodes {
			m.Cards = append(m.Cards, kmd.Path(n))
		}
		return m, nil
	case d.library != "":
		s, err := ttsim.Start(d.library, d.server)
		if err != nil {
			return nil, err
		}
		cards, err := s.Cards()
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return &Linked{Cards: targets(cards), close: s.Close}, nil
	}
	return nil, nil
}

// ErrNotShared is returned when a second process can't open the device.
var ErrNotShared = errors.New("a second process can't open the same device")

// Share returns the device as one that other processes can open by its Given until end is called.
// This process serves emulated cards and those of the vendor's simulator, which needs Linux.
func (d *Device) Share() (shared *Device, end func() error, err error) {
	switch {
	case d.Kind == Emulator:
		card := emulator(d.Arch, append(slices.Clone(d.opts), sim.Resident())...)
		return serve(d, cards.Serve, card.Driver, card.Close)
	case d.library != "":
		s, err := ttsim.Start(d.library, d.server)
		if err != nil {
			return nil, nil, err
		}
		return serve(d, cards.Serve, s.Driver, s.Close)
	}
	return d, endsNothing, nil
}

func serve[D any](d *Device, serve func(context.Context, *net.UnixListener, D, int) error, driver func() (D, error),
	closeCard func() error,
) (*Device, func() error, error) {
	drv, err := driver()
	var l *net.UnixListener
	if err == nil {
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix"}); err != nil {
			err = fmt.Errorf("target: share %s: %w: %w", d.Given, ErrNotShared, err)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeCard())
	}
	at := l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, drv, 0) }()
	shared := *d
	shared.Given, shared.Kind, shared.open = "socket:"+at, Simulator, socket(at)
	shared.library, shared.server = "", nil
	return &shared, func() error {
		cancel()
		return errors.Join(<-ended, closeCard())
	}, nil
}

// parseFar makes the first chip of a machine that has no PCI interface, such as far:emu:n300.
func parseFar(name, machine string, server ttsim.Option) (*Device, error) {
	m, err := parseMachine(name, machine, "seed=N, delay=CLOCKS, strict=SEED or ", server)
	if err != nil {
		return nil, err
	}
	d := &Device{Name: "far_" + m.Name, Given: name, Kind: m.Kind, Strict: m.strict}
	if m.Spec != nil {
		d.Name = "far_" + strings.NewReplacer(":", "_", ",", "_", "=", "_").Replace(machine)
		d.Kind, d.Arch = Simulator, chip.Wormhole
	}
	d.open = func() kmd.Target { return &farTarget{name: name, start: m.Open} }
	return d, nil
}

type farTarget struct {
	name  string
	start func() ([]kmd.Target, func() error, error)

	mu    sync.Mutex
	files int
	chip  *remote.Target
	end   func() error
}

func (t *farTarget) String() string  { return t.name }
func (t *farTarget) Node() seam.Node { return (*farNode)(t) }

type farNode farTarget

func (n *farNode) String() string { return n.name }

func (n *farNode) Open(flags int) (seam.File, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.files == 0 {
		if err := n.startMachineLocked(); err != nil {
			return nil, err
		}
	}
	f, err := n.chip.Node().Open(flags)
	if err != nil {
		if n.files == 0 {
			err = errors.Join(err, n.end())
		}
		return nil, err
	}
	n.files++
	return &farFile{File: f, n: n}, nil
}

func (n *farNode) startMachineLocked() error {
	cards, end, err := n.start()
	if err != nil {
		return err
	}
	ctx := context.Background()
	var open []*kmd.Device
	var g *topology.Graph
	for _, c := range cards {
		var d *kmd.Device
		if d, err = kmd.Open(ctx, c); err != nil {
			break
		}
		defer d.Close()
		open = append(open, d)
	}
	if err == nil {
		g, err = topology.Discover(ctx, open)
	}
	if err == nil {
		n.chip, err = g.Remote(len(cards), cards)
	}
	if err != nil {
		return errors.Join(err, end())
	}
	n.end = end
	return nil
}

type farFile struct {
	seam.File
	n    *farNode
	once sync.Once
}

func (f *farFile) Uplink() *kmd.Uplink { return f.File.(interface{ Uplink() *kmd.Uplink }).Uplink() }

func (f *farFile) Close() error {
	err := f.File.Close()
	f.once.Do(func() {
		f.n.mu.Lock()
		defer f.n.mu.Unlock()
		if f.n.files--; f.n.files == 0 {
			err = errors.Join(err, f.n.end())
		}
	})
	return err
}
