package arc

import (
	"cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix"
)

// Codes of messages to the firmware (tt-umd device/types/blackhole_arc.hpp and
// *_implementation.hpp, tt-zephyr-platforms smc_msg.h).
const (
	msgReportScratch = 0x16
	msgReadEEPROM    = 0x19 // Blackhole
	msgReadSensor    = 0x1B // Blackhole
	msgWriteEEPROM   = 0x1A // Blackhole
	msgFlashAddress  = 0x29 // Wormhole
	msgFlashRead     = 0x2A // Wormhole
	msgFlashWrite    = 0x2B // Wormhole
	msgFlashCopy     = 0x50 // Wormhole: between the flashes of an n300
	msgSleep         = 0x55 // Wormhole
	msgForceAICLK    = 0x33 // Blackhole
	msgSetSerial     = 0xBE
	msgFlashUnlock   = 0xC2 // Blackhole
	msgFlashLock     = 0xC3 // Blackhole
	msgConfirmFlash  = 0xC4 // Blackhole
	msgPing          = 0xC0
	msgOther         = 0xC7 // Blackhole
)

// Answers to unknown messages (luwen arc_msg.rs MSG_ERROR_REPLY; tt-zephyr-platforms msgqueue.c
// MSG_ERROR_REPLY).
const (
	msgUnknownScratch = 0xFFFFFFFF
	msgUnknownQueue   = 0xFF
	msgScratchOnly    = 0xFE // to msgReportScratch
)

// A chip's temperature in 65,536ths of a degree, and about what a sensor then reads
// (tt-zephyr-platforms pvt_tt_bh_decoder.c).
const (
	idleTemperature = 40 << 16
	rawTemperature  = 1376
)

type reply struct {
	exit  uint32 // 0 for success
	words [7]uint32
}

// message answers a message (tt-umd *_implementation.hpp arc_message_type; tt-kmd), false if
// unknown to the firmware.
func (a *ARC) message(code chip.ARCMessage, args []uint32) (r reply, known bool) {
	idle, busy := a.clocks()
	if a.arch == chip.Blackhole {
		if r, known := a.blackholeMessage(code, args); known {
			return r, true
		}
		switch code {
		case chip.ARCNop, chip.ARCPCIeIndex, chip.ARCDate, chip.ARCM3Timeout, chip.ARCShortIdle, chip.ARCGetHarvesting, chip.ARCSetTrained,
			chip.ARCReleaseRISC:
			return r, false // Wormhole's (tt-zephyr-platforms smc_msg.h)
		}
	} else {
		switch code {
		case chip.ARCSMBusTelemetry:
			r.words[0] = CSM + flatTelemetryAt
			return r, true
		case chip.ARCGetAICLK:
			r.words[0] = a.aiclk
			return r, true
		case msgFlashAddress:
			r.words[0] = CSM + flashBuffer
			return r, true
		case msgFlashRead:
			a.readFlash(flashBytes)
			return r, true
		case msgFlashWrite, msgFlashCopy:
			return r, true // the flash ignores writes, and one erased flash is the copy of another
		}
	}
	switch code {
	case chip.ARCGetHarvesting:
		if a.arch == chip.Wormhole {
			r.words[0] = a.harvestedRows()
		}
	case chip.ARCSetTrained:
		r.words[0] = 1
	case chip.ARCReset:
		// Whether chip or board controller (argument 0 or 3) doesn't matter here.
		if a.AskReset != nil {
			a.AskReset()
		}
	case chip.ARCBusy, chip.ARCShortIdle, chip.ARCLongIdle:
		if !a.forced {
			a.setClock(map[chip.ARCMessage]uint32{chip.ARCBusy: busy, chip.ARCShortIdle: firstClock, chip.ARCLongIdle: idle}[code])
		}
	case chip.ARCTest:
		r.words[0] = args[0] + 1
	case chip.ARCNop, chip.ARCPowerSetting, chip.ARCPCIeIndex, chip.ARCASICState0, chip.ARCASICState3, chip.ARCRetrain, chip.ARCDate,
		chip.ARCReleaseRISC, chip.ARCM3Timeout, msgPing, chip.ARCWatchdog:
	default:
		return r, false
	}
	return r, true
}

