package target

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
)

// Linked is cards that are linked.
type Linked struct {
	Cards    []kmd.Target
	Emulated *sim.Machine // nil unless it is one of package sim
	close    func() error
}

// Close ends what runs for the machine.
func (m *Linked) Close() error { return m.close() }

// Linked returns cards that are linked and like the device: for an emulator a machine of a description, whose chips have
// the device's options, and for the vendor's simulator the cards of its library. It is nil for others, and for a library
// with one card.
func (d *Device) Linked(spec chip.Machine) (*Linked, error) {
	switch {
	case d.Kind == Emulator:
		e := sim.NewMachine(spec, d.opts...)
		m := &Linked{Emulated: e, close: e.Close}
		for _, c := range e.Cards() {
			m.Cards = append(m.Cards, c)
		}
		return m, e.Err()
	case d.library != "":
		s, err := ttsim.Start(d.library, d.server)
		if err != nil {
			return nil, err
		}
		cards, err := s.Cards()
		if err != nil || len(cards) < 2 {
			_ = s.Close() // an error is the reason already, or nothing was done with it
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
