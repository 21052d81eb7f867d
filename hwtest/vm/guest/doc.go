// Command guest is the only program of a virtual machine with Tenstorrent cards, which package
// hwtest/vm starts. It tests each card, loads a driver, runs commands and turns the machine off.
// Lines about tests begin with "PASS", "FAIL" or "SKIP"; the last line is "DONE".
package main
