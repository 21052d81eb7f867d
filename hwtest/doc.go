// Package hwtest is the conformance suite that every device must pass: the emulator, the vendor's
// simulator and silicon.
//
//	go test ./hwtest                                     both emulated chips, and the simulators whose libraries the
//	                                                     variables REPRISE_TTSIM_WH and REPRISE_TTSIM_BH name
//	go test ./hwtest -device=emu:blackhole               one device
//	go test ./hwtest -device=ttsim:PATH                  the vendor's simulator
//	go test ./hwtest -device=/dev/tenstorrent/0          silicon
//	go test ./hwtest -device=... -run //cq/              one layer
//	go test ./hwtest -device=... -report=out.json        a report beside the test output; .xml gives JUnit
//	go test ./hwtest -device=... -compare=ttsim:PATH     run the differential cases on both and compare memory
//	go test -tags=long ./hwtest -timeout=2h              more seeds, more repetitions
//	go test -tags=long ./hwtest -timeout=9h -run '//hard/every_check'
//	                                                     the hardest cases with every check, 1,000 seeds each
//	go test -short ./hwtest                              fewer repetitions
//
// The command reprise hwtest runs the same cases without Go and its sources, by [Run]. A case sees
// both runners through one interface. Under go test, properties draw from rapid, which finds the
// smallest failure; in the command, from seeds that are always the same. The command also runs the
// cases of each layer one after the other, where go test runs those that wait for timeouts in
// parallel.
//
// A case that exceeds its limit fails with the state of the device, which is opened anew for the
// next case. Programs and tests of other modules have cases of their own: see [Main] and [Run].
//
// A case is a named function in a table of one of the packages below internal; all of them work
// with what package rig gives. Its layer says what the device must be opened as; cases of one
// layer share an open device, which is opened anew after a failure. Cases marked unsafe leave
// silicon in need of a reset; they are skipped there unless -unsafe is given.
package hwtest

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild hwtest
