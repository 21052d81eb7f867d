// Package vfiouser presents Tenstorrent chips to virtual machines: a server of the vfio-user
// protocol, which QEMU and other machine monitors speak, in front of any driver.Function. A guest
// sees a PCI device with the BARs of the real card, and its kernel can run the vendor's driver on
// it.
//
// A Card is one such device and serves one client at a time; its chip lives on between clients, as
// the protocol wants it. A Client is the other side: the function behind a server, for tests and
// for programs that take the place of a virtual machine.
//
// Sources: the protocol is docs/interop/vfio-user.rst of QEMU, in which all sizes and offsets of
// messages are given; the structs of regions and interrupts are those of Linux's
// include/uapi/linux/vfio.h; configuration space is that of the PCI Express Base Specification 5.0,
// chapter 7.
package vfiouser
