package cards

import "github.com/reprise-tt/reprise/sim/serve"

// Requests in addition to serve's, whose Object is a mapping. A connection begins with one of the
// first three.
const (
	opProcess = serve.OpService + iota // begins a process, whose number is the reply's Val; the idle connection's end is the process's
	opJoin                             // adds a connection for requests to the process Val
	opFile                             // payload: a name of the machine's file system
	opOpen                             // Val: flags
	opClose                            // Object: file
	opIoctl                            // Object: file, Val: request, Off: offset of a pin's memory in the descriptor
	opMmap                             // Object: file, Off, Val: length
	opUnmap                            // Object: mapping
	opFault                            // Object: file
	opLast                             // Object: file, to be released last at the process's end
)

const (
	accesses = iota // each access is a request
	memory          // the descriptor's memory; Val: offset in it
)

const maxName = 4096 // bytes, in an opFile
