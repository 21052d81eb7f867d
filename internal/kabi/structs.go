package kabi

// GetDeviceInfo is the argument of IoctlGetDeviceInfo.
type GetDeviceInfo struct {
	In  GetDeviceInfoIn
	Out GetDeviceInfoOut
}

// GetDeviceInfoIn asks for OutputSizeBytes of the answer. The driver zeroes that many bytes first,
// so it must never exceed the size of the real buffer.
type GetDeviceInfoIn struct {
	OutputSizeBytes uint32
}

// GetDeviceInfoOut is the PCI identity of a device.
type GetDeviceInfoOut struct {
	OutputSizeBytes   uint32
	VendorID          uint16
	DeviceID          uint16
	SubsystemVendorID uint16
	SubsystemID       uint16
	BusDevFn          uint16 // function in bits 0-2, device 3-7, bus 8-15
	MaxDMABufSizeLog2 uint16
	PCIDomain         uint16
	Reserved          uint16
}

// QueryMappings is the argument of IoctlQueryMappings with room for every mapping that the driver
// reports.
type QueryMappings struct {
	In  QueryMappingsIn
	Out [MaxMappings]Mapping
}

// QueryMappingsIn asks for OutputMappingCount entries; those beyond the known ones are zeroed.
type QueryMappingsIn struct {
	OutputMappingCount uint32
	Reserved           uint32
}

// Mapping is one mappable PCI resource: where in the file it starts and how long it is, in bytes.
type Mapping struct {
	MappingID   uint32
	Reserved    uint32
	MappingBase uint64
	MappingSize uint64
}

// AllocateDMABuf is the argument of IoctlAllocateDMABuf.
type AllocateDMABuf struct {
	In  AllocateDMABufIn
	Out AllocateDMABufOut
}

// AllocateDMABufIn asks for a kernel buffer of whole pages.
type AllocateDMABufIn struct {
	RequestedSize uint32
	BufIndex      uint8
	Flags         uint8
	Reserved0     [2]uint8
	Reserved1     [2]uint64
}

// AllocateDMABufOut says where the buffer is for a device, for mmap, and on the NoC.
type AllocateDMABufOut struct {
	PhysicalAddress uint64
	MappingOffset   uint64
	Size            uint32
	Reserved0       uint32
	NOCAddress      uint64
	Reserved1       uint64
}

// GetDriverInfo is the argument of IoctlGetDriverInfo.
type GetDriverInfo struct {
	In  GetDriverInfoIn
	Out GetDriverInfoOut
}

// GetDriverInfoIn asks for OutputSizeBytes of the answer.
type GetDriverInfoIn struct {
	OutputSizeBytes uint32
}

// GetDriverInfoOut is the version of the ioctl interface and, from driver 2.0.0 on, of the driver.
type GetDriverInfoOut struct {
	OutputSizeBytes    uint32
	DriverVersion      uint32
	DriverVersionMajor uint8
	DriverVersionMinor uint8
	DriverVersionPatch uint8
	Reserved0          uint8
}

// ResetDevice is the argument of IoctlResetDevice.
type ResetDevice struct {
	In  ResetDeviceIn
	Out ResetDeviceOut
}

// ResetDeviceIn names a reset mode.
type ResetDeviceIn struct {
	OutputSizeBytes uint32
	Flags           uint32
}

// ResetDeviceOut carries the outcome: a reset that failed is a call that succeeded with Result 1.
type ResetDeviceOut struct {
	OutputSizeBytes uint32
	Result          uint32
}

// PinPages is the argument of IoctlPinPages that asks for the physical address only.
type PinPages struct {
	In  PinPagesIn
	Out PinPagesOut
}

// PinPagesExtended is the argument of IoctlPinPages that also asks for the NoC address.
type PinPagesExtended struct {
	In  PinPagesIn
	Out PinPagesOutExtended
}

// PinPagesIn names a range of the caller's address space in whole pages.
type PinPagesIn struct {
	OutputSizeBytes uint32
	Flags           uint32
	VirtualAddress  uint64
	Size            uint64
}

// PinPagesOut is the short answer: a physical address, or an I/O virtual address behind an IOMMU.
type PinPagesOut struct {
	PhysicalAddress uint64
}

// PinPagesOutExtended is the long answer. NOCAddress is meant only when a NoC flag was given.
type PinPagesOutExtended struct {
	PhysicalAddress uint64
	NOCAddress      uint64
}

// UnpinPages is the argument of IoctlUnpinPages.
type UnpinPages struct {
	In UnpinPagesIn
}

// UnpinPagesIn names exactly the range that was pinned.
type UnpinPagesIn struct {
	VirtualAddress uint64
	Size           uint64
	Reserved       uint64
}

