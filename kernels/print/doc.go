// Package print reads what kernels print while they run: lines of reprise_print (reprise/print.h)
// and DPRINT (api/debug/dprint.h), and zones (reprise/zone.h), with core, processor, program,
// kernel and device time. docs/debugging.md shows both ends.
//
// A record in a core's ring has arguments and the place of its format in the kernel's file. A
// [Decoder] puts them together, and [Listen] reads the rings of a device while programs run.
package print
