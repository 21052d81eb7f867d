package driver

import (
	"fmt"
	"io/fs"

	"github.com/reprise-tt/reprise/chip"
)

// attributes adds what the management firmware has a tag for (tt-kmd wormhole.c wh_sysfs_attributes, blackhole.c
// bh_sysfs_attributes).
func (d *device) attributes(t tree, class, pci string) {
	v := d.telemetryValues()
	has := func(name string, f func(v uint32) string, tag chip.TelemetryTag) {
		if x, ok := v[tag]; ok {
			t.text(class+"/"+name, f(x)+"\n")
		}
	}
	decimal := func(v uint32) string { return fmt.Sprint(v) }
	version := func(v uint32) string { return fmt.Sprintf("%d.%d.%d.%d", v>>24, v>>16&0xFF, v>>8&0xFF, v&0xFF) }
	has("tt_aiclk", decimal, chip.TagAICLK)
	has("tt_axiclk", decimal, chip.TagAXICLK)
	has("tt_arcclk", decimal, chip.TagARCCLK)
	has("tt_heartbeat", decimal, chip.TagHeartbeat)
	has("tt_fw_bundle_ver", version, chip.TagFirmwareBundle)
	has("tt_m3app_fw_ver", version, chip.TagBoardApp)
	if d.arch.params.Arch == chip.Wormhole {
		has("tt_ttflash_ver", version, chip.TagFlashTool)
		has("tt_m3bl_fw_ver", version, chip.TagBoardBoot)
		has("tt_arc_fw_ver", version, chip.TagManagement)
		has("tt_eth_fw_ver", func(v uint32) string { return fmt.Sprintf("%d.%d.%d", v>>16&0xFF, v>>12&0xF, v&0xFFF) }, chip.TagEthernetFW)
	} else {
		has("tt_therm_trip_count", decimal, chip.TagThermalTrips)
	}
	has("tt_serial", func(hi uint32) string { return fmt.Sprintf("%08X%08X", hi, v[chip.TagBoardIDLow]) }, chip.TagBoardIDHigh)
	has("tt_asic_id", func(hi uint32) string { return fmt.Sprintf("%08X%08X", hi, v[chip.TagASICIDLow]) }, chip.TagASICIDHigh)
	has("tt_card_type", func(hi uint32) string { return cardType(uint16(hi >> 4)) }, chip.TagBoardIDHigh)
	if _, ok := v[chip.TagASICIDHigh]; ok {
		id := fmt.Sprintf("%08X%08X", v[chip.TagASICIDHigh], v[chip.TagASICIDLow])
		t[fmt.Sprintf("dev/tenstorrent/by-id/%v-%s", d.arch.params.Arch, id)] = entry{mode: fs.ModeSymlink | 0o777}
	}
	d.sensors(t, pci+"/hwmon/hwmon3/", v)
}

// sensors adds the directory of sensors. Labels are there whether what they label is or not (tt-kmd telemetry.c
// tt_hwmon_is_visible and tt_hwmon_read).
func (d *device) sensors(t tree, dir string, v map[chip.TelemetryTag]uint32) {
	t.text(dir+"name", d.arch.params.Arch.String()+"\n")
	labels := map[string]string{"temp1": "asic_temp", "in0": "vcore", "curr1": "current", "power1": "power", "fan1": "fan_rpm"}
	if d.arch.params.Arch == chip.Wormhole {
		labels = map[string]string{"temp1": "asic1_temp", "in0": "vcore1", "curr1": "current1", "power1": "power1"}
	}
	for sensor, label := range labels {
		t.text(dir+sensor+"_label", label+"\n")
	}
	has := func(name string, tag chip.TelemetryTag, f func(uint64) uint64) {
		if x, ok := v[tag]; ok {
			t.text(dir+name, fmt.Sprintf("%d\n", f(uint64(x))))
		}
	}
	times := func(n uint64) func(uint64) uint64 { return func(x uint64) uint64 { return n * x } }
	has("temp1_input", chip.TagASICTemperature, func(x uint64) uint64 { return x * 1000 >> 16 })
	has("temp1_max", chip.TagThrottle, times(1000))
	has("in0_input", chip.TagVCore, times(1))
	has("in0_max", chip.TagVDDLimits, func(x uint64) uint64 { return x >> 16 })
	has("curr1_input", chip.TagCurrent, times(1000))
	has("curr1_max", chip.TagCurrentLimit, times(1000))
	has("power1_input", chip.TagPower, times(1_000_000))
	has("power1_max", chip.TagPowerLimit, times(1_000_000))
	if d.arch.params.Arch == chip.Blackhole {
		has("fan1_input", chip.TagFanRPM, times(1))
	}
}
