package driver

import "unsafe"

// address returns where mapped memory lies.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
