package ttsim_test

import (
	"bytes"
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
	c := value(chip.New(d.Arch(), h))(t)
	return c
}

func TestCard(t *testing.T) {
	for name, b := range boards {
		t.Run(name, func(t *testing.T) {
			d := open(t, ttsimtest.Card(t, b.variable))
			if d.Arch().String() != name {
				t.Errorf("architecture %v, want %s", d.Arch(), name)
			}
			must(t, d.Alive())
			c := describe(t, d)
			if w, h := c.Grid(); w < 8 || h < 8 {
				t.Errorf("grid %dx%d", w, h)
			}

			want := bytes.Repeat([]byte("0123456789abcde\n"), 4096)
			var first, last chip.XY
			n := 0
			for core := range c.Workers() {
				xy := value(c.Virtual(core))(t)
				if n == 0 {
					first = xy
				}
				last = xy
				n++
			}
			for _, xy := range []chip.XY{first, last} {
				must(t, d.Write(xy, 0x20000, want))
				got := make([]byte, len(want))
				if err := d.Read(xy, 0x20000, got); err != nil || !bytes.Equal(got, want) {
					t.Errorf("tile %v reads back wrong: %v", xy, err)
				}
			}
			must(t, d.Multicast(first, last, 0x40000, want[:4096]))
			for core := range c.Workers() {
				xy, _ := c.Virtual(core)
				got := make([]byte, 4096)
				if err := d.Read(xy, 0x40000, got); err != nil || !bytes.Equal(got, want[:4096]) {
					t.Fatalf("tile %v did not get the multicast: %v", xy, err)
				}
			}

			m := value(d.PinHostMemory(1 << 16))(t)
			copy(m.Bytes()[0x100:], "from the host")
			got := make([]byte, 16)
			if err := d.Read(c.PCIe(chip.NOC0), m.NOCAddr()+0x100, got); err != nil || string(got[:13]) != "from the host" {
				t.Errorf("host memory reads %q by the device: %v", got, err)
			}
			must(t, d.Write32(c.PCIe(chip.NOC0), m.NOCAddr()+0x8, 0xCAFE))
			if _, err := d.Read32(first, 0x20000); err != nil { // follows the store
				t.Error(err)
			}
			if got := binary.LittleEndian.Uint32(m.Bytes()[8:]); got != 0xCAFE {
				t.Errorf("host memory is %#x, want 0xcafe", got)
			}
			must(t, m.Close())
			must(t, d.Close())
		})
	}
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
			if err := d.Fault(); !errors.Is(err, e) {
				t.Errorf("fault %v, want %v", err, e)
			}
			if err := d.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			d = open(t, card)
			if err := d.Fault(); err != nil {
				t.Errorf("fault %v after opening again", err)
			}
			if v, err := d.Read32(xy, 0x20000); err != nil || v != 0 {
				t.Errorf("L1 reads %#x, %v, want 0", v, err)
			}
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
			if v, err := again.Read32(xy, 0x20000); err != nil || v != 0 {
				t.Errorf("L1 reads %#x, %v, want 0", v, err)
			}
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
		if got := binary.LittleEndian.Uint32(m.Bytes()); got != uint32(0x100+i) {
			t.Errorf("host memory of card %d is %#x", i, got)
		}
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
