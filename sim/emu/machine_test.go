package emu

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func TestMachines(t *testing.T) {
	wh := Config{Arch: chip.Wormhole, Synchronous: true}
	for name, tt := range map[string]struct {
		cfgs  []Config
		links []Link
	}{
		"no chips":        {},
		"architectures":   {cfgs: []Config{wh, {Arch: chip.Blackhole, Synchronous: true}}},
		"synchronous":     {cfgs: []Config{wh, {Arch: chip.Wormhole}}},
		"harvesting":      {cfgs: []Config{{Arch: chip.Wormhole, Harvesting: chip.Harvesting{Ethernet: 1}}}},
		"no such chip":    {cfgs: []Config{wh}, links: []Link{{0, 0, 1, 0}}},
		"no such channel": {cfgs: []Config{wh, wh}, links: []Link{{0, 16, 1, 0}}},
		"channel twice":   {cfgs: []Config{wh, wh}, links: []Link{{0, 0, 1, 0}, {0, 0, 1, 1}}},
		"to itself":       {cfgs: []Config{wh}, links: []Link{{0, 0, 0, 0}}},
	} {
		if _, err := NewMachine(tt.cfgs, tt.links); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, arch := range arches {
		m, rs := pair(t, Config{Arch: arch})
		v := rs[0].eth(8)
		rs[0].st(v, 0x30000, 5)
		rs[1].st(rs[1].eth(0), 0x30000, 6)
		must(t, m.Chip(0).Reset())
		if a, b := rs[0].ld(v, 0x30000), rs[1].ld(rs[1].eth(0), 0x30000); a != 0 || b != 6 {
			t.Errorf("%v: after a reset of chip 0: %d and %d, want 0 and 6", arch, a, b)
		}
		rs[0].write(v, 0x30000, []byte("sixteen bytes..."))
		rs[0].release(v, newAsm(ethCode).send(arch, 0, 0x30000, 0x32000, 16).halt())
		rs[1].eventually("a packet of a chip that was reset", func() bool {
			return string(rs[1].read(rs[1].eth(0), 0x32000, 16)) == "sixteen bytes..."
		})
	}
}
