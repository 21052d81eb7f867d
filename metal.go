package reprise

import (
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels/metal"
)

// openFirmware reads base firmware of tt-metal from a folder.
func openFirmware(dir string) (*metal.Firmware, *dispatch.Firmware, error) {
	m, err := metal.OpenFirmware(dir)
	if err != nil {
		return nil, nil, err
	}
	f := &dispatch.Firmware{Layout: m.Layout, DRAMBanks: m.DRAMBanks, L1Banks: m.L1Banks}
	for p := range m.Base {
		for _, s := range m.Base[p].Segments {
			if len(s.Data) > 0 {
				f.Segments[p] = append(f.Segments[p], dispatch.Segment{Addr: s.Addr, Data: s.Data})
			}
		}
	}
	return m, f, nil
}

// suits returns an error unless the workers' base firmware is that which the kernel was built for.
func (d *Device) suits(k *Kernel) error {
	if d.firmware != nil {
		return d.firmware.CheckProcessor(k.Image, k.Processor)
	}
	if k.Image.Metal != nil {
		return metal.ErrOwnFirmware
	}
	return nil
}
