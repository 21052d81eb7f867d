package emu

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// cabled is two machines of one chip each, joined by cables as pair's chips are by links.
func cabled(t testing.TB, cfg Config) ([2]*Machine, [2]*rig) {
	t.Helper()
	var ms [2]*Machine
	var rs [2]*rig
	type sent struct {
		cable int
		s     Signal
	}
	var to [2]chan sent // by receiver
	var ids [2]Identity
	var wg sync.WaitGroup
	for i := range to {
		to[i] = make(chan sent, 1000) // more than can be under way
		ids[i] = Identity{Board: 0x140<<32 | 7, ASIC: uint64(i + 1), Location: uint8(i), X: uint8(i)}
	}
	channels := [2][2]int{{8, 9}, {0, 1}}
	for i := range ms {
		cfg := cfg
		cfg.Seed += uint64(i)
		cfg.Identity = ids[i]
		var cables []Cable
		for k, channel := range channels[i] {
			cables = append(cables, Cable{Channel: channel, Peer: ids[1-i], PeerChannel: channels[1-i][k],
				Send: func(s Signal) { to[1-i] <- sent{k, s} }})
		}
		var err error
		if ms[i], err = NewMachine([]Config{cfg}, nil, cables...); err != nil {
			t.Fatal(err)
		}
		rs[i] = rigOf(t, ms[i].Chip(0))
	}
	for i := range to {
		wg.Go(func() {
			for s := range to[i] {
				if err := ms[i].Receive(s.cable, s.s); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Cleanup(func() {
		ms[0].Close()
		ms[1].Close()
		close(to[0])
		close(to[1])
		wg.Wait()
	})
	return ms, rs
}

func TestCable(t *testing.T) {
	for _, cfg := range []Config{{Seed: 3}, {Seed: 9, Delay: 50, RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true,
		RefuseCounters: true}} {
		for _, arch := range arches {
			cfg.Arch = arch
			_, rs := cabled(t, cfg)
			tx, rx := rs[0].eth(8), rs[1].eth(0)
			const parts = 3 * txWindow
			data := make([]byte, parts*64)
			for i := range data {
				data[i] = byte(i * 7)
			}
			rs[0].write(tx, 0x30000, data)
			rs[0].write(tx, 0x31000, append([]byte{1}, make([]byte, 15)...))
			rs[1].write(rx, 0x32000, make([]byte, len(data)+0x1100))
			a := newAsm(ethCode)
			for i := range uint32(parts) {
				a.send(arch, 0, 0x30000+64*i, 0x32000+64*i, 64)
			}
			rs[1].release(rx, newAsm(ethCode).waitFor(0x33000, 1).li(a0, 0x32000+parts*64-4).lw(a1, a0, 0).li(a0, 0x33020).sw(a1,
				a0, 0).halt())
			rs[0].release(tx, a.send(arch, 0, 0x31000, 0x33000, 16).halt())
			rs[1].eventually("the receiver's answer", func() bool { return rs[1].ld(rx, 0x33020) != 0 })
			if got := rs[1].read(rx, 0x32000, len(data)); !bytes.Equal(got, data) {
				t.Errorf("%v: other bytes arrived than were sent", arch)
			}
			rs[0].healthy()
			rs[1].healthy()
		}
	}
}

func TestCableState(t *testing.T) {
	state := map[chip.Arch]uint64{chip.Wormhole: whTrained, chip.Blackhole: bhStatus + 4}
	up := map[chip.Arch]uint32{chip.Wormhole: 1, chip.Blackhole: 1}
	for _, arch := range arches {
		ms, rs := cabled(t, Config{Arch: arch})
		both := func(what string, want bool) {
			rs[0].eventually(what, func() bool {
				return (rs[0].ld(rs[0].eth(8), state[arch]) == up[arch]) == want &&
					(rs[1].ld(rs[1].eth(0), state[arch]) == up[arch]) == want
			})
		}
		both("links at first", true)
		must(t, ms[1].SetLink(0, 0, false))
		both("links that are down", false)
		must(t, ms[0].SetLink(0, 8, true))
		both("links that are up again", true)
	}
}

// A packet that arrives after its sender's reset gives no room twice; one that a receiver's reset
// loses gives room.
func TestCableReset(t *testing.T) {
	for _, arch := range arches {
		_, rs := cabled(t, Config{Arch: arch})
		for round := range 3 {
			tx, rx := rs[0].eth(8), rs[1].eth(0)
			rs[0].write(tx, 0x30000, bytes.Repeat([]byte{byte(round + 1)}, 16))
			rs[1].write(rx, 0x32000, make([]byte, 16))
			a := newAsm(ethCode).free(arch, 0) // of packets of the last round, of whose loss the sender learns late
			for range txWindow + 4 {
				a.send(arch, 0, 0x30000, 0x32000, 16)
			}
			rs[0].release(tx, a.halt())
			rs[1].eventually(fmt.Sprintf("the last packet of round %d, %v", round, arch),
				func() bool { return rs[1].ld(rx, 0x32000) == 0x01010101*uint32(round+1) })
			rs[0].st(tx, 0xFFB121B0, 0x1800) // its processors end
			rs[round%2].reset()
		}
		rs[0].healthy()
		rs[1].healthy()
	}
}

func TestCableRefusals(t *testing.T) {
	ms, _ := cabled(t, Config{Arch: chip.Blackhole})
	ok := Signal{Kind: SignalPacket, Copies: 1, Dest: 0x30000, Words: make([]uint32, 4)}
	for name, change := range map[string]func(*Signal){
		"kind":          func(s *Signal) { s.Kind = 99 },
		"no kind":       func(s *Signal) { s.Kind = 0 },
		"queue":         func(s *Signal) { s.Queue = 3 },
		"copies":        func(s *Signal) { s.Copies = 3 },
		"odd bytes":     func(s *Signal) { s.Words = s.Words[:3] },
		"odd address":   func(s *Signal) { s.Dest++ },
		"beyond L1":     func(s *Signal) { s.Dest = 512<<10 - 8&^15 + 16 },
		"overflow":      func(s *Signal) { s.Dest = 0xFFFFFFF0 },
		"register":      func(s *Signal) { s.Register = true },
		"register odd":  func(s *Signal) { s.Register, s.Words, s.Dest = true, s.Words[:1], 2 },
		"taken's queue": func(s *Signal) { *s = Signal{Kind: SignalTaken, Queue: 200} },
	} {
		s := ok
		change(&s)
		if err := ms[0].Receive(0, s); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, i := range []int{-1, 2} {
		if err := ms[0].Receive(i, ok); !errors.Is(err, ErrConfig) {
			t.Errorf("cable %d: %v", i, err)
		}
	}
	send := func(Signal) {}
	for name, tc := range map[string]struct {
		cfg    Config
		cables []Cable
	}{
		"no channel":  {Config{}, []Cable{{Channel: 20, Send: send}}},
		"no chip":     {Config{}, []Cable{{Chip: 1, Send: send}}},
		"twice":       {Config{}, []Cable{{Send: send}, {Send: send}}},
		"no Send":     {Config{}, []Cable{{}}},
		"synchronous": {Config{Synchronous: true}, []Cable{{Send: send}}},
		"routing":     {Config{Arch: chip.Wormhole, Identity: Identity{Routing: true}}, []Cable{{Send: send}}},
	} {
		if tc.cfg.Arch == 0 {
			tc.cfg.Arch = chip.Blackhole
		}
		if _, err := NewMachine([]Config{tc.cfg}, nil, tc.cables...); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
