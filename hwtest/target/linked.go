package target

import (
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// Linked are cards that are linked.
type Linked struct {
	Cards    []kmd.Target
	Emulated *sim.Machine // nil unless it is one of package sim
	close    func() error
}

// Close stops what runs for the machine.
func (m *Linked) Close() error { return m.close() }

// Machine returns the description of the machine that an emulator was named by; nil for others.
func (d *Device) Machine() *chip.Machine { return d.machine }

// Linked returns cards that are linked and like the device: for an emulator those of its machine
// or, if it was named by an architecture, of a description; the chips have the device's options.
// For the vendor's simulator they are the cards of its library, of which there may be one, with
// remote chips or without. Device nodes are what was named, likewise one or several. It is nil for
// others.
func (d *Device) Linked(spec chip.Machine) (*Linked, error) {
	switch {
	case d.Kind == Emulator:
		if d.machine != nil {
			spec = *d.machine
		}
		e := sim.NewMachine(spec, slices.Concat(d.opts, d.links)...)
		m := &Linked{Emulated: e, close: e.Close}
		for _, c := range e.Cards() {
			m.Cards = append(m.Cards, c)
		}
		return m, e.Err()
	case len(d.nodes) > 0:
		m := &Linked{close: func() error { return nil }}
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
			_ = s.Close() // the error is the reason already
			return nil, err
		}
		m := &Linked{close: s.Close}
		for _, c := range cards {
			m.Cards = append(m.Cards, c)
		}
		return m, nil
	}
	return nil, nil
}
