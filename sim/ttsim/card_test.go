package ttsim_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var _ kmd.Target = (*ttsim.Card)(nil)

func open(t *testing.T, target kmd.Target) *kmd.Device {
	t.Helper()
	d := value(kmd.Open(context.Background(), target))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func describe(t *testing.T, d *kmd.Device) *chip.Chip {
	t.Helper()
	h := value(d.Harvesting(context.Background()))(t)
	return value(chip.New(d.Arch(), h))(t)
}

func TestCardLost(t *testing.T) {
	for name, b := range boards {
		t.Run(name, func(t *testing.T) {
			card := ttsimtest.Card(t, b.variable)
			d := open(t, card)
			xy := value(describe(t, d).Virtual(chip.Core{}))(t)
			must(t, d.Write32(xy, 0x20000, 7))
			_, err := d.Read32(xy, 0xFFB13000) // the interrupt controller, which the simulator doesn't have
			var e *ttsim.Error
			if !errors.Is(err, kmd.ErrDeviceLost) || !errors.As(err, &e) || e.Category != "UnimplementedFunctionality" {
				t.Errorf("a refused access gave %v", err)
			}
			fails(t, d.Fault(), e, "fault")
			if err := d.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			d = open(t, card)
			if err := d.Fault(); err != nil {
				t.Errorf("fault %v after opening again", err)
			}
			equal(t, value(d.Read32(xy, 0x20000))(t), 0, "L1")
		})
	}
}

func TestCardReset(t *testing.T) {
	for name, b := range boards {
		t.Run(name, func(t *testing.T) {
			card := ttsimtest.Card(t, b.variable)
			d := open(t, card)
			xy := value(describe(t, d).Virtual(chip.Core{}))(t)
			must(t, d.Write32(xy, 0x20000, 7))
			if _, err := d.Read32(xy, 0xFFB13000); !errors.Is(err, kmd.ErrDeviceLost) {
				t.Fatalf("a refused access gave %v", err)
			}
			f := value(card.Node().Open(0))(t)
			for _, flags := range []uint32{kabi.ResetASIC, kabi.ResetPost} {
				r := kabi.ResetDevice{In: kabi.ResetDeviceIn{OutputSizeBytes: 8, Flags: flags}}
				if err := f.Ioctl(kabi.IoctlResetDevice, kabi.Bytes(&r)); err != nil || r.Out.Result != 0 {
					t.Fatalf("reset %d: %v, %d", flags, err, r.Out.Result)
				}
			}
			again := open(t, card)
			equal(t, value(again.Read32(xy, 0x20000))(t), 0, "L1")
			must(t, f.Close())
		})
	}
}

func TestCards(t *testing.T) {
	s := ttsimtest.Start(t, ttsimtest.BlackholeX2)
	cards := value(s.Cards())(t)
	if len(cards) != 2 {
		t.Fatalf("%d cards, want 2", len(cards))
	}
	var devices []*kmd.Device
	var memory []*kmd.HostMemory
	for i, card := range cards {
		d := open(t, card)
		m := value(d.PinHostMemory(4096))(t)
		devices, memory = append(devices, d), append(memory, m)
		must(t, d.Write32(describe(t, d).PCIe(chip.NOC0), m.NOCAddr(), uint32(0x100+i)))
	}
	must(t, s.Sync())
	for i, m := range memory {
		equal(t, binary.LittleEndian.Uint32(m.Bytes()), uint32(0x100+i), "host memory of card %d", i)
	}
	for _, d := range devices {
		must(t, d.Close())
	}
	if again, err := s.Cards(); err != nil || again[0] != cards[0] {
		t.Errorf("asked again, the cards are others: %v", err)
	}
	s.Close()
	if _, err := kmd.Open(context.Background(), cards[0]); err == nil {
		t.Error("a card of a closed simulator opens")
	}
}
