package topology_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/topology"
)

func open(t *testing.T, target kmd.Target) *kmd.Device {
	t.Helper()
	d, err := kmd.Open(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func emulated(t *testing.T, m *sim.Machine) *sim.Machine {
	t.Helper()
	if m.Err() != nil {
		t.Fatal(m.Err())
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// What is written through a tunnel is read back, and is in the far chip.
func testTunnel(t *testing.T, d *kmd.Device) {
	ctx := t.Context()
	tun, err := topology.OpenTunnel(d, chip.XY{X: 9, Y: 6}, topology.Place{X: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tun.Close()
	worker, dram := chip.XY{X: 18, Y: 18}, chip.XY{X: 0, Y: 0}
	for i := range uint32(10) {
		if err := tun.Store32(ctx, worker, 0x20000+uint64(4*i), i*i); err != nil {
			t.Fatal(err)
		}
		if v, err := tun.Load32(ctx, worker, 0x20000+uint64(4*i)); err != nil || v != i*i {
			t.Fatalf("%d, %v: want %d", v, err, i*i)
		}
	}
	for _, xy := range []chip.XY{worker, dram} {
		data, got := make([]byte, 5*1024+32), make([]byte, 5*1024+32)
		for i := range data {
			data[i] = byte(i*7 + i>>8)
		}
		if err := tun.Write(ctx, xy, 0x30020, data); err != nil {
			t.Fatal(err)
		}
		if err := tun.Read(ctx, xy, 0x30020, got); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("tile %v: other bytes were read than written; %v", xy, err)
		}
	}
	if v, err := tun.Load32(ctx, chip.XY{X: 18, Y: 18}, 0xFFB121B0); err != nil || v != 0x47800 {
		t.Errorf("reset register %#x, %v", v, err)
	}
	if err := tun.Read(ctx, worker, 4, make([]byte, 32)); !errors.Is(err, topology.ErrRange) {
		t.Errorf("misaligned: %v", err)
	}
}

func TestTunnel(t *testing.T) {
	for _, opts := range [][]sim.Option{nil, {sim.Synchronous()}, {sim.Delay(100), sim.Seed(4)}} {
		m := emulated(t, sim.N300(opts...))
		testTunnel(t, open(t, m.Card(0)))
		if err := m.Chip(1).Fault(); err != nil {
			t.Error(err)
		}
	}
}

// A tunnel whose link is down says that nobody answers, and stays that way; one on a Blackhole is refused.
func TestTunnelWithoutAnswer(t *testing.T) {
	m := emulated(t, sim.N300(sim.LinkFault("link-down=0:8"), sim.LinkFault("link-down=0:9")))
	tun, err := topology.OpenTunnel(open(t, m.Card(0)), chip.XY{X: 9, Y: 6}, topology.Place{X: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tun.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := tun.Load32(ctx, chip.XY{X: 18, Y: 18}, 0); !errors.Is(err, topology.ErrNoAnswer) {
			t.Errorf("nobody answers: %v", err)
		}
	}
	b := emulated(t, sim.P300())
	if _, err := topology.OpenTunnel(open(t, b.Card(0)), chip.XY{X: 2, Y: 1}, topology.Place{}); !errors.Is(err, topology.ErrUnreachable) {
		t.Errorf("Blackhole: %v", err)
	}
}
