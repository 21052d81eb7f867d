package cards

import "github.com/reprise-tt/reprise/sim/serve"

// Requests beside the accesses of every service, whose Object is a mapping. The first request of a
// connection is one of the first three.
const (
	opProcess = serve.OpService + iota // begins a process, whose number is the reply's Val; the connection stays idle, and its end is the process's
	opJoin                             // makes a connection one of a process, named by Val, for its requests
	opFile                             // payload: a name of the machine's file system
	opOpen                             // Val: flags
	opClose                            // Object: file
	opIoctl                            // Object: file, Val: request, Off: of a pin's memory in the file that comes along
	opMmap                             // Object: file, Off, Val: length
	opUnmap                            // Object: mapping
	opFault                            // Object: file
	opLast                             // Object: file, to be released after all others of the process
)

// Kinds of memory in a reply to opMmap.
const (
	accesses = iota // each is a request
	memory          // the file that comes along; Val: offset in it
)

// maxName is the longest name in an opFile, in bytes.
const maxName = 4096
