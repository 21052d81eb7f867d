package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// ethFirmware is the emulated base firmware of an Ethernet tile, which is not code.
type ethFirmware struct {
	stopped bool          // the processor has been held in reset
	asking  *remoteAccess // to another chip, under way
}

func (f *ethFirmware) stops(t *tile, v uint32) {
	if v&chip.ERISC0.ResetBit() != 0 {
		f.stopped = true
	}
}

func (t *tile) poke(addr, v uint32) {
	m := t.memory(addr + 4)
	if m[addr/4] != v || t.known != nil {
		m[addr/4] = v
		t.stored(addr, 4)
	}
}

// init fills in what base firmware leaves in L1 once it has trained the link, or found none.
func (e *ethRegs) init() {
	t := e.tile
	me := &t.chip.cfg.Identity
	if t.wormhole() {
		t.fwOwns(0, 0x2000)
		t.fwOwns(0x11000, 0x18000)
		t.poke(whVersion, whEthVersion)
		t.poke(whYield, 0x440)
		t.poke(0x440, riscvReturn)
		t.poke(whResume, riscvStay)
		t.poke(whLaunch, 0)
		t.poke(whHeartbeat, 0xABCD0001)
		t.poke(whQueues, remoteRequests-0x80)
		t.poke(whNodeInfo+4*2, uint32(me.X)<<16|uint32(me.Y)<<24)
	} else {
		t.fwOwns(0x70000, 0x80000)
		for i, at := range []uint32{0x71574, 0x759AC, 0x75414} { // send a message, serve one, check the link
			t.poke(bhFunctions+uint32(4*i), at)
			t.poke(at, riscvReturn)
		}
		t.poke(bhVersion, bhEthVersion)
		t.poke(bhStatus, 0xC0DEA000) // initialised
	}
	e.noteLink()
	p := t.port()
	if t.wormhole() {
		t.poke(whPorts+4*uint32(e.channel), 1+2*word.Bool(p != nil))
	}
	if p == nil {
		return
	}
	far := p.peer.identity()
	if t.wormhole() {
		at := t.chip.eths[p.peer.channel].xy
		t.poke(whRouting, word.Bool(!me.Routing))
		t.poke(whResults+4*64, me.mangled())
		t.poke(whResults+4*69, me.mangled())
		t.poke(whResults+4*65, uint32(me.ASIC))
		t.poke(whResults+4*72, far.mangled())
		t.poke(whResults+4*73, uint32(far.ASIC))
		t.poke(whResults+4*76, uint32(p.peer.channel))
		t.poke(whResults+4*77, far.mangled())
		t.poke(whNodeInfo+4*9, uint32(far.X)<<16|uint32(far.Y)<<22|uint32(at.X)<<4|uint32(at.Y)<<10)
		return
	}
	end := func(at uint32, id *Identity, channel int) {
		ch := uint32(channel)
		t.poke(at, uint32(id.Location)<<8|ch<<16|ch<<24)
		t.poke(at+4, uint32(id.Board>>32))
		t.poke(at+8, uint32(id.Board))
		t.poke(at+20, uint32(id.ASIC>>32))
		t.poke(at+24, uint32(id.ASIC))
	}
	end(bhLocal, me, p.channel)
	end(bhRemote, far, p.peer.channel)
}

// arcThrottle is a word of each Blackhole worker's L1. ARC firmware clears it at its start, and
// later asks for slower products there (tt-zephyr-platforms lib/tenstorrent/bh_arc/throttler.c).
const arcThrottle = 0x10

// fwOwns marks memory of base firmware as written.
func (t *tile) fwOwns(from, to uint32) {
	if t.known == nil {
		return
	}
	for w := from >> 2; w < to>>2; w++ {
		t.known.set(w)
	}
}

func (e *ethRegs) noteLink() {
	t := e.tile
	if t.l1 == nil {
		return // init calls it on first use
	}
	p := t.port()
	up := p != nil && p.up()
	if t.wormhole() {
		switch {
		case up:
			t.poke(whTrained, 1)
		case p != nil:
			t.poke(whTrained, 2)
		default:
			t.poke(whTrained, 3)
		}
		return
	}
	status, training := uint32(2), uint32(0)
	if up {
		status, training = 1, 2
	}
	t.poke(bhStatus+4, status)
	t.poke(bhStatus+8, training)
	t.poke(bhRxLink, word.Bool(up))
}

// beat increments the heartbeat when it is loaded, while the firmware runs.
func (e *ethRegs) beat(addr uint32) {
	t := e.tile
	switch m := t.memory(addr + 4); {
	case e.fw.stopped || t.cores[0].state != inReset && t.blackhole():
	case t.blackhole() && addr == bhHeartbeat:
		t.poke(addr, m[addr/4]+1)
	case t.wormhole() && addr == whHeartbeat:
		t.poke(addr, 0xABCD0000|(m[addr/4]+1)&0xFFFF)
	}
}

// told handles requests to base firmware after an agent wrote to L1, false if the chip stopped.
func (e *ethRegs) told(o origin, addr uint32, n int) bool {
	t := e.tile
	if e.fw.stopped {
		return true
	}
	at := func(w uint32) bool { return addr <= w && w < addr+uint32(n) }
	k := t.cores[0]
	if t.blackhole() {
		for m := uint32(bhMailbox); m < bhMailbox+0x40; m += 16 {
			if at(m) && t.l1[m/4] == 0xCA110002 { // call, and release the processor
				pc := t.l1[m/4+1]
				t.poke(m, 0xD0E50002)
				for i := uint32(4); i < 16; i += 4 {
					t.poke(m+i, 0)
				}
				e.launch(o, k, pc, 0xFFB02000)
			}
		}
		return true
	}
	if at(whLaunch) {
		switch {
		case t.l1[whLaunch/4] == 1 && (k.state == inReset || k.pc == whResume):
			e.launch(o, k, whApp, 0xFFB01000)
		case t.l1[whLaunch/4] == 0 && k.state != inReset:
			k.hold(o)
		}
	}
	if at(remoteRequests + remoteWrite) {
		return t.serveRemote()
	}
	return true
}

func (e *ethRegs) launch(o origin, k *core, pc, stack uint32) {
	if k.state != inReset {
		k.hold(o)
	}
	k.start(o, pc)
	k.X[2] = stack
	if k.tile.wormhole() {
		k.X[1] = whResume
	}
	k.tile.debug.softReset &^= k.proc.ResetBit()
}
