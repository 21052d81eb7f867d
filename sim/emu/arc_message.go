package emu

import "github.com/reprise-tt/reprise/chip"

// Codes of messages to the ARC firmware that only the emulator names (tt-umd
// device/types/blackhole_arc.hpp and *_implementation.hpp, tt-zephyr-platforms smc_msg.h).
const (
	arcReportScratch chip.ARCMessage = 0x16
	arcReadEEPROM    chip.ARCMessage = 0x19 // Blackhole
	arcReadSensor    chip.ARCMessage = 0x1B // Blackhole
	arcWriteEEPROM   chip.ARCMessage = 0x1A // Blackhole
	arcFlashAddress  chip.ARCMessage = 0x29 // Wormhole
	arcFlashRead     chip.ARCMessage = 0x2A // Wormhole
	arcFlashWrite    chip.ARCMessage = 0x2B // Wormhole
	arcFlashCopy     chip.ARCMessage = 0x50 // Wormhole: from the flash of an n300's first chip to the second one's
	arcSleep         chip.ARCMessage = 0x55 // Wormhole
	arcForceAICLK    chip.ARCMessage = 0x33 // Blackhole
	arcSetSerial     chip.ARCMessage = 0xBE
	arcFlashUnlock   chip.ARCMessage = 0xC2 // Blackhole
	arcFlashLock     chip.ARCMessage = 0xC3 // Blackhole
	arcConfirmFlash  chip.ARCMessage = 0xC4 // Blackhole
	arcPing          chip.ARCMessage = 0xC0
	arcOther         chip.ARCMessage = 0xC7 // Blackhole
)

// What the firmware answers to a message that it doesn't know (luwen arc_msg.rs MSG_ERROR_REPLY;
// tt-zephyr-platforms msgqueue.c MSG_ERROR_REPLY).
const (
	arcUnknownScratch = 0xFFFFFFFF
	arcUnknownQueue   = 0xFF
	arcScratchOnly    = 0xFE // to arcReportScratch
)

// idleTemperature is a chip's temperature in 65,536ths of a degree, as telemetry has it, and
// rawTemperature about what a sensor reads then (tt-zephyr-platforms pvt_tt_bh_decoder.c).
const (
	idleTemperature = 40 << 16
	rawTemperature  = 1376
)

// arcReply is the firmware's answer to a message.
type arcReply struct {
	exit  uint32 // 0 for success
	words [7]uint32
}

// arcMessage answers a message to the ARC firmware (tt-umd *_implementation.hpp arc_message_type;
// tt-kmd). known is false for a message that the firmware doesn't know.
func (c *Chip) arcMessage(code chip.ARCMessage, args []uint32) (r arcReply, known bool) {
	idle, busy, first := c.clocks()
	if c.arch == chip.Blackhole {
		if r, known := c.blackholeMessage(code, args); known {
			return r, true
		}
		switch code {
		case chip.ARCNop, chip.ARCPCIeIndex, chip.ARCDate, chip.ARCM3Timeout, chip.ARCShortIdle, chip.ARCGetHarvesting, chip.ARCSetTrained,
			chip.ARCReleaseRISC:
			return r, false // Wormhole's alone: the others have no handler (tt-zephyr-platforms smc_msg.h)
		}
	} else {
		switch code {
		case chip.ARCSMBusTelemetry:
			r.words[0] = arcCSMBase + arcFlatTelemetry
			return r, true
		case chip.ARCGetAICLK:
			r.words[0] = c.arc.aiclk
			return r, true
		case arcFlashAddress:
			r.words[0] = arcCSMBase + arcFlashBuffer
			return r, true
		case arcFlashRead:
			c.readFlash(arcFlashBytes)
			return r, true
		case arcFlashWrite, arcFlashCopy:
			return r, true // the flash ignores writes, and one erased flash is the copy of another
		}
	}
	switch code {
	case chip.ARCGetHarvesting:
		if c.arch == chip.Wormhole {
			r.words[0] = c.harvestedRows()
		}
	case chip.ARCSetTrained:
		r.words[0] = 1
	case chip.ARCReset:
		// Which of chip, board controller or both doesn't matter here: the argument is 0 or 3.
		if c.askReset != nil {
			c.askReset()
		}
	case chip.ARCBusy, chip.ARCShortIdle, chip.ARCLongIdle:
		if !c.arc.forced {
			c.setClock(map[chip.ARCMessage]uint32{chip.ARCBusy: busy, chip.ARCShortIdle: first, chip.ARCLongIdle: idle}[code])
		}
	case chip.ARCTest:
		r.words[0] = args[0] + 1
	case chip.ARCNop, chip.ARCPowerSetting, chip.ARCPCIeIndex, chip.ARCASICState0, chip.ARCASICState3, chip.ARCRetrain, chip.ARCDate,
		chip.ARCReleaseRISC, chip.ARCM3Timeout, arcPing, chip.ARCWatchdog:
		// Accepted, and without effect on what is emulated.
	default:
		return r, false
	}
	return r, true
}

