package kabi

// SetSize fills in the size field of an argument or answer, if there is one: the driver zeroes that
// many bytes of the answer.
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
