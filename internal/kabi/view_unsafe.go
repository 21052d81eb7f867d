package kabi

import "unsafe"

type Arg interface {
	GetDeviceInfo | QueryMappings | AllocateDMABuf | GetDriverInfo | ResetDevice | PinPages | PinPagesExtended |
		UnpinPages | LockCtl | MapPeerBar | AllocateTLB | FreeTLB | ConfigureTLB | SetNOCCleanup | PowerState |
		ExportTLBDMABuf | SMCMessage | NOCAccess
}

type Part interface {
	GetDeviceInfoIn | GetDeviceInfoOut | QueryMappingsIn | Mapping | AllocateDMABufIn | AllocateDMABufOut |
		GetDriverInfoIn | GetDriverInfoOut | ResetDeviceIn | ResetDeviceOut | PinPagesIn | PinPagesOut |
		PinPagesOutExtended | UnpinPagesIn | LockCtlIn | LockCtlOut | MapPeerBarIn | MapPeerBarOut |
		AllocateTLBIn | AllocateTLBOut | FreeTLBIn | ConfigureTLBIn | SetNOCCleanup | PowerState | ExportTLBDMABuf |
		SMCMessage | NOCAccess
}

// Bytes is the memory of an argument. No struct here holds a pointer or implicit padding.
func Bytes[T Arg](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

func PartBytes[T Part](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

func Size[T Part]() int {
	var v T
	return int(unsafe.Sizeof(v))
}
