package cards

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
