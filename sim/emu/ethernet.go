package emu

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

// ethRegs is the state of an Ethernet tile beyond L1 and NIUs. It implements ethernet.
type ethRegs struct {
	tile    *tile
	channel int       // among the working tiles
	pcs     [2]uint32 // where processors start; 0 on Wormhole
	tx      [3]txQueue
	rx      [3]uint32
	mac     [2]uint32 // Wormhole
	filled  uint32    // Wormhole: source of the instruction RAM
	routing uint32    // Blackhole: MAC_RX_ADDR_ROUTING
	fw      ethFirmware
}

type txQueue struct {
	control, source, bytes, dest, data uint32
	busy                               bool
	unseen                             bool    // not seen to take commands since its last one
	waiting                            *packet // for the link to come up
	open                               int     // packets that the other side has not taken
}

func (u *txQueue) poll() bool {
	u.unseen = u.unseen && u.busy
	return u.busy
}

func (t *tile) queues() int {
	if t.wormhole() {
		return 2
	}
	return 3
}

func (t *tile) ethernet() *ethRegs { return t.eth.(*ethRegs) }

// newEthernet gives processors and registers their values after a reset (ttsim src/tile.cpp
// e_tile_init).
func newEthernet(t *tile) {
	e := &ethRegs{tile: t}
	t.eth = e
	t.addCore(chip.ERISC0, 5)
	if t.wormhole() {
		e.tx[0].control, e.tx[1].control = 9, 9
		e.mac = [2]uint32{ethMAC0, ethMAC1}
	} else {
		t.addCore(chip.ERISC1, 6)
		e.tx[0].control, e.tx[1].control = 1, 1
		e.rx = [3]uint32{2, 2, 0}
		e.routing = 0xA00
	}
	// ERISC0 runs the base firmware: tt-umd takes a tile that holds it in reset for broken
	// (topology_discovery.cpp).
	t.debug.softReset = t.heldAll() &^ chip.ERISC0.ResetBit()
}

// starts reports whether leaving reset makes k run. Blackhole's without a reset PC would run base
// firmware (ttsim src/tile.cpp).
func (e *ethRegs) starts(k *core) bool {
	return e.tile.wormhole() || e.pcs[k.proc-chip.ERISC0] != 0
}

func (e *ethRegs) resetPC(p chip.Processor) uint32 { return e.pcs[p-chip.ERISC0] }

type ethBlock uint8

const (
	ethNone ethBlock = iota
	ethTx
	ethRx
	ethCtrl
	ethMAC
	ethHeaders
	ethRISC
)

// ethAt returns the block, queue and offset of an address.
func (t *tile) ethAt(addr uint32) (b ethBlock, q int, off uint32) {
	rx, ctrl := uint32(0xFFB92000), uint32(0xFFB94000)
	if t.blackhole() {
		rx, ctrl = 0xFFB94000, 0xFFB98000
	}
	pages := uint32(t.queues()) << 12
	switch {
	case addr >= ethTxBase && addr < ethTxBase+pages:
		return ethTx, int(addr-ethTxBase) >> 12, addr & 0xFFF
	case addr >= rx && addr < rx+pages:
		return ethRx, int(addr-rx) >> 12, addr & 0xFFF
	case t.wormhole() && addr >= ethMACBase && addr < ethMACBase+8:
		return ethMAC, int(addr-ethMACBase) >> 2, 0
	case addr >= ctrl && addr < ctrl+0x200:
		return ethCtrl, 0, addr - ctrl
	case t.blackhole() && addr >= ctrl+0x200 && addr < ctrl+0x700:
		return ethHeaders, 0, (addr - ctrl - 0x200) % 0x80
	case t.blackhole() && addr >= ethCtrlBase && addr < ethCtrlBase+0x1000:
		return ethRISC, 0, addr - ethCtrlBase
	}
	return ethNone, 0, 0
}

func (e *ethRegs) load(o origin, addr uint32) (uint32, slowResult) {
	t := e.tile
	b, q, off := t.ethAt(addr)
	switch {
	case b == ethTx:
		if v, ok := t.txLoad(&e.tx[q], off); ok {
			return v, slowDone
		}
	case b == ethRx && off == 0:
		return e.rx[q], slowDone
	case b == ethCtrl:
		if v, ok := t.ethCtrlLoad(off); ok {
			return v, slowDone
		}
	case b == ethRISC && (off == 0 || off == 8):
		return e.pcs[off/8], slowDone
	}
	if o.isHostLoad() && (b != ethNone || t.ethHas(addr)) {
		return e.shown(b, q, off), slowDone
	}
	return 0, t.unmapped(o, "load from", addr)
}

// ethHas reports registers that are not emulated: MAC, PCS, and on Blackhole those that sort
// arrivals (tt-isa-documentation */EthernetTile/BabyRISCV/README.md).
func (t *tile) ethHas(addr uint32) bool {
	if t.blackhole() {
		return addr >= ethMACBase && addr < ethMACBase+0x10000 || addr >= 0xFFB9C000 && addr < 0xFFB9EA20
	}
	return addr >= ethMACBase && addr < ethMACBase+0x20000
}

// shown is what a host finds in registers that programs only store to.
func (e *ethRegs) shown(b ethBlock, q int, off uint32) uint32 {
	if b == ethMAC {
		return e.mac[q]
	}
	if b == ethTx {
		if w := e.tx[q].word(off); w != nil {
			return *w
		}
	}
	return 0
}

