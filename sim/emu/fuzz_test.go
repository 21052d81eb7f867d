package emu

import (
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func FuzzInstructions(f *testing.F) {
	f.Add(false, busyLoop().bytes())
	f.Add(true, ping(chip.Blackhole, chip.XY{X: 1, Y: 2}, chip.XY{X: 2, Y: 2}, 3, true).bytes())
	f.Add(true, []byte{0x73, 0x90, 0x05, 0x7C, 0x2F, 0xA6, 0xA5, 0x00, 0x0F, 0, 0xF0, 0x0F})
	chips := map[bool]*rig{false: syncRig(f, chip.Wormhole), true: syncRig(f, chip.Blackhole)}
	raw := map[bool]chip.XY{}
	for bh, r := range chips {
		raw[bh] = r.raw(r.worker(0, 0))
	}
	f.Fuzz(func(t *testing.T, blackhole bool, code []byte) {
		r := chips[blackhole]
		must(t, r.c.Reset())
		c := r.c.tileAt(raw[blackhole]).core(chip.BRISC)
		for i := 1; i < 32; i++ { // addresses of registers and memory at hand
			c.X[i] = []uint32{0x40000, niu0Base, niu1Base + 0x800, streamBase + 0x30000, debugBase, localBase, configBase + 4*150,
				mailboxBase}[i%8]
		}
		code = append(code, make([]byte, 4)...)
		mem := c.tile.memory(0x5000)
		for i := 0; i+4 <= len(code) && i < 4096; i += 4 {
			mem[0x1000/4+i/4] = binary.LittleEndian.Uint32(code[i:])
		}
		c.pc, c.state, c.slice = 0x1000, runnable, minSlice
		r.c.enqueue(c)
		for n := 0; n < 20000 && r.c.busy(); n += r.c.step() {
		}
		equal(t, c.X[0], 0, "x0")
	})
}

func FuzzBAR(f *testing.F) {
	f.Add(true, uint8(0), uint64(0x1FC00000), uint8(4), uint64(0x1234567))
	f.Add(false, uint8(2), uint64(0x1200), uint8(4), uint64(1<<31))
	f.Add(false, uint8(4), uint64(0x01FF0000), uint8(8), uint64(1))
	f.Add(true, uint8(4), uint64(0x7_FFFF_FFFF), uint8(1), uint64(1))
	chips := map[bool]*rig{false: syncRig(f, chip.Wormhole), true: syncRig(f, chip.Blackhole)}
	f.Fuzz(func(t *testing.T, blackhole bool, bar uint8, off uint64, width uint8, v uint64) {
		r := chips[blackhole]
		w := 1 << (width % 4)
		r.c.BARStore(int(bar%6), off, w, v)
		r.c.BARLoad(int(bar%6), off, w)
		r.c.BARWrite(int(bar%6), off, make([]byte, v%5000))
		r.c.BARRead(int(bar%6), off^v, make([]byte, v%5000))
		r.c.ConfigWrite(uint32(off), uint32(v))
		r.c.ConfigRead(uint32(off))
		if r.c.Fault() != nil {
			must(t, r.c.Reset())
		}
	})
}
