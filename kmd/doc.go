// Package kmd drives Tenstorrent accelerators through their kernel driver. It has TLB windows,
// pinned host memory, locks, resets and the management firmware.
//
// Open takes a Target: Path("/dev/tenstorrent/0") for silicon, or an emulated card. Only open,
// ioctl, mmap and close differ.
//
//	d, err := kmd.Open(ctx, kmd.Path("/dev/tenstorrent/0"))
//	if err != nil { ... }
//	defer d.Close()
//	err = d.Write(chip.XY{X: 1, Y: 2}, 0x20000, data)
//
// Device.Read, Write and Multicast re-target the Device's own windows; fast code opens its own
// Window and configures it once.
//
// A reset by another process revokes the device's mappings. Device.Read and the like return
// ErrDeviceLost then; code that uses a Window directly runs inside Device.Guard.
package kmd
