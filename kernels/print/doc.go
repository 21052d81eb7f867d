// Package print reads what kernels print while they run: lines of reprise_print (reprise/print.h)
// and DPRINT (api/debug/dprint.h), and zones (reprise/zone.h), with core, processor, program,
// kernel and device time. docs/debugging.md shows both ends.
//
// Formats stay in the kernels' files. A record in a core's ring has the place of its format, and
// arguments; a [Decoder] puts them together, and [Listen] reads the rings of a device while
// programs run.
package print