// LockCtl is the argument of IoctlLockCtl.
type LockCtl struct {
	In  LockCtlIn
	Out LockCtlOut
}

// LockCtlIn names an operation and a lock.
type LockCtlIn struct {
	OutputSizeBytes uint32
	Flags           uint32
	Index           uint8
	Reserved        [3]uint8
}

// LockCtlOut carries the outcome of a lock operation; the call itself succeeds either way.
type LockCtlOut struct {
	Value    uint8
	Reserved [3]uint8
}

// MapPeerBar is the argument of IoctlMapPeerBar.
type MapPeerBar struct {
	In  MapPeerBarIn
	Out MapPeerBarOut
}

// MapPeerBarIn names a range of another device's BAR. PeerBarIndex is the raw PCI resource index 0,
// 2 or 4.
type MapPeerBarIn struct {
	PeerFD        uint32
	PeerBarIndex  uint32
	PeerBarOffset uint32
	PeerBarLength uint32
	Flags         uint32
	Reserved      uint32
}

// MapPeerBarOut is the address under which this device reaches the peer's BAR.
type MapPeerBarOut struct {
	DMAAddress uint64
	Reserved   uint64
}

// AllocateTLB is the argument of IoctlAllocateTLB.
type AllocateTLB struct {
	In  AllocateTLBIn
	Out AllocateTLBOut
}

// AllocateTLBIn asks for a window of exactly Size bytes.
type AllocateTLBIn struct {
	Size     uint64
	Reserved uint64
}

// AllocateTLBOut names a window (0 is a valid id) and its two mmap offsets.
type AllocateTLBOut struct {
	ID           uint32
	Reserved0    uint32
	MmapOffsetUC uint64
	MmapOffsetWC uint64
	Reserved1    uint64
}

// FreeTLB is the argument of IoctlFreeTLB.
type FreeTLB struct {
	In FreeTLBIn
}

// FreeTLBIn names a window.
type FreeTLBIn struct {
	ID uint32
}

// NOCTLBConfig says where a window leads. Addr is a multiple of the window's size. The unicast
// target is XEnd, YEnd; XStart, YStart are the other corner of a multicast rectangle and zero
// otherwise. Values wider than the hardware's field are cut without an error.
type NOCTLBConfig struct {
	Addr      uint64
	XEnd      uint16
	YEnd      uint16
	XStart    uint16
	YStart    uint16
	NOC       uint8
	Mcast     uint8
	Ordering  uint8 // 0 relaxed, 1 strict, 2 posted
	Linked    uint8
	StaticVC  uint8 // dropped by the driver on Wormhole
	Reserved0 [3]uint8
	Reserved1 [2]uint32
}

// ConfigureTLB is the argument of IoctlConfigureTLB.
type ConfigureTLB struct {
	In  ConfigureTLBIn
	Out ConfigureTLBOut
}

// ConfigureTLBIn re-targets a window.
type ConfigureTLBIn struct {
	ID       uint32
	Reserved uint32
	Config   NOCTLBConfig
}

// ConfigureTLBOut is never written.
type ConfigureTLBOut struct {
	Reserved uint64
}

// SetNOCCleanup is the argument of IoctlSetNOCCleanup: a 32-bit write that the driver performs when
// the last reference to the file goes.
type SetNOCCleanup struct {
	Argsz     uint32
	Flags     uint32
	Enabled   uint8
	X         uint8
	Y         uint8
	NOC       uint8
	Reserved0 uint32
	Addr      uint64
	Data      uint64
}

// PowerState is the argument of IoctlSetPowerState.
type PowerState struct {
	Argsz         uint32
	Flags         uint32
	Reserved0     uint8
	Validity      uint8
	PowerFlags    uint16
	PowerSettings [PowerSettingCount]uint16
}

// ExportTLBDMABuf is the argument of IoctlExportTLBDMABuf.
type ExportTLBDMABuf struct {
	Argsz  uint32
	Flags  uint32
	TLBID  uint32
	FD     int32
	Offset uint64
	Size   uint64
}

// SMCMessage is the argument of IoctlSMCMessage: a message to the management firmware, or its
// answer.
type SMCMessage struct {
	Argsz      uint32
	Flags      uint32
	QueueIndex uint32
	Reserved0  uint32
	Message    [8]uint32
}

// NOCAccess is the argument of IoctlNOCRead and IoctlNOCWrite: one access of Width bytes that can't
// fault.
type NOCAccess struct {
	Argsz     uint32
	Flags     uint32
	X         uint16
	Y         uint16
	NOC       uint8
	Width     uint8
	Reserved0 [2]uint8
	Addr      uint64
	Value     uint64
}
