// Package topology finds the chips of a machine and the Ethernet links between them, from what the
// firmware of each Ethernet tile reports about its link and the chip at the other end. It has no
// tables of machines. A Wormhole without a PCI interface is accessed through a [remote.Tunnel],
// over the links of a Wormhole that has one.
package topology
