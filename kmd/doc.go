// Package kmd drives Tenstorrent accelerators through their kernel driver. It opens devices, maps
// TLB windows, pins host memory and queries the management firmware.
//
// Open takes a Target: Path("/dev/tenstorrent/0") for silicon, or an emulated card. The code is the
// same for all targets: only open, ioctl, mmap and close differ.
//
//	d, err := kmd.Open(ctx, kmd.Path("/dev/tenstorrent/0"))
//	if err != nil { ... }
//	defer d.Close()
//	err = d.Write(chip.XY{X: 1, Y: 2}, 0x20000, data)
//
// Device.Read, Write and Multicast use windows that the Device keeps and re-targets; they are for
// set-up and inspection. Fast code opens its own Window and configures it once.
//
// A reset by another process revokes the device's mappings, and an access faults. Device.Read and
// the like return ErrDeviceLost then. Code that uses a Window directly runs inside Device.Guard.
package kmd
