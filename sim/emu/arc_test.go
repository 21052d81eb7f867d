package emu

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/arc"
)

// scratchMessage sends a message as luwen and tt-umd do.
func (r *rig) scratchMessage(code uint32, arg uint64) (status, result uint32) {
	const scratch, misc = 0x1FF30060, 0x1FF30100
	r.dev.BARStore(0, scratch+12, 4, arg)
	r.dev.BARStore(0, scratch+20, 4, uint64(0xAA00|code))
	r.dev.BARStore(0, misc, 4, 1<<16)
	return uint32(r.dev.BARLoad(0, scratch+20, 4)), uint32(r.dev.BARLoad(0, scratch+12, 4))
}

// queueMessage sends a message as luwen, tt-umd and tt-kmd do.
func (r *rig) queueMessage(request ...uint32) (response [8]uint32) {
	arc := r.topo.ARC()
	const reset, doorbell, entry = 0x80030000, 0x800B0000, 32
	word := func(addr uint64) uint32 { return r.ld(arc, addr) }
	control := uint64(word(reset + 0x400 + 4*11))
	queue, size := uint64(word(control)), uint64(word(control+4)&0xFF)
	wrap := uint32(2 * size)
	put, taken := word(queue), word(queue+4)
	for i, w := range request {
		r.st(arc, queue+entry+uint64(put)%size*entry+4*uint64(i), w)
	}
	r.st(arc, queue, (put+1)%wrap)
	r.st(arc, doorbell, 0)
	for i := range response {
		response[i] = word(queue + entry + (size+uint64(taken)%size)*entry + 4*uint64(i))
	}
	equal(r.t, word(queue+20), (taken+1)%wrap, "responses after %d", taken)
	r.st(arc, queue+4, (taken+1)%wrap)
	return response
}

func TestUnknownMessage(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	if status, _ := r.scratchMessage(0xEE, 7); status != 0xFFFFFFFF {
		t.Errorf("Wormhole answers %#x to an unknown message", status)
	}
	if status, clock := r.scratchMessage(0x34, 0); status != 0x34 || clock != 1000 {
		t.Errorf("Wormhole answers %#x and %d MHz after it", status, clock)
	}
	r.healthy()
	r = syncRig(t, chip.Blackhole)
	for _, code := range []uint32{0xEE, 0x11, 0x51, 0x53, 0x57, 0xB7, 0xBC} { // most are Wormhole's
		equal(t, r.queueMessage(code, 1, 2), [8]uint32{0xFF}, "Blackhole's answer to message %#x, which it doesn't know", code)
	}
	equal(t, r.queueMessage(0x90, 41), [8]uint32{0, 42, 8}, "Blackhole's answer to a test message after it: the argument and the number of messages, plus one each")
	equal(t, r.queueMessage(0x1B, 0), [8]uint32{0, 1376, 40 << 16}, "Blackhole's answer for a sensor: 40 degrees, and the temperature")
	equal(t, r.queueMessage(0x16), [8]uint32{0xFE}, "Blackhole's answer to a message for scratch registers")
	r.healthy()
}

// Wormhole answers messages that write flash without effect, and the message to sleep stays where
// luwen looks.
func TestFlashAndSleepMessages(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	for _, code := range []uint32{0x2B, 0x50} {
		if status, _ := r.scratchMessage(code, 0xFFFFFFFF); status != code {
			t.Errorf("Wormhole answers %#x to message %#x", status, code)
		}
	}
	if status, _ := r.scratchMessage(0x55, 0); status != 0xAA55 {
		t.Errorf("the message that sends Wormhole's ARC to sleep has become %#x", status)
	}
	for _, code := range []uint32{0xA1, 0xA5, 0xAF, 0xB9, 0xBB} {
		if status, _ := r.scratchMessage(code, 0); status != 0xFFFFFFFF {
			t.Errorf("Wormhole answers %#x to message %#x, of whose answer no source tells", status, code)
		}
	}
	r.healthy()
	r = syncRig(t, chip.Blackhole)
	for _, code := range []uint32{0x22, 0x2B, 0x50, 0x55, 0xA1, 0xA5, 0xAF, 0xB9, 0xBB} {
		equal(t, r.queueMessage(code), [8]uint32{0xFF}, "Blackhole's answer to message %#x", code)
	}
	r.healthy()
}

