// Package vfiouser presents Tenstorrent chips to virtual machines: a server of the vfio-user
// protocol, which QEMU and other machine monitors speak, in front of any driver.Function. A guest
// can run the vendor's driver on it.
//
// A Card serves one client at a time; its chip keeps its state between clients.
//
// Sources: docs/interop/vfio-user.rst of QEMU for the protocol; Linux's include/uapi/linux/vfio.h
// for regions and interrupts; chapter 7 of the PCI Express Base Specification 5.0 for configuration
// space.
package vfiouser
