package arc

import (
	"time"

	"github.com/reprise-tt/reprise/chip"
)

type telemetryEntry struct {
	tag   chip.TelemetryTag
	value uint32
}

// Tags that only the emulator names (tt-umd device/types/telemetry.hpp, luwen telemetry_tags.rs).
const (
	tagUpdatePeriod    = 5 // milliseconds
	tagShutdown        = 10
	tagRegulatorTemp   = 12
	tagL2CPUClock      = 17 // and the next three
	tagGDDRFirmware    = 25
	tagL2CPUFirmware   = 30
	tagCount           = 33
	tagGDDRTemperature = 42 // and the next three: two channels each
	tagGDDRCorrected   = 46 // and the next three
	tagGDDRUncorrected = 50
	tagGDDRHottest     = 51
	tagBoardPower      = 53 // limit, watts
	tagInputPower      = 54
	tagClockLimit      = 63
	tagClockArbiter    = 65 // and the next one: AICLK's bounds from below and above
	tagEnabledArbiters = 67 // and the next one
)

const updatePeriod = 100 // milliseconds

// telemetry lists what an idle card reports: plausible values, and the chip's own description.
func (a *ARC) telemetry() []telemetryEntry {
	wh := a.arch == chip.Wormhole
	_, fastest := a.clocks()
	bundle, eth, gddr, speed := uint32(0x12040000), uint32(0xFFFF), uint32(0x555), uint32(12000)
	core, power, current, throttle, shutdown, limit := uint32(800), uint32(14), uint32(17), uint32(75), uint32(83), uint32(160)
	if !wh {
		bundle, gddr, speed = 0x12050000, 0x5555, 16000
		core, power, current, throttle, shutdown, limit = 700, 21, 30, 83, 110, 300
		eth = uint32(1<<14-1) &^ a.cfg.Harvesting.Ethernet
	}
	serial, asic, ethVersion := a.cfg.Board, a.cfg.ASIC, a.cfg.Ethernet
	const degree = 1 << 16
	board := uint32(35 * degree)
	if !wh {
		board = 0 // its sensor isn't read (tt-umd tests/api/test_firmware_info_provider.cpp; also the limit of 110 degrees)
	}
	t := []telemetryEntry{
		{chip.TagBoardIDHigh, uint32(serial >> 32)}, {chip.TagBoardIDLow, uint32(serial)}, {chip.TagASICID, uint32(asic)},
		{chip.TagHarvesting, 0}, {tagUpdatePeriod, updatePeriod},
		{chip.TagVCore, core}, {chip.TagPower, power}, {chip.TagCurrent, current},
		{chip.TagVDDLimits, 950<<16 | 650}, {tagShutdown, shutdown},
		{chip.TagASICTemperature, idleTemperature}, {tagRegulatorTemp, 38}, {chip.TagBoardTemp, board},
		{chip.TagAICLK, a.aiclk}, {chip.TagAXICLK, 900}, {chip.TagARCCLK, 540},
		{chip.TagEthernetLive, eth}, {chip.TagGDDRStatus, gddr}, {chip.TagGDDRSpeed, speed}, {chip.TagEthernetFW, ethVersion},
		{tagGDDRFirmware, 0x0205_0000}, {chip.TagBoardApp, 0x0509_0000}, {chip.TagBoardBoot, 0x8102_0000}, {chip.TagFirmwareBundle, bundle},
		{chip.TagManagement, 0x0220_0000}, {chip.TagFanSpeed, 35}, {chip.TagFanRPM, 1200}, {chip.TagHeartbeat, 1},
		{chip.TagASICLocation, uint32(a.cfg.Location)},
		{tagInputPower, power + 10}, {chip.TagCurrentLimit, limit}, {chip.TagThrottle, throttle}, {chip.TagFlashTool, 0x0300_0000},
		{tagClockLimit, fastest}, {chip.TagPowerLimit, limit},
	}
	if !wh {
		add := func(tag chip.TelemetryTag, values ...uint32) {
			for i, v := range values {
				t = append(t, telemetryEntry{tag + chip.TelemetryTag(i), v})
			}
		}
		add(tagL2CPUClock, 800, 800, 800, 800)
		add(tagL2CPUFirmware, 0)
		add(chip.TagEnabledColumns, a.enabledColumns())
		add(chip.TagEnabledEthernet, eth)
		add(chip.TagEnabledGDDR, 0xFF&^a.cfg.Harvesting.DRAM)
		add(chip.TagEnabledL2CPU, 0xF)
		usage := uint32(chip.PCIeEndpoint)
		if a.cfg.Harvesting.SecondPCIe {
			usage <<= 2
		}
		add(chip.TagPCIeUsage, usage)
		add(chip.TagTranslation, 1) // coordinates are translated
		const pair = 44 | 45<<8 | 44<<16 | 45<<24
		add(tagGDDRTemperature, pair, pair, pair, pair)
		add(tagGDDRCorrected, 0, 0, 0, 0)
		add(tagGDDRUncorrected, 0)
		add(tagGDDRHottest, 45)
		add(tagBoardPower, limit)
		add(chip.TagThermalTrips, 0)
		add(chip.TagASICIDHigh, uint32(asic>>32), uint32(asic))
		add(tagClockArbiter, a.aiclk, fastest)
		add(tagEnabledArbiters, 1, 1)
	}
	return append(t, telemetryEntry{tagCount, uint32(len(t) + 1)})
}

