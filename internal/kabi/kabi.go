// Package kabi is the ioctl interface of Tenstorrent's kernel driver as Go data: request numbers,
// flags and structs with the layout of tt-kmd's ioctl.h (driver 2.10, commit 4af7192). All 64-bit
// fields of that header are at multiples of eight, and every reserved field is declared here, so Go
// and C layouts are equal on 64-bit targets, as a test checks. Empty C structs have no field here:
// a trailing empty field would add padding.
package kabi

import "fmt"

// Magic is the ioctl type of the driver. Requests carry neither size nor direction bits (tt-kmd
// ioctl.h, TENSTORRENT_IOCTL_MAGIC).
const Magic = 0xFA

// Ioctl request numbers, _IO(Magic, n).
const (
	IoctlGetDeviceInfo   = Magic << 8
	IoctlGetHarvesting   = Magic<<8 | 1 // always EINVAL
	IoctlQueryMappings   = Magic<<8 | 2
	IoctlAllocateDMABuf  = Magic<<8 | 3
	IoctlFreeDMABuf      = Magic<<8 | 4 // always EINVAL: buffers live until the last reference to the file goes
	IoctlGetDriverInfo   = Magic<<8 | 5
	IoctlResetDevice     = Magic<<8 | 6
	IoctlPinPages        = Magic<<8 | 7
	IoctlLockCtl         = Magic<<8 | 8
	IoctlMapPeerBar      = Magic<<8 | 9
	IoctlUnpinPages      = Magic<<8 | 10
	IoctlAllocateTLB     = Magic<<8 | 11
	IoctlFreeTLB         = Magic<<8 | 12
	IoctlConfigureTLB    = Magic<<8 | 13
	IoctlSetNOCCleanup   = Magic<<8 | 14 // since 2.2.0
	IoctlSetPowerState   = Magic<<8 | 15 // since 2.6.0
	IoctlExportTLBDMABuf = Magic<<8 | 16 // since 2.10.0
)

// Newer requests, by the driver's test programs and pull requests (tenstorrent/tt-kmd#266 and
// #283), not a released header: ask the driver whether it has them.
const (
	IoctlSMCMessage = Magic<<8 | 17
	IoctlNOCRead    = Magic<<8 | 18
	IoctlNOCWrite   = Magic<<8 | 19
)

var requestNames = [...]string{
	"GET_DEVICE_INFO", "GET_HARVESTING", "QUERY_MAPPINGS", "ALLOCATE_DMA_BUF", "FREE_DMA_BUF", "GET_DRIVER_INFO", "RESET_DEVICE",
	"PIN_PAGES", "LOCK_CTL", "MAP_PEER_BAR", "UNPIN_PAGES", "ALLOCATE_TLB", "FREE_TLB", "CONFIGURE_TLB", "SET_NOC_CLEANUP",
	"SET_POWER_STATE", "EXPORT_TLB_DMABUF", "SMC_MSG", "NOC_READ", "NOC_WRITE",
}

// RequestName returns the driver's name of a request, or the number of another one in hex.
func RequestName(request uint32) string {
	if n := request & 0xFF; request>>8 == Magic && int(n) < len(requestNames) {
		return requestNames[n]
	}
	return fmt.Sprintf("%#x", request)
}

const VendorTenstorrent = 0x1E52 // PCI vendor (tt-kmd enumerate.h)

// DriverAPIVersion is GetDriverInfoOut.DriverVersion from driver 2.0.0 on, the version of the ioctl
// interface and not of the driver.
const DriverAPIVersion = 2

const OldestDriver = "2.0.0" // the first with that interface

// Limits of the header.
const (
	MaxDMABufs       = 256
	MaxInboundTLBs   = 256
	LockCount        = 64
	MaxMappings      = 6  // resources 0, 1, 2, each uncached and write-combined (tt-kmd memory.c)
	MaxIATURegions   = 16 // of a device, outbound, shared by all users (tt-kmd memory.h)
	MaxDMABufLog2    = 28 // tt-kmd memory.h, MAX_DMA_BUF_SIZE_LOG2
	MaxPowerValidity = 0xEF
)

// Mapping ids of QueryMappings: resource 0, 1, 2 are PCI BARs 0, 2, 4, each uncached from id 1 on
// and write-combined after it.
const (
	MappingUnused      = 0
	MappingResource2WC = 6
)

// AllocateDMABufNOCDMA asks for a NoC address for a DMA buffer, from the top.
const AllocateDMABufNOCDMA = 2

// Reset modes of ResetDeviceIn.Flags.
const (
	ResetRestoreState = 0
	ResetPCIeLink     = 1
	ResetConfigWrite  = 2
	ResetUser         = 3
	ResetASIC         = 4
	ResetASICDMC      = 5
	ResetPost         = 6
)

const (
	PinPagesContiguous = 1 // never consulted: the IOMMU's state decides
	PinPagesNOCDMA     = 2 // map into the aperture that the NoC reaches, lowest free range first
	PinPagesNOCTopDown = 4 // the same, highest free range first
	PinPagesReadOnly   = 8 // since 2.9.0; needs a translating IOMMU
)

// Operations of LockCtlIn.Flags.
const (
	LockAcquire         = 0
	LockRelease         = 1
	LockTest            = 2
	LockAcquireBlocking = 3 // since 2.7.0; can't be interrupted by a context
)

// Lock indices by convention: 0 to 15 belong to the Ethernet cores (ioctl.h), the others are
// tt-umd's (device/utils/lock_manager.cpp).
const (
	LockIndexETH0             = 0
	LockIndexARCMessage       = 16
	LockIndexRemoteARCMessage = 17
	LockIndexNonMMIO          = 18
	LockIndexMemoryBarrier    = 19
	LockIndexChipInUse        = 20
	LockIndexPCIeDMA          = 21
)

// Operations of SMCMessage.Flags.
const (
	SMCPost    = 1
	SMCPoll    = 2
	SMCAbandon = 4
)

// Power flags of PowerState.
const (
	PowerMaxAIClock   = 1 << 0
	PowerDRAMPHY      = 1 << 1
	PowerTensix       = 1 << 2
	PowerL2CPU        = 1 << 3
	PowerAll          = 0x7FFF // bit 15 is reserved by the firmware
	PowerFlagCount    = 15
	PowerSettingCount = 14
)

// PowerValidity packs how many power flags and settings of a PowerState are meant.
func PowerValidity(flags, settings uint8) uint8 { return flags&0xF | settings&0xF<<4 }