// word returns a register that programs only store to, or nil.
func (u *txQueue) word(off uint32) *uint32 {
	switch off {
	case ethTxSource:
		return &u.source
	case ethTxBytes:
		return &u.bytes
	case ethTxDest:
		return &u.dest
	case ethTxData:
		return &u.data
	}
	return nil
}

func (t *tile) txLoad(u *txQueue, off uint32) (v uint32, ok bool) {
	bh := t.blackhole()
	switch {
	case off == ethTxCtrl:
		return u.control, true
	case off == ethTxCmd && bh: // always 0 (BlackholeA0/EthernetTile/EthernetTxRx.md)
		return 0, true
	case off == ethTxCmd:
		return word.Bool(u.poll()), true
	case off == ethTxStatus && bh: // ETH_TXQ_STATUS_CMD_ONGOING_BIT
		return word.Bool(u.poll()) << 16, true
	}
	return 0, false
}

func (t *tile) ethCtrlLoad(off uint32) (v uint32, ok bool) {
	bh := t.blackhole()
	switch {
	case off == 0x98 && !bh:
		return t.ethernet().filled, true
	case off == 0x154 && bh:
		return t.ethernet().routing, true
	case off == 0x0C && bh: // PCS_STATUS
		p := t.port()
		return word.Bool(p != nil && p.up()), true
	}
	return 0, false
}

// store stores to an Ethernet tile's own register, or the soft reset.
func (e *ethRegs) store(o origin, addr, v uint32) slowResult {
	t := e.tile
	if addr == debugBase+regSoftReset {
		ignored := uint32(0x80047000) // written by umd
		if t.blackhole() {
			ignored = 0x80046000
		}
		e.fw.stops(t, v)
		return t.softReset(o, v&^ignored)
	}
	b, q, off := t.ethAt(addr)
	switch b {
	case ethTx:
		return t.txStore(o, addr, q, off, v)
	case ethRx:
		if off != 0 || v != 2 {
			return t.ethRefuse(o, addr, "store of %#x to register %#x of receive queue %d: only control takes 2, packet mode", v, off, q)
		}
		e.rx[q] = v
		return slowDone
	case ethMAC:
		if v|1 != [2]uint32{ethMAC0, ethMAC1}[q] {
			return t.ethRefuse(o, addr, "MAC register %d = %#x", q, v)
		}
		e.mac[q] = v
		return slowDone
	case ethCtrl:
		return t.ethCtrlStore(o, addr, off, v)
	case ethHeaders:
		if off == 0x18 || off == 0x1C && v <= 0xFFFF {
			return slowDone
		}
	case ethRISC:
		switch {
		case off == 0 || off == 8:
			e.pcs[off/8] = v
			return slowDone
		case off >= 0x20 && off < 0x34 && v == 0: // no interrupts
			return slowDone
		}
	}
	return t.unmapped(o, "store to", addr)
}

func (t *tile) txStore(o origin, addr uint32, q int, off, v uint32) slowResult {
	u, bh := &t.ethernet().tx[q], t.blackhole()
	w := u.word(off)
	switch {
	case off == ethTxCmd:
		return t.ethSend(o, q, v)
	case w != nil:
		*w = v
	case off == ethTxAhead:
	case off == ethTxCtrl && bh && v == 1:
		u.control = v
	case bh && (off == ethTxSelSW || off == ethTxSelHW): // which headers packets get: all arrive
		if v&15 > 9 || v>>4&15 > 9 || v>>8 > 9 || off == ethTxSelHW && v > 9 {
			return t.ethRefuse(o, addr, "header %#x: there are ten", v)
		}
	default:
		return t.ethRefuse(o, addr, "store of %#x to register %#x of transmit queue %d", v, off, q)
	}
	return slowDone
}

func (t *tile) ethCtrlStore(o origin, addr, off, v uint32) slowResult {
	bh := t.blackhole()
	switch {
	case off == 0x98 && !bh:
		return t.ethIRAM(o, addr, v)
	case off == 0x150 && bh && v == 0:
		return slowDone
	case off == 0x154 && bh:
		t.ethernet().routing = v
		return slowDone
	}
	return t.unmapped(o, "store to", addr)
}

func (t *tile) ethRefuse(o origin, addr uint32, format string, args ...any) slowResult {
	return t.refuse(o, unimplemented, "ethernet", addr, format, args...)
}

// ethIRAM fills Wormhole's instruction RAM while the MAC is stopped (ttsim src/tile.cpp).
func (t *tile) ethIRAM(o origin, addr, v uint32) slowResult {
	switch {
	case t.ethernet().mac != [2]uint32{ethMAC0 &^ 1, ethMAC1 &^ 1}:
		return t.refuse(o, unimplemented, "ethernet", addr,
			"ERISC_IRAM_LOAD while the MAC's registers are %#x: want %#x and %#x", t.ethernet().mac, ethMAC0&^1, ethMAC1&^1)
	case uint64(v)*16+iramBytes > t.bytes():
		return t.refuse(o, unsupported, "ethernet", addr, "%d bytes at %#x reach beyond L1", iramBytes, uint64(v)*16)
	}
	t.ethernet().filled = v
	t.fillIRAM(v*16, iramBytes)
	return slowDone
}