// blackholeMessage answers a message that only Blackhole's firmware knows, or answers differently
// (tt-zephyr-platforms lib/tenstorrent/bh_arc).
func (c *Chip) blackholeMessage(code chip.ARCMessage, args []uint32) (r arcReply, known bool) {
	const fewest, most = 200, 1400 // MHz
	switch code {
	case chip.ARCGetAICLK:
		const unforced = 3 // by an earlier message
		r.words[0], r.words[1] = c.arc.aiclk, unforced
		if c.arc.forced {
			r.words[1] = unforced - 1
		}
	case arcForceAICLK:
		_, _, first := c.clocks()
		f := args[0]
		if f != 0 && (f < fewest || f > most) {
			r.exit = 1
			break
		}
		c.arc.forced = f != 0
		if f == 0 {
			f = first
		}
		c.setClock(f)
	case arcReadSensor:
		r.words[0], r.words[1] = rawTemperature, idleTemperature
	case arcReadEEPROM:
		if n := args[1]; n > arcFlashBytes || args[2] != arcCSMBase+arcFlashBuffer {
			r.exit = 2
		} else {
			c.readFlash(n)
		}
	case arcFlashUnlock:
		r.exit = 1 // the flash can't be written
	case arcWriteEEPROM:
		r.exit = 2 // it is locked
	case arcConfirmFlash:
		r.words[0] = args[0]
	case arcFlashLock, arcSetSerial, arcOther:
	default:
		return r, false
	}
	return r, true
}

// readFlash leaves bytes of the flash where the host reads them: the flash is erased.
func (c *Chip) readFlash(n uint32) {
	for i := range (n + 3) / 4 {
		c.arc.csm[arcFlashBuffer/4+i] = 0xFFFFFFFF
	}
}

// arcScratchMessage answers the message in Wormhole's scratch registers.
func (c *Chip) arcScratchMessage() {
	s := &c.arc.scratch
	code := s[5] & 0xFF
	if code == uint32(arcSleep) {
		return // a host knows from its message, which stays, that ARC sleeps (luwen wormhole.rs ArcReadyError::Asleep)
	}
	r, known := c.arcMessage(chip.ARCMessage(code), s[3:4])
	if !known {
		s[5] = arcUnknownScratch
		return
	}
	s[3] = r.words[0]
	s[5] = code | r.exit<<16
}

// arcQueue answers what is in the message queues (tt-umd
// device/arc/blackhole_arc_message_queue.cpp; tt-kmd msgqueue.c).
func (c *Chip) arcQueue(o origin, where string, addr uint64) bool {
	const header, entry = 32 / 4, 32 / 4
	m := c.arc.csm[:]
	for q := range uint32(arcQueueCount) {
		h := m[(arcQueues/4)+q*(header+2*arcQueueEntries*entry):][:header+2*arcQueueEntries*entry]
		waiting := (h[0] - h[4]) % (2 * arcQueueEntries)
		if waiting > arcQueueEntries {
			c.refuse(o, UndefinedBehavior, where, addr, "ARC message queue %d holds %d requests: it has room for %d", q, waiting, arcQueueEntries)
			return false
		}
		for range waiting {
			req := h[header+h[4]%arcQueueEntries*entry:][:entry]
			resp := h[header+(arcQueueEntries+h[5]%arcQueueEntries)*entry:][:entry]
			c.queuedMessage(req, resp, &h[6])
			h[4] = (h[4] + 1) % (2 * arcQueueEntries)
			h[5] = (h[5] + 1) % (2 * arcQueueEntries)
		}
	}
	return true
}

// queuedMessage answers a request of a queue. serial counts the queue's requests.
func (c *Chip) queuedMessage(req, resp []uint32, serial *uint32) {
	code := chip.ARCMessage(req[0])
	r, known := c.arcMessage(code, req[1:])
	switch {
	case code == arcReportScratch:
		r.exit = arcScratchOnly
	case !known:
		r.exit = arcUnknownQueue
	case code == chip.ARCTest:
		r.words[1] = *serial + 1
	}
	if code == arcSetSerial {
		*serial = req[1]
	} else {
		*serial++
	}
	resp[0] = r.exit
	copy(resp[1:], r.words[:])
}