// blackholeMessage answers messages of Blackhole's firmware (tt-zephyr-platforms
// lib/tenstorrent/bh_arc).
func (a *ARC) blackholeMessage(code chip.ARCMessage, args []uint32) (r reply, known bool) {
	const fewest, most = 200, 1400 // MHz
	switch code {
	case chip.ARCGetAICLK:
		const unforced = 3
		r.words[0], r.words[1] = a.aiclk, unforced
		if a.forced {
			r.words[1] = unforced - 1
		}
	case msgForceAICLK:
		f := args[0]
		if f != 0 && (f < fewest || f > most) {
			r.exit = 1
			break
		}
		a.forced = f != 0
		a.setClock(cmp.Or(f, firstClock))
	case msgReadSensor:
		r.words[0], r.words[1] = rawTemperature, idleTemperature
	case msgReadEEPROM:
		if n := args[1]; n > flashBytes || args[2] != CSM+flashBuffer {
			r.exit = 2
		} else {
			a.readFlash(n)
		}
	case msgFlashUnlock:
		r.exit = 1 // the flash can't be written
	case msgWriteEEPROM:
		r.exit = 2 // it is locked
	case msgConfirmFlash:
		r.words[0] = args[0]
	case msgFlashLock, msgSetSerial, msgOther:
	default:
		return r, false
	}
	return r, true
}

// readFlash leaves bytes of the erased flash for the host.
func (a *ARC) readFlash(n uint32) {
	for i := range (n + 3) / 4 {
		a.csm[flashBuffer/4+i] = 0xFFFFFFFF
	}
}

func (a *ARC) scratchMessage() {
	s := &a.scratch
	code := s[5] & 0xFF
	if code == uint32(msgSleep) {
		return // the message stays for hosts (luwen wormhole.rs ArcReadyError::Asleep)
	}
	r, known := a.message(chip.ARCMessage(code), s[3:4])
	if !known {
		s[5] = msgUnknownScratch
		return
	}
	s[3] = r.words[0]
	s[5] = code | r.exit<<16
}

// queue answers the message queues (tt-umd device/arc/blackhole_arc_message_queue.cpp; tt-kmd
// msgqueue.c).
func (a *ARC) queue() *Refused {
	const header, entry = 32 / 4, 32 / 4
	m := a.csm[:]
	for q := range uint32(queueCount) {
		h := m[(queues/4)+q*(header+2*queueEntries*entry):][:header+2*queueEntries*entry]
		waiting := (h[0] - h[4]) % (2 * queueEntries)
		if waiting > queueEntries {
			return refused(tensix.UndefinedBehavior, "ARC message queue %d holds %d requests: it has room for %d", q, waiting, queueEntries)
		}
		for range waiting {
			req := h[header+h[4]%queueEntries*entry:][:entry]
			resp := h[header+(queueEntries+h[5]%queueEntries)*entry:][:entry]
			a.queuedMessage(req, resp, &h[6])
			h[4] = (h[4] + 1) % (2 * queueEntries)
			h[5] = (h[5] + 1) % (2 * queueEntries)
		}
	}
	return nil
}

// queuedMessage answers a request; serial counts the queue's requests.
func (a *ARC) queuedMessage(req, resp []uint32, serial *uint32) {
	code := chip.ARCMessage(req[0])
	r, known := a.message(code, req[1:])
	switch {
	case code == msgReportScratch:
		r.exit = msgScratchOnly
	case !known:
		r.exit = msgUnknownQueue
	case code == chip.ARCTest:
		r.words[1] = *serial + 1
	}
	if code == msgSetSerial {
		*serial = req[1]
	} else {
		*serial++
	}
	resp[0] = r.exit
	copy(resp[1:], r.words[:])
}
