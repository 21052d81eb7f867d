package kabi

// X is the argument of IoctlX, with XIn and XOut where the header separates the two.

type inOut[I, O any] struct {
	In  I
	Out O
}

// GetDeviceInfo is the argument of IoctlGetDeviceInfo.
type GetDeviceInfo inOut[GetDeviceInfoIn, GetDeviceInfoOut]

// The driver zeroes OutputSizeBytes of the answer first: never more than the real buffer.
type GetDeviceInfoIn struct {
	OutputSizeBytes uint32
}

// GetDeviceInfoOut is the PCI identity of a device.
type GetDeviceInfoOut struct {
	OutputSizeBytes                                    uint32
	VendorID, DeviceID, SubsystemVendorID, SubsystemID uint16
	BusDevFn                                           uint16 // function in bits 0-2, device 3-7, bus 8-15
	MaxDMABufSizeLog2, PCIDomain, Reserved             uint16
}

// QueryMappings is the argument of IoctlQueryMappings with room for every mapping that the driver
// reports.
type QueryMappings struct {
	In  QueryMappingsIn
	Out [MaxMappings]Mapping
}

// Entries beyond the known ones are zeroed.
type QueryMappingsIn struct {
	OutputMappingCount, Reserved uint32
}

// Mapping is one mappable PCI resource.
type Mapping struct {
	MappingID, Reserved      uint32
	MappingBase, MappingSize uint64
}

// AllocateDMABuf is the argument of IoctlAllocateDMABuf.
type AllocateDMABuf inOut[AllocateDMABufIn, AllocateDMABufOut]

// AllocateDMABufIn asks for a kernel buffer of whole pages.
type AllocateDMABufIn struct {
	RequestedSize   uint32
	BufIndex, Flags uint8
	Reserved0       [2]uint8
	Reserved1       [2]uint64
}

// For a device, for mmap, and on the NoC.
type AllocateDMABufOut struct {
	PhysicalAddress, MappingOffset uint64
	Size, Reserved0                uint32
	NOCAddress, Reserved1          uint64
}

// GetDriverInfo is the argument of IoctlGetDriverInfo.
type GetDriverInfo inOut[GetDriverInfoIn, GetDriverInfoOut]

// GetDriverInfoIn asks for OutputSizeBytes of the answer.
type GetDriverInfoIn struct {
	OutputSizeBytes uint32
}

// The driver's own version from driver 2.0.0 on.
type GetDriverInfoOut struct {
	OutputSizeBytes, DriverVersion                                        uint32
	DriverVersionMajor, DriverVersionMinor, DriverVersionPatch, Reserved0 uint8
}

// ResetDevice is the argument of IoctlResetDevice.
type ResetDevice inOut[ResetDeviceIn, ResetDeviceOut]

// ResetDeviceIn names a reset mode.
type ResetDeviceIn struct {
	OutputSizeBytes, Flags uint32
}

// A reset that failed is a call that succeeded with Result 1.
type ResetDeviceOut struct {
	OutputSizeBytes, Result uint32
}

// PinPages is the argument of IoctlPinPages that asks for the physical address only.
type PinPages inOut[PinPagesIn, PinPagesOut]

// PinPagesExtended is the argument of IoctlPinPages that also asks for the NoC address.
type PinPagesExtended inOut[PinPagesIn, PinPagesOutExtended]

// PinPagesIn names a range of the caller's address space in whole pages.
type PinPagesIn struct {
	OutputSizeBytes, Flags uint32
	VirtualAddress, Size   uint64
}

// A physical address, or an I/O virtual address behind an IOMMU.
type PinPagesOut struct {
	PhysicalAddress uint64
}

// NOCAddress is meant only when a NoC flag was given.
type PinPagesOutExtended struct {
	PhysicalAddress, NOCAddress uint64
}

// UnpinPages is the argument of IoctlUnpinPages.
type UnpinPages struct {
	In UnpinPagesIn
}

