package sim_test

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
)

func open(t *testing.T, c kmd.Target) *kmd.Device {
	t.Helper()
	d := value(kmd.Open(t.Context(), c))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func TestHarvestedCards(t *testing.T) {
	for _, tt := range []struct {
		make func(...sim.Option) *sim.Card
		want chip.Harvesting
	}{
		{sim.Wormhole, chip.Harvesting{Tensix: 1 << 4}},
		{sim.Wormhole, chip.Harvesting{Tensix: 1<<0 | 1<<9}},
		{sim.Blackhole, chip.Harvesting{Tensix: 1<<2 | 1<<11}},
		{sim.Blackhole, chip.Harvesting{Tensix: 1<<0 | 1<<13, DRAM: 1 << 5}},
	} {
		d := open(t, tt.make(sim.Harvesting(tt.want)))
		got, err := d.Harvesting(t.Context())
		if err != nil || got.Tensix != tt.want.Tensix || got.DRAM != tt.want.DRAM {
			t.Errorf("%v: %+v, %v, want %+v", d.Arch(), got, err, tt.want)
			continue
		}
		c := value(chip.New(d.Arch(), got))(t)
		n := uint32(0)
		for core := range c.Workers() {
			n++
			must(t, d.Write32(virtual(t, c, core), 0x1000, n))
		}
		for core := range c.Workers() {
			n--
			v, err := d.Read32(virtual(t, c, core), 0x1000)
			if w := uint32(core.Y*gridWidth(c) + core.X + 1); err != nil || v != w {
				t.Fatalf("%v holds %d, %v, want %d: two workers are one tile", core, v, err, w)
			}
		}
		equal(t, n, 0, "workers that weren't read")
	}
}

func gridWidth(c *chip.Chip) int {
	w, _ := c.Grid()
	return w
}

func TestCardsStartAndEnd(t *testing.T) {
	card := sim.Blackhole(sim.Synchronous(), sim.Seed(3))
	if card.Chip() != nil {
		t.Error("a chip before the card was opened")
	}
	xy := chip.XY{X: 1, Y: 2}
	a := open(t, card)
	b := open(t, card)
	first := card.Chip()
	must(t, a.Write32(xy, 0x40, 7))
	equal(t, value(b.Read32(xy, 0x40))(t), 7, "what a second opener sees")
	must(t, errors.Join(a.Close(), b.Close()))
	c := open(t, card)
	if card.Chip() == first {
		t.Error("the chip outlived its last opener")
	}
	equal(t, value(c.Read32(xy, 0x40))(t), 0, "a word of a new chip")
}

func TestCardsThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		card *sim.Card
		want error
	}{
		{sim.Wormhole(sim.Harvesting(chip.Harvesting{Tensix: 1 << 20})), emu.ErrConfig},
		{sim.Blackhole(sim.Delay(-1)), emu.ErrConfig},
		{sim.Blackhole(sim.DriverVersion(1, 34, 0)), driver.ErrConfig},
	} {
		_, err := kmd.Open(t.Context(), tt.card)
		var op *kmd.OpError
		if !errors.Is(err, tt.want) || !errors.As(err, &op) || op.Path == "" {
			t.Errorf("%v: %v", tt.card, err)
		}
	}
}

func TestResidentCardsThatCannotBe(t *testing.T) {
	for _, option := range []sim.Option{sim.Fault("hiccups"), sim.DriverVersion(1, 34, 0)} {
		card := sim.Blackhole(sim.Resident(), option)
		if _, err := card.Driver(); !errors.Is(err, driver.ErrConfig) {
			t.Errorf("%v", err)
		}
		fails(t, card.Chip().Reset(), emu.ErrClosed, "the chip runs on")
	}
}

func TestMachineOptions(t *testing.T) {
	d := open(t, sim.Wormhole(sim.WithoutIOMMU(), sim.DriverVersion(2, 4, 1), sim.Name("card ")))
	fails(t, second(d.PinHostMemory(1<<20)), kmd.ErrNotContiguous, "1 MiB without an IOMMU")
	if d.Info().Driver.String() != "2.4.1" || d.String() != "card 0" {
		t.Errorf("driver %v of %v", d.Info().Driver, d)
	}
}

func TestRefusalsReachTheHost(t *testing.T) {
	d := open(t, sim.Blackhole(sim.RefuseUnwritten(), sim.Delay(4)))
	err := d.Write(chip.XY{X: 1, Y: 2}, 0xFFB121B0, make([]byte, 64))
	if err == nil {
		err = d.Read(chip.XY{X: 1, Y: 2}, 0xFFB121B0, make([]byte, 64))
	}
	if !errors.Is(err, kmd.ErrDeviceLost) || !errors.Is(err, emu.ErrRefused) {
		t.Errorf("64 bytes to a register: %v", err)
	}
	fails(t, d.Fault(), emu.ErrRefused, "fault")
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value is must for a call with a result.
func value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// equal fails the test unless got is want, and formats what it is.
func equal[V comparable](t testing.TB, got, want V, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf(what+": %#v, want %#v", append(args, got, want)...)
	}
}

// fails fails the test unless err is want.
func fails(t testing.TB, err, want error, what string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf(what+": %v, want %v", append(args, err, want)...)
	}
}

func second[V any](_ V, err error) error { return err }
