package core

import (
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/chip"
)

// Device is what this package needs of a device.
type Device interface {
	Arch() chip.Arch
	CoreDebug() bool
	// At an address of the tile at a virtual coordinate.
	Read32(xy chip.XY, addr uint64) (uint32, error)
	Write32(xy chip.XY, addr uint64, v uint32) error
	Read(xy chip.XY, addr uint64, p []byte) error
	Write(xy chip.XY, addr uint64, p []byte) error
}

// Registers of the tile, DebugInterface.md "Debug register access".
const (
	regBusControl = 0xFFB12054 // RISCV_DEBUG_REG_DBG_BUS_CNTL_REG
	regBusData    = 0xFFB1205C // RISCV_DEBUG_REG_DBG_RD_DATA
	regControl0   = 0xFFB12080 // RISCV_DEBUG_REG_RISC_DBG_CNTL_0
	regControl1   = 0xFFB12084 // RISCV_DEBUG_REG_RISC_DBG_CNTL_1
	regStatus0    = 0xFFB12088 // RISCV_DEBUG_REG_RISC_DBG_STATUS_0
	regStatus1    = 0xFFB1208C // RISCV_DEBUG_REG_RISC_DBG_STATUS_1

	portTrigger = 1 << 31 // of control 0: a change from 0 to 1 makes an access
	portValid   = 1 << 30 // of status 0: status 1 has what was read
	portWrite   = 1 << 16
	portWhich   = 17 // first bit of control 0 that selects a processor
)

// Registers of a processor, DebugInterface.md "Debug registers".
const (
	drStatus  = 0
	drCommand = 1
	drArg0    = 2
	drArg1    = 3 // data; the new pc
	drResult  = 4
	drModes   = 5
	drAddress = 10
)

// polls bounds the reads of a register until it answers. The hardware needs a few cycles, a read of
// the host takes hundreds.
const polls = 1000

// A Tile is one Tensix tile whose processors are debugged.
type Tile struct {
	dev Device
	xy  chip.XY

	mu sync.Mutex
}

// Open returns the tile at a virtual coordinate, without an access. The error wraps ErrUnsupported
// if the device has no debug interface.
func Open(dev Device, virtual chip.XY) (*Tile, error) {
	if !dev.CoreDebug() {
		return nil, fmt.Errorf("core: tile %v: %w: the vendor's simulator stops at its registers", virtual, ErrUnsupported)
	}
	return &Tile{dev: dev, xy: virtual}, nil
}

// XY is the tile's virtual coordinate.
func (t *Tile) XY() chip.XY { return t.xy }

// Device is the device that it is of.
func (t *Tile) Device() Device { return t.dev }

func (t *Tile) writeLocked(which, dr, v uint32) error {
	for _, w := range [...]struct{ reg, v uint32 }{
		{regControl1, v}, {regControl0, 0}, {regControl0, portTrigger | portWrite | which<<portWhich | dr},
	} {
		if err := t.dev.Write32(t.xy, uint64(w.reg), w.v); err != nil {
			return err
		}
	}
	return t.echoLocked(portTrigger)
}

func (t *Tile) readLocked(which, dr uint32) (uint32, error) {
	for _, v := range [...]uint32{0, portTrigger | which<<portWhich | dr} {
		if err := t.dev.Write32(t.xy, regControl0, v); err != nil {
			return 0, err
		}
	}
	if err := t.echoLocked(portTrigger | portValid); err != nil {
		return 0, err
	}
	return t.dev.Read32(t.xy, regStatus1)
}

func (t *Tile) echoLocked(bits uint32) error {
	for range polls {
		v, err := t.dev.Read32(t.xy, regStatus0)
		if err != nil || v&bits == bits {
			return err
		}
	}
	return fmt.Errorf("%w: its registers don't answer", ErrUnsupported)
}

// bus reads one word of a signal of the debug daisychain (DebugDaisychain.md).
func (t *Tile) bus(daisy, signal, word uint32) (v uint32, err error) {
	const enable = 1 << 29
	t.mu.Lock()
	defer t.mu.Unlock()
	err = t.dev.Write32(t.xy, regBusControl, enable|word<<25|daisy<<16|signal)
	for i := 0; i < 2 && err == nil; i++ {
		v, err = t.dev.Read32(t.xy, regBusData)
	}
	if err == nil {
		err = t.dev.Write32(t.xy, regBusControl, 0)
	}
	return v, err
}
