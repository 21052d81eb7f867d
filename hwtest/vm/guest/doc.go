// Command guest is the first and only program of a virtual machine with Tenstorrent cards. It finds
// the cards on the PCI bus, tests each without a driver, loads a driver and runs commands if the
// machine was given some, says how that went on the console, and turns the machine off. Package
// hwtest/vm starts it.
//
// Each line that it prints about a test begins with "PASS", "FAIL" or "SKIP"; the last one is
// "DONE".
package main
