// Package topology finds the chips of a machine and the Ethernet links between them, from what the
// firmware of each Ethernet tile reports. A Wormhole without a PCI interface is accessed through a
// [remote.Tunnel], over the links of a Wormhole that has one.
package topology
