// Package driverdiff compares two Tenstorrent drivers by what they answer: it sends both the same
// series of requests, drawn from a seed, and lists where errors or answers differ. One of the two
// is usually a real driver, behind a device node of a virtual machine, and the other one its model,
// package sim/driver.
//
// Addresses that a driver chooses freely are compared by whether there is one and by their place in
// a page.
package driverdiff