// initTelemetry writes tags and then values, whose address it returns: tt-kmd and tt-umd find
// values by their pointer, luwen by the end of the tags.
func (a *ARC) initTelemetry() uint32 {
	t := a.telemetry()
	tags := a.csm[telemetryTable/4:]
	values := tags[2+len(t):]
	tags[0], tags[1] = 1, uint32(len(t))
	a.values = CSM + telemetryTable + 4*uint32(2+len(t))
	for i, e := range t {
		tags[2+i] = uint32(e.tag) | uint32(i)<<16
		values[i] = e.value
		if e.tag == chip.TagHeartbeat {
			a.beats[0] = a.values - CSM + 4*uint32(i)
		}
		if e.tag == chip.TagAICLK {
			a.clockAt = append(a.clockAt, a.values-CSM+4*uint32(i))
		}
	}
	if a.arch == chip.Wormhole {
		a.initFlatTelemetry(t)
	}
	return a.values
}

// initFlatTelemetry writes Wormhole's older form (tt-umd device/types/wormhole_telemetry.hpp, luwen
// wormhole.rs get_telemetry).
func (a *ARC) initFlatTelemetry(t []telemetryEntry) {
	of := map[chip.TelemetryTag]uint32{}
	for _, e := range t {
		of[e.tag] = e.value
	}
	const heartbeat, clock = 19, 24
	pci := &a.arch.Params().PCI
	// Dates as luwen reads them (mod.rs firmware_date), always the same.
	const firmwareDate, bootDate = 5<<28 | 7<<24 | 1<<16, 5<<28 | 7<<24 | 2<<16
	// Temperatures of memory training, a byte for each channel as on Blackhole: undocumented.
	const trained = 44 | 44<<8 | 44<<16 | 44<<24
	for i, v := range map[int]uint32{
		0:  0xBA5E0001,
		1:  uint32(pci.Device)<<16 | uint32(pci.Vendor),
		4:  of[chip.TagBoardIDHigh],
		5:  of[chip.TagBoardIDLow],
		6:  of[chip.TagManagement],
		7:  of[chip.TagManagement],
		8:  of[chip.TagManagement],
		9:  of[chip.TagManagement],
		11: of[chip.TagEthernetFW],
		12: of[chip.TagBoardBoot],
		13: of[chip.TagBoardApp],
		14: 0x222222, // four bits for each channel: trained
		15: 0x11111111,
		16: 0x11111111,
		17: 0x11,
		19: of[chip.TagHeartbeat],
		23: of[chip.TagFanSpeed],
		24: of[chip.TagAICLK] | of[tagClockLimit]<<16,
		25: of[chip.TagAXICLK],
		26: of[chip.TagARCCLK],
		28: of[chip.TagVCore],
		29: of[chip.TagASICTemperature] >> 12, // in sixteenths
		30: of[tagRegulatorTemp],
		31: of[chip.TagBoardTemp],
		32: of[chip.TagPower] | of[chip.TagPowerLimit]<<16,
		33: of[chip.TagCurrent] | of[chip.TagCurrentLimit]<<16,
		34: of[chip.TagVDDLimits],
		35: of[chip.TagThrottle] | of[tagShutdown]<<16,
		36: firmwareDate,
		40: trained,
		41: trained & 0xFFFF, // six channels
		42: bootDate,
		46: of[chip.TagFlashTool],
		48: of[chip.TagEthernetLive],
		49: of[chip.TagFirmwareBundle],
	} {
		a.csm[flatTelemetryAt/4+i] = v
	}
	a.beats[1] = flatTelemetryAt + 4*heartbeat
	a.clockAt = append(a.clockAt, flatTelemetryAt+4*clock)
}

// beat counts up heartbeats that a load is about to see, for software that waits for a change.
// Other software loads the heartbeat twice to see that nothing has changed meanwhile.
func (a *ARC) beat(off uint64, n int) {
	for i, at := range a.beats {
		if at := uint64(at); at != 0 && off < at+4 && at < off+uint64(n) {
			if now := time.Now(); a.cfg.Static || now.Sub(a.beaten[i]) >= updatePeriod*time.Millisecond {
				a.csm[at/4]++
				a.beaten[i] = now
			}
		}
	}
}
