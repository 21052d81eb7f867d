package cards

// Requests of the service, for tests that are clients of their own.
const (
	OpProcess = opProcess
	OpJoin    = opJoin
	OpFile    = opFile
	OpOpen    = opOpen
	OpClose   = opClose
	OpIoctl   = opIoctl
	OpMmap    = opMmap
	OpUnmap   = opUnmap
	OpLast    = opLast
)
