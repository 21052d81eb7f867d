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
	d, err := kmd.Open(context.Background(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func describe(t *testing.T, d *kmd.Device) *chip.Chip {
	t.Helper()
	h, err := d.Harvesting(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c, err := chip.New(d.Arch(), h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCard(t *testing.T) {
	for name, b := range boards {
		t.Run(name, func(t *testing.T) {
			d := open(t, ttsimtest.Card(t, b.variable))
			if d.Arch().String() != name {
				t.Errorf("architecture %v, want %s", d.Arch(), name)
			}
			if err := d.Alive(); err != nil {
				t.Error(err)
			}
			c := describe(t, d)
			if w, h := c.Grid(); w < 8 || h < 8 {
				t.Errorf("grid %dx%d", w, h)
			}

			want := bytes.Repeat([]byte("0123456789abcde\n"), 4096)
			var first, last chip.XY
			n := 0
			for core := range c.Workers() {
				xy, err := c.Virtual(core)
				if err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					first = xy
				}
				last = xy
				n++
			}
			for _, xy := range []chip.XY{first, last} {
				if err := d.Write(xy, 0x20000, want); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, len(want))
				if err := d.Read(xy, 0x20000, got); err != nil || !bytes.Equal(got, want) {
					t.Errorf("tile %v reads back wrong: %v", xy, err)
				}
			}
			if err := d.Multicast(first, last, 0x40000, want[:4096]); err != nil {
				t.Fatal(err)
			}
			for core := range c.Workers() {
				xy, _ := c.Virtual(core)
				got := make([]byte, 4096)
				if err := d.Read(xy, 0x40000, got); err != nil || !bytes.Equal(got, want[:4096]) {
					t.Fatalf("tile %v did not get the multicast: %v", xy, err)
				}
			}

			m, err := d.PinHostMemory(1 << 16)
			if err != nil {
				t.Fatal(err)
			}
			copy(m.Bytes()[0x100:], "from the host")
			got := make([]byte, 16)
			if err := d.Read(c.PCIe(chip.NOC0), m.NOCAddr()+0x100, got); err != nil || string(got[:13]) != "from the host" {
				t.Errorf("host memory reads %q by the device: %v", got, err)
			}
			if err := d.Write32(c.PCIe(chip.NOC0), m.NOCAddr()+0x8, 0xCAFE); err != nil {
				t.Error(err)
			}
			if _, err := d.Read32(first, 0x20000); err != nil { // follows the store
				t.Error(err)
			}
			if got := binary.LittleEndian.Uint32(m.Bytes()[8:]); got != 0xCAFE {
				t.Errorf("host memory is %#x, want 0xcafe", got)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCardLost(t *testing.T) {
	for name, b := range boards {
		t.Run(name, func(t *testing.T) {
			card := ttsimtest.Card(t, b.variable)
			d := open(t, card)
			xy, err := describe(t, d).Virtual(chip.Core{})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Write32(xy, 0x20000, 7); err != nil {
				t.Fatal(err)
			}
			_, err = d.Read32(xy, 0xFFB13000) // the interrupt controller, which the simulator doesn't have
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
			xy, err := describe(t, d).Virtual(chip.Core{})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Write32(xy, 0x20000, 7); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Read32(xy, 0xFFB13000); !errors.Is(err, kmd.ErrDeviceLost) {
				t.Fatalf("a refused access gave %v", err)
			}
			f, err := card.Node().Open(0)
			if err != nil {
				t.Fatal(err)
			}
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
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCards(t *testing.T) {
	s := ttsimtest.Start(t, ttsimtest.BlackholeX2)
	cards, err := s.Cards()
	if err != nil {
		t.Fatal(err)
	}
	if len(cards) != 2 {
		t.Fatalf("%d cards, want 2", len(cards))
	}
	var devices []*kmd.Device
	var memory []*kmd.HostMemory
	for i, card := range cards {
		d := open(t, card)
		m, err := d.PinHostMemory(4096)
		if err != nil {
			t.Fatal(err)
		}
		devices, memory = append(devices, d), append(memory, m)
		if err := d.Write32(describe(t, d).PCIe(chip.NOC0), m.NOCAddr(), uint32(0x100+i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for i, m := range memory {
		if got := binary.LittleEndian.Uint32(m.Bytes()); got != uint32(0x100+i) {
			t.Errorf("host memory of card %d is %#x", i, got)
		}
	}
	for _, d := range devices {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if again, err := s.Cards(); err != nil || again[0] != cards[0] {
		t.Errorf("asked again, the cards are others: %v", err)
	}
	s.Close()
	if _, err := kmd.Open(context.Background(), cards[0]); err == nil {
		t.Error("a card of a closed simulator opens")
	}
}
