// Package driverdiff compares the answers of two Tenstorrent drivers: it sends both the same random
// requests, chosen by a seed, and lists different errors and answers. Usually one is a real driver
// behind a device node of a virtual machine, and the other its model, package sim/driver.
//
// Of addresses that a driver chooses freely, only presence and offset in a page are compared.
package driverdiff
