// Package kmd drives Tenstorrent accelerators through their kernel driver: it opens devices, maps
// windows onto their networks, pins host memory for them, and asks their management firmware what
// they are.
//
// Open takes a Target: Path("/dev/tenstorrent/0") for silicon, or an emulated card. Everything else
// is the same code on any of them; the operating system's part is behind one internal seam of open,
// ioctl, mmap and close.
//
//	d, err := kmd.Open(ctx, kmd.Path("/dev/tenstorrent/0"))
//	if err != nil { ... }
//	defer d.Close()
//	err = d.Write(chip.XY{X: 1, Y: 2}, 0x20000, data)
//
// Device.Read, Write and Multicast go through windows that the Device keeps and re-targets; they
// are for set-up and inspection. Fast code opens its own Window, configures it once and uses its
// exact-width loads and stores.
//
// A reset by another process takes the device's mappings away: an access faults. Device.Read and
// the like turn that into ErrDeviceLost. Code that uses a Window directly runs inside Device.Guard
// for the same.
package kmd
