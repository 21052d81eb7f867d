package kabi

import (
	"syscall"
	"unsafe"
)

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

// Decode splits an argument into its first part and the rest. Missing bytes are zero, and ok is
// false.
func Decode[T Part](arg []byte) (part T, rest []byte, ok bool) {
	n := copy(PartBytes(&part), arg)
	return part, arg[n:], n == Size[T]()
}

// Handle passes the input of an argument and the rest to do. A too short argument is EFAULT, like a
// bad pointer.
func Handle[T Part](do func(in T, rest []byte) error, arg []byte) error {
	in, rest, ok := Decode[T](arg)
	if !ok {
		return syscall.EFAULT
	}
	return do(in, rest)
}

// Put encodes a part to the start of an argument.
func Put[T Part](arg []byte, part *T) { copy(arg, PartBytes(part)) }

// Size is the number of bytes of a part.
func Size[T Part]() int {
	var v T
	return int(unsafe.Sizeof(v))
}
