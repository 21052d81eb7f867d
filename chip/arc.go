package chip

// ARCParams describe the chip's management processor. NoC addresses are in the ARC tile
// ([Chip.ARC]). Sources: tt-isa-documentation WormholeB0/ARCTile/ResetUnit.md, tt-kmd wormhole.c
// and blackhole.c, tt-umd device/arc.
type ARCParams struct {
	APB       uint64
	CSM       uint64 // NoC address of the local memory
	CSMSize   uint32
	ResetUnit uint64

	// Offsets in the reset unit.
	Scratch         uint32 // SCRATCH_0; _n is 4*n after it
	MiscControl     uint32 // Wormhole: bit 16 rings the firmware after a message; Blackhole: also its message queue
	TelemetryTable  uint32
	TelemetryValues uint32
	NIU             [2]uint32 // APB offsets of the tile's network interfaces

	PointerBase uint64 // added to telemetry and queue pointers to make NoC addresses
}

// ARCMessage is a message code of the management firmware.
type ARCMessage uint8

// Message codes of the management firmware (tt-umd device/arch/*_implementation.hpp, tt-kmd
// wormhole.c and blackhole.c).
const (
	ARCNop            ARCMessage = 0x11
	ARCPowerSetting   ARCMessage = 0x21
	ARCSMBusTelemetry ARCMessage = 0x2C
	ARCGetAICLK       ARCMessage = 0x34
	ARCPCIeIndex      ARCMessage = 0x51
	ARCBusy           ARCMessage = 0x52
	ARCShortIdle      ARCMessage = 0x53
	ARCLongIdle       ARCMessage = 0x54
	ARCReset          ARCMessage = 0x56
	ARCGetHarvesting  ARCMessage = 0x57
	ARCSetTrained     ARCMessage = 0x58
	ARCTest           ARCMessage = 0x90
	ARCASICState0     ARCMessage = 0xA0
	ARCASICState3     ARCMessage = 0xA3
	ARCRetrain        ARCMessage = 0xB6
	ARCDate           ARCMessage = 0xB7
	ARCReleaseRISC    ARCMessage = 0xBA
	ARCM3Timeout      ARCMessage = 0xBC
	ARCQueuePower     ARCMessage = 0xC0 // Wormhole, through the queue
	ARCWatchdog       ARCMessage = 0xC1
)

// Wormhole's message protocol in the scratch registers.
const (
	ARCMessagePresent = 0xAA00  // or-ed with the code in SCRATCH_5
	ARCMiscControlIRQ = 1 << 16 // in MiscControl
)

// TelemetryTag names a telemetry value (tt-umd device/api/umd/device/types/telemetry.hpp, tt-kmd
// telemetry.h).
type TelemetryTag uint16

// Telemetry tags.
const (
	TagBoardIDHigh     TelemetryTag = 1
	TagBoardIDLow      TelemetryTag = 2
	TagASICID          TelemetryTag = 3
	TagHarvesting      TelemetryTag = 4
	TagVCore           TelemetryTag = 6
	TagPower           TelemetryTag = 7
	TagCurrent         TelemetryTag = 8
	TagVDDLimits       TelemetryTag = 9  // millivolts, the higher one in the upper half
	TagASICTemperature TelemetryTag = 11 // degrees Celsius, 16.16 fixed point
	TagBoardTemp       TelemetryTag = 13
	TagAICLK           TelemetryTag = 14
	TagAXICLK          TelemetryTag = 15
	TagARCCLK          TelemetryTag = 16
	TagEthernetLive    TelemetryTag = 21
	TagGDDRStatus      TelemetryTag = 22 // 2 bits per channel, 1 = trained
	TagGDDRSpeed       TelemetryTag = 23
	TagEthernetFW      TelemetryTag = 24
	TagBoardApp        TelemetryTag = 26
	TagBoardBoot       TelemetryTag = 27
	TagFirmwareBundle  TelemetryTag = 28
	TagManagement      TelemetryTag = 29
	TagFanSpeed        TelemetryTag = 31
	TagHeartbeat       TelemetryTag = 32
	TagEnabledColumns  TelemetryTag = 34 // Blackhole, see HarvestingFromTelemetry
	TagEnabledEthernet TelemetryTag = 35
	TagEnabledGDDR     TelemetryTag = 36
	TagEnabledL2CPU    TelemetryTag = 37
	TagPCIeUsage       TelemetryTag = 38
	TagTranslation     TelemetryTag = 40
	TagFanRPM          TelemetryTag = 41
	TagASICLocation    TelemetryTag = 52
	TagCurrentLimit    TelemetryTag = 55
	TagThrottle        TelemetryTag = 56 // degrees Celsius from which the clock is lowered
	TagFlashTool       TelemetryTag = 58
	TagThermalTrips    TelemetryTag = 60 // times that heat has stopped the chip
	TagASICIDHigh      TelemetryTag = 61
	TagASICIDLow       TelemetryTag = 62
	TagPowerLimit      TelemetryTag = 64
)
