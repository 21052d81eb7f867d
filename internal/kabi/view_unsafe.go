package kabi

import "unsafe"

// Arg is a complete ioctl argument.
type Arg interface {
	GetDeviceInfo | QueryMappings | AllocateDMABuf | GetDriverInfo | ResetDevice | PinPages | PinPagesExtended |
		UnpinPages | LockCtl | MapPeerBar | AllocateTLB | FreeTLB | ConfigureTLB | SetNOCCleanup | PowerState |
		ExportTLBDMABuf | SMCMessage | NOCAccess
}

// Part is an input or an output of an ioctl, or an argument that is both.
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

// PartBytes is the memory of one part of an argument.
func PartBytes[T Part](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// Size is the number of bytes of a part.
func Size[T Part]() int {
	var v T
	return int(unsafe.Sizeof(v))
}