// Exactly the range that was pinned.
type UnpinPagesIn struct {
	VirtualAddress, Size, Reserved uint64
}

// LockCtl is the argument of IoctlLockCtl.
type LockCtl inOut[LockCtlIn, LockCtlOut]

// LockCtlIn names an operation and a lock.
type LockCtlIn struct {
	OutputSizeBytes, Flags uint32
	Index                  uint8
	Reserved               [3]uint8
}

// The call itself succeeds either way.
type LockCtlOut struct {
	Value    uint8
	Reserved [3]uint8
}

// MapPeerBar is the argument of IoctlMapPeerBar.
type MapPeerBar inOut[MapPeerBarIn, MapPeerBarOut]

// MapPeerBarIn names a range of another device's BAR.
type MapPeerBarIn struct {
	PeerFD, PeerBarIndex, PeerBarOffset, PeerBarLength, Flags, Reserved uint32
}

// MapPeerBarOut is the address under which this device reaches the peer's BAR.
type MapPeerBarOut struct {
	DMAAddress, Reserved uint64
}

// AllocateTLB is the argument of IoctlAllocateTLB.
type AllocateTLB inOut[AllocateTLBIn, AllocateTLBOut]

// AllocateTLBIn asks for a window of exactly Size bytes.
type AllocateTLBIn struct {
	Size, Reserved uint64
}

// 0 is a valid ID.
type AllocateTLBOut struct {
	ID, Reserved0                         uint32
	MmapOffsetUC, MmapOffsetWC, Reserved1 uint64
}

// FreeTLB is the argument of IoctlFreeTLB.
type FreeTLB struct {
	In FreeTLBIn
}

// FreeTLBIn names a window.
type FreeTLBIn struct {
	ID uint32
}

// NOCTLBConfig says where a window leads. The unicast target is XEnd, YEnd; XStart, YStart are the
// other corner of a multicast rectangle or zero. Values wider than the hardware's field are cut
// without an error.
type NOCTLBConfig struct {
	Addr                       uint64
	XEnd, YEnd, XStart, YStart uint16
	NOC, Mcast                 uint8
	Ordering                   uint8 // 0 relaxed, 1 strict, 2 posted
	Linked                     uint8
	StaticVC                   uint8 // dropped by the driver on Wormhole
	Reserved0                  [3]uint8
	Reserved1                  [2]uint32
}

// ConfigureTLB is the argument of IoctlConfigureTLB.
type ConfigureTLB inOut[ConfigureTLBIn, ConfigureTLBOut]

// ConfigureTLBIn re-targets a window.
type ConfigureTLBIn struct {
	ID, Reserved uint32
	Config       NOCTLBConfig
}

// ConfigureTLBOut is never written.
type ConfigureTLBOut struct {
	Reserved uint64
}

// SetNOCCleanup is a 32-bit write that the driver performs when the last reference to the file
// goes.
type SetNOCCleanup struct {
	Argsz, Flags       uint32
	Enabled, X, Y, NOC uint8
	Reserved0          uint32
	Addr, Data         uint64
}

// PowerState is the argument of IoctlSetPowerState.
type PowerState struct {
	Argsz, Flags        uint32
	Reserved0, Validity uint8
	PowerFlags          uint16
	PowerSettings       [PowerSettingCount]uint16
}

// ExportTLBDMABuf is the argument of IoctlExportTLBDMABuf.
type ExportTLBDMABuf struct {
	Argsz, Flags, TLBID uint32
	FD                  int32
	Offset, Size        uint64
}

// SMCMessage is the argument of IoctlSMCMessage.
type SMCMessage struct {
	Argsz, Flags, QueueIndex, Reserved0 uint32
	Message                             [8]uint32
}

// NOCAccess is an access of Width bytes that can't fault, for IoctlNOCRead and IoctlNOCWrite.
type NOCAccess struct {
	Argsz, Flags uint32
	X, Y         uint16
	NOC, Width   uint8
	Reserved0    [2]uint8
	Addr, Value  uint64
}
