package remote_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/remote"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/driver/drivertest"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func open(t *testing.T, target kmd.Target) *kmd.Device {
	t.Helper()
	d, err := kmd.Open(t.Context(), target)
	devtest.Must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func emulated(t *testing.T, m *sim.Machine) *sim.Machine {
	t.Helper()
	expect.Must(t, m.Err())
	t.Cleanup(func() { m.Close() })
	return m
}

func testTunnel(t *testing.T, d *kmd.Device) {
	ctx := t.Context()
	tun := expect.Value(remote.OpenTunnel(d, chip.XY{X: 9, Y: 6}, remote.Place{X: 1}))(t)
	defer tun.Close()
	worker, dram := chip.XY{X: 18, Y: 18}, chip.XY{X: 0, Y: 0}
	for i := range uint32(10) {
		devtest.Must(t, tun.Store32(ctx, worker, 0x20000+uint64(4*i), i*i))
		if v, err := tun.Load32(ctx, worker, 0x20000+uint64(4*i)); err != nil || v != i*i {
			t.Fatalf("%d, %v: want %d", v, err, i*i)
		}
	}
	for _, xy := range []chip.XY{worker, dram} {
		data, got := make([]byte, 5*1024+32), make([]byte, 5*1024+32)
		for i := range data {
			data[i] = byte(i*7 + i>>8)
		}
		devtest.Must(t, tun.Write(ctx, xy, 0x30020, data))
		if err := tun.Read(ctx, xy, 0x30020, got); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("tile %v: other bytes were read than written; %v", xy, err)
		}
	}
	expect.Equal(t, expect.Value(tun.Load32(ctx, chip.XY{X: 18, Y: 18}, 0xFFB121B0))(t), 0x47800, "reset register")
	expect.Fails(t, tun.Read(ctx, worker, 4, make([]byte, 32)), remote.ErrRange, "misaligned")
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

func TestTunnelOnSimulator(t *testing.T) {
	s := expect.Value(ttsim.Start(ttsimtest.Path(t, ttsimtest.WormholeX2), ttsimtest.Server()))(t)
	t.Cleanup(func() { s.Close() })
	cards := expect.Value(s.Cards())(t)
	testTunnel(t, open(t, cards[0]))
}

func TestTunnelBehindSlowFirmware(t *testing.T) {
	const requests, responses, commands, trained = 0x11080, 0x11080 + 2*0xC0, 0x40, 0x1104
	fn := drivertest.New(chip.Wormhole)
	drv, err := driver.New(driver.Config{Arch: chip.Wormhole, Functions: []driver.Function{fn}})
	devtest.Must(t, err)
	t.Cleanup(func() { drv.Close() })
	tile := chip.XY{X: 9, Y: 6}
	put := func(addr uint64, v uint32) {
		fn.SetTile(tile.X, tile.Y, addr, binary.LittleEndian.AppendUint32(nil, v))
	}
	put(trained, 1)
	put(requests+0x20, 1) // a command that was given up
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // the firmware
		defer close(ended)
		time.Sleep(600 * time.Millisecond)
		for taken := uint32(0); ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if w := binary.LittleEndian.Uint32(fn.Tile(tile.X, tile.Y, requests+0x20, 4)); w != taken {
				if taken != 0 { // the tunnel's own: it reads
					put(responses+commands+8, 0xC0FFEE)
					put(responses+commands+12, 8)
				}
				taken = w
				put(requests+0x30, w)
			}
		}
	}()
	defer func() { stop(); <-ended }()
	tun := expect.Value(remote.OpenTunnel(open(t, modelled{drv.Node(0)}), tile, remote.Place{X: 1}))(t)
	defer tun.Close()
	expect.Equal(t, expect.Value(tun.Load32(t.Context(), chip.XY{X: 18, Y: 18}, 0))(t), 0xC0FFEE, "a word of the far chip")
}

type modelled struct{ n *driver.Node }

func (m modelled) Node() seam.Node { return m.n }
func (m modelled) String() string  { return m.n.String() }

func TestTunnelWithoutAnswer(t *testing.T) {
	m := emulated(t, sim.N300(sim.LinkFault("link-down=0:8"), sim.LinkFault("link-down=0:9")))
	tun := expect.Value(remote.OpenTunnel(open(t, m.Card(0)), chip.XY{X: 9, Y: 6}, remote.Place{X: 1}))(t)
	defer tun.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		expect.Fails(t, expect.ErrOf(tun.Load32(ctx, chip.XY{X: 18, Y: 18}, 0)), remote.ErrNoAnswer, "no link to the chip")
	}
	b := emulated(t, sim.P300())
	if _, err := remote.OpenTunnel(open(t, b.Card(0)), chip.XY{X: 2, Y: 1}, remote.Place{}); !errors.Is(err, remote.ErrUnreachable) {
		t.Errorf("Blackhole: %v", err)
	}
}
