// Package vfiouser presents Tenstorrent chips to virtual machines: a server of the vfio-user
// protocol, which QEMU and other machine monitors speak, in front of any driver.Function. A guest
// sees a PCI device with the real card's BARs, and can run the vendor's driver on it.
//
// A Card is one such device and serves one client at a time. Its chip keeps its state between
// clients, as the protocol requires. A Client is the other side, for tests and for programs that
// replace a virtual machine.
//
// Sources: the protocol, with all sizes and offsets, is docs/interop/vfio-user.rst of QEMU; the
// structs of regions and interrupts are Linux's include/uapi/linux/vfio.h; configuration space is
// chapter 7 of the PCI Express Base Specification 5.0.
package vfiouser
