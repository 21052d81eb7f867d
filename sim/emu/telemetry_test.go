package emu

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/arc"
)

// telemetryWords reads telemetry through pointers (tt-kmd, tt-umd), or with values right after tags
// (luwen).
func telemetryWords(t *testing.T, r *rig, adjacent bool) map[chip.TelemetryTag]uint32 {
	t.Helper()
	arc := &r.params.ARC
	word := func(addr uint64) uint32 { return r.ld(r.topo.ARC(), addr) }
	table := arc.PointerBase + uint64(word(arc.ResetUnit+uint64(arc.TelemetryTable)))
	values := arc.PointerBase + uint64(word(arc.ResetUnit+uint64(arc.TelemetryValues)))
	if v := word(table); v>>16 > 1 {
		t.Errorf("%v: version %#x of the telemetry: want at most 1", r.arch, v)
	}
	n := uint64(word(table + 4))
	if adjacent {
		values = table + 8 + 4*n
	}
	out := map[chip.TelemetryTag]uint32{}
	for i := range n {
		e := word(table + 8 + 4*i)
		tag := chip.TelemetryTag(e & 0xFFFF)
		if _, twice := out[tag]; twice {
			t.Errorf("%v: tag %d is in the table twice", r.arch, tag)
		}
		out[tag] = word(values + uint64(e>>16)*4)
	}
	return out
}

// Each tag that tt-kmd, tt-umd or luwen reads has a value, below its limit.
func TestTelemetry(t *testing.T) {
	both := []chip.TelemetryTag{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26, 27, 28, 29, 31, 32, 33,
		41,
		52, 54, 55, 56, 58, 63, 64}
	blackhole := []chip.TelemetryTag{17, 18, 19, 20, 30, 34, 35, 36, 37, 38, 40, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 53, 60, 61, 62,
		65, 66, 67, 68}
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := telemetryWords(t, r, false)
		want := both
		if arch == chip.Blackhole {
			want = append(want[:len(want):len(want)], blackhole...)
		}
		for _, tag := range want {
			if _, ok := v[tag]; !ok {
				t.Errorf("%v: no tag %d", arch, tag)
			}
		}
		if len(v) != len(want) || int(v[33]) != len(want) {
			t.Errorf("%v: %d tags, and the count is %d: want %d", arch, len(v), v[33], len(want))
		}
		for name, l := range map[string][2]uint32{
			"core voltage": {v[chip.TagVCore], v[chip.TagVDDLimits] >> 16},
			"power":        {v[chip.TagPower], v[chip.TagPowerLimit]},
			"current":      {v[chip.TagCurrent], v[chip.TagCurrentLimit]},
			"temperature":  {v[chip.TagASICTemperature] >> 16, v[chip.TagThrottle]},
			"throttling":   {v[chip.TagThrottle], v[10]}, // shutdown,
		} {
			if l[0] == 0 || l[0] >= l[1] {
				t.Errorf("%v: %s is %d, its limit %d", arch, name, l[0], l[1])
			}
		}
		again := telemetryWords(t, r, true)
		if again[chip.TagHeartbeat] == v[chip.TagHeartbeat] {
			t.Errorf("%v: the heartbeat stays at %d", arch, v[chip.TagHeartbeat])
		}
		for tag, x := range again {
			if tag != chip.TagHeartbeat && x != v[tag] {
				t.Errorf("%v: tag %d is %#x right after the tags, and %#x by its pointer", arch, tag, x, v[tag])
			}
		}
		r.healthy()
	}
}

func TestFlatTelemetry(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	const scratch = 0x1FF30060
	r.dev.BARStore(0, scratch+20, 4, 0xAA00|0x2C)
	r.dev.BARStore(0, scratch+0xA0, 4, 1<<16)
	at := r.dev.BARLoad(0, scratch+12, 4)
	if at != 0x10078D60 {
		t.Fatalf("the telemetry is at %#x", at)
	}
	flat := func(i uint64) uint32 {
		return uint32(r.dev.BARLoad(0, uint64(r.params.BAR.ARCCSM)+at-arc.CSM+4*i, 4))
	}
	v := telemetryWords(t, r, false)
	for i, want := range map[uint64]uint32{4: v[chip.TagBoardIDHigh], 5: v[chip.TagBoardIDLow], 11: v[chip.TagEthernetFW],
		24: v[chip.TagAICLK] | v[63]<<16, 28: v[chip.TagVCore], 49: v[chip.TagFirmwareBundle]} {
		if got := flat(i); got != want || got == 0 {
			t.Errorf("word %d is %#x, want %#x", i, got, want)
		}
	}
	for i, what := range map[uint64]string{36: "the firmware's date", 42: "the boot date"} {
		if v := flat(i); v>>28 == 0 || v>>24&15 < 1 || v>>24&15 > 12 || v>>16&0xFF < 1 || v>>16&0xFF > 31 {
			t.Errorf("%s is %#x", what, v)
		}
	}
	if flat(42) < flat(36) {
		t.Errorf("it booted on %#x, before its firmware was made on %#x", flat(42), flat(36))
	}
	for channel := range uint64(6) {
		if v := flat(40+channel/4) >> (8 * (channel % 4)) & 0xFF; v < 20 || v > 100 {
			t.Errorf("memory channel %d was trained at %d degrees", channel, v)
		}
	}
	if a, b := flat(19), flat(19); a == b {
		t.Errorf("the heartbeat stays at %d", a)
	}
	equal(t, r.ld(r.topo.ARC(), 0x8_2007_8D60+4*49), v[chip.TagFirmwareBundle], "the firmware bundle through tt-umd's address")
	r.healthy()
}
