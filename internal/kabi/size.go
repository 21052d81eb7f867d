package kabi

// SetSize fills in the field of an argument that says how large it is, or how much of an answer it
// has room for: the driver zeroes that many bytes of the answer, so it must be the size of the
// struct. Arguments without such a field stay as they are.
func SetSize[T Arg](p *T) {
	switch a := any(p).(type) {
	case *GetDeviceInfo:
		a.In.OutputSizeBytes = size32[GetDeviceInfoOut]()
	case *QueryMappings:
		a.In.OutputMappingCount = uint32(len(a.Out))
	case *GetDriverInfo:
		a.In.OutputSizeBytes = size32[GetDriverInfoOut]()
	case *ResetDevice:
		a.In.OutputSizeBytes = size32[ResetDeviceOut]()
	case *PinPages:
		a.In.OutputSizeBytes = size32[PinPagesOut]()
	case *PinPagesExtended:
		a.In.OutputSizeBytes = size32[PinPagesOutExtended]()
	case *LockCtl:
		a.In.OutputSizeBytes = size32[LockCtlOut]()
	case *SetNOCCleanup:
		a.Argsz = size32[SetNOCCleanup]()
	case *PowerState:
		a.Argsz = size32[PowerState]()
	case *ExportTLBDMABuf:
		a.Argsz = size32[ExportTLBDMABuf]()
	case *SMCMessage:
		a.Argsz = size32[SMCMessage]()
	case *NOCAccess:
		a.Argsz = size32[NOCAccess]()
	}
}

func size32[T Part]() uint32 { return uint32(Size[T]()) }
