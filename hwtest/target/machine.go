package target

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// MachineHelp is how flags describe what ParseMachine accepts.
const MachineHelp = "emu:n300, emu:t3000, emu:quietbox, emu:galaxy-wh, emu:galaxy-bh and the like (with faults of links: emu:n300,link-down=0:8), ttsim:PATH of a libttsim.so, device nodes with commas between them, or a device as elsewhere"

// Machine is a machine with cards, by name. It isn't running yet.
type Machine struct {
	Name  string // of tests and reports: emu_t3000
	Given string // as the user called it
	Kind  Kind
	Spec  *chip.Machine // what an emulator is made from; nil for the others

	open func(...sim.Option) ([]kmd.Target, func() error, error)
}

// OpenPart starts a part of an emulated machine, the others of which are in other processes.
func (m *Machine) OpenPart(p sim.Part) (cards []kmd.Target, end func() error, err error) {
	if m.Spec == nil {
		return nil, nil, &Error{Value: m.Given, Why: "only an emulated machine has parts", Hint: "name a machine such as emu:galaxy-bh",
			Err: ErrUnknown}
	}
	return m.open(sim.OfPart(p))
}

// Open starts the machine, if it has to be started, and returns its cards and a function that ends
// it.
func (m *Machine) Open() (cards []kmd.Target, end func() error, err error) { return m.open() }

// ParseMachine turns a name into a machine; an error is an *Error. Names of devices are machines
// with one card, or with each device node that is named.
func ParseMachine(name string, server ttsim.Option) (*Machine, error) {
	kind, rest, _ := strings.Cut(name, ":")
	words := strings.Split(rest, ",")
	if spec, ok := chip.MachineNamed(words[0]); kind == "emu" && ok {
		var opts []sim.Option
		for _, w := range words[1:] {
			if !strings.HasPrefix(w, "link-") {
				return nil, &Error{Value: name, Why: fmt.Sprintf("there is no option %q", w), Hint: "use faults of links such as link-down=0:8",
					Err: ErrUnknown}
			}
			opts = append(opts, sim.LinkFault(w))
		}
		m := &Machine{Name: "emu_" + strings.ReplaceAll(spec.Name, "-", "_"), Given: name, Kind: Emulator, Spec: &spec}
		m.open = func(more ...sim.Option) ([]kmd.Target, func() error, error) {
			e := sim.NewMachine(spec, append(slices.Clone(opts), more...)...)
			var l []kmd.Target
			for _, c := range e.Cards() {
				l = append(l, c)
			}
			return l, e.Close, e.Err()
		}
		return m, nil
	}
	if kind == "ttsim" && rest != "" {
		m := &Machine{Name: label(rest), Given: name, Kind: Simulator}
		m.open = func(...sim.Option) ([]kmd.Target, func() error, error) {
			s, err := ttsim.Start(rest, server)
			if err != nil {
				return nil, nil, err
			}
			cards, err := s.Cards()
			if err != nil {
				s.Close()
				return nil, nil, err
			}
			var l []kmd.Target
			for _, c := range cards {
				l = append(l, c)
			}
			return l, s.Close, nil
		}
		return m, nil
	}
	d, err := Parse(name, server)
	if err != nil {
		return nil, err
	}
	m := &Machine{Name: d.Name, Given: name, Kind: d.Kind}
	m.open = func(...sim.Option) ([]kmd.Target, func() error, error) {
		if len(d.nodes) == 0 {
			return []kmd.Target{d.Open()}, func() error { return nil }, nil
		}
		l, err := d.Linked(chip.Machine{})
		if err != nil {
			return nil, nil, err
		}
		return l.Cards, l.Close, nil
	}
	return m, nil
}