func TestClockMessages(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	for _, m := range [][2]uint32{{0x54, 500}, {0x52, 1000}} {
		r.scratchMessage(m[0], 0)
		_, clock := r.scratchMessage(0x34, 0)
		flat := uint32(r.dev.BARLoad(0, uint64(r.params.BAR.ARCCSM)+0x78D60+4*24, 4))
		if tag := telemetryWords(t, r, false)[chip.TagAICLK]; clock != m[1] || tag != m[1] || flat != m[1]|1000<<16 {
			t.Errorf("after Wormhole's message %#x AICLK is %d MHz, %d by its tag, %#x in the old telemetry, want %d", m[0], clock, tag, flat, m[1])
		}
	}
	r.healthy()
	r = syncRig(t, chip.Blackhole)
	for _, m := range []struct{ code, arg, exit, clock, mode uint32 }{
		{0x54, 0, 0, 800, 3}, {0x52, 0, 0, 1350, 3}, {0x33, 900, 0, 900, 2}, {0x52, 0, 0, 900, 2}, {0x33, 1500, 1, 900, 2}, {0x33, 199, 1, 900, 2}, {0x33, 0, 0, 1000, 3},
	} {
		exit := r.queueMessage(m.code, m.arg)[0]
		got := r.queueMessage(0x34)
		if tag := telemetryWords(t, r, false)[chip.TagAICLK]; exit != m.exit || got != [8]uint32{0, m.clock, m.mode} || tag != m.clock {
			t.Errorf("Blackhole's message %#x %d returns %d, then AICLK is %d and %d by its tag, want %d MHz", m.code, m.arg, exit, got,
				tag, m.clock)
		}
	}
	r.healthy()
}

func TestFlashMessages(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	_, at := r.scratchMessage(0x29, 0)
	if status, _ := r.scratchMessage(0x2A, 0x1000); status != 0x2A {
		t.Errorf("Wormhole answers %#x to a read of flash", status)
	}
	for _, off := range []uint64{0, 4092} {
		equal(t, r.dev.BARLoad(0, uint64(r.params.BAR.ARCCSM)+uint64(at)-0x10000000+off, 4), 0xFFFFFFFF, "Wormhole's flash")
	}
	r.healthy()
	r = syncRig(t, chip.Blackhole)
	info := r.ld(r.topo.ARC(), 0x80030400+4*10)
	buffer := 0x10000000 + info&0xFFFFFF
	equal(t, r.queueMessage(0x19, 0x14000, 64, buffer), [8]uint32{}, "Blackhole's answer to a read of flash")
	equal(t, r.ld(r.topo.ARC(), uint64(buffer)+60), 0xFFFFFFFF, "Blackhole's flash")
	equal(t, r.ld(r.topo.ARC(), uint64(buffer)+64), 0, "after the bytes that were read")
	for name, c := range map[string]struct {
		request []uint32
		exit    uint32
	}{
		"a read to elsewhere": {[]uint32{0x19, 0, 64, 0x10000000}, 2},
		"a longer read":       {[]uint32{0x19, 0, 1<<(info>>24) + 1, buffer}, 2},
		"unlocking":           {[]uint32{0xC2}, 1},
		"locking":             {[]uint32{0xC3}, 0},
		"a write":             {[]uint32{0x1A, 0, 64, buffer}, 2},
	} {
		equal(t, r.queueMessage(c.request...)[0], c.exit, "%s returns", name)
	}
	r.healthy()
}

// As luwen reads flash.
func TestSPIController(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	const base, reset = 0x1FF70000, 0x1FF30000
	st := func(addr, v uint64) { r.dev.BARStore(0, addr, 4, v) }
	ld := func(addr uint64) uint64 { return r.dev.BARLoad(0, addr, 4) }
	for _, pad := range []uint64{0xF8, 0x240, 0x24C, 0x250} {
		st(reset+pad, 0x7E)
		equal(t, ld(reset+pad), 0x7E, "register %#x of the reset unit after a store", pad)
	}
	transfer := func(frames uint64, command ...uint64) (got []uint64) {
		st(base+0x08, 0)
		st(base+0x00, 3<<8|7<<16)
		st(base+0x04, frames-1)
		st(base+0x08, 1)
		st(base+0x10, 0)
		for _, b := range command {
			st(base+0x60, b)
		}
		st(base+0x10, 1)
		for ld(base+0x28)&(1<<3) != 0 {
			got = append(got, ld(base+0x60))
		}
		if sr := ld(base + 0x28); sr&1 != 0 || sr&(1<<2) == 0 {
			t.Errorf("status %#x of the controller after a transfer: want it written and not busy", sr)
		}
		st(base+0x10, 0)
		return got
	}
	if got := transfer(3, 0x03, 0, 0x40, 0); len(got) != 3 || got[0] != 0xFF || got[2] != 0xFF {
		t.Errorf("a read of three bytes returns %#x", got)
	}
	if got := transfer(1, 0x05); len(got) != 1 || got[0] != 0 {
		t.Errorf("the flash's status is %#x", got)
	}
	if got := transfer(1, 0x02, 0, 0x40, 0, 7); len(got) != 0 {
		t.Errorf("a write returns %#x", got)
	}
	if got := transfer(1, 0x03, 0, 0x40, 0); len(got) != 1 || got[0] != 0xFF {
		t.Errorf("%#x after a write, which the flash ignores", got)
	}
	r.healthy()
}

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
