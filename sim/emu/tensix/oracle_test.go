package tensix

import (
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

const (
	feederCode   = 0x1000
	feederParams = 0x2000 // go, list, output; of the T cores 0x100 bytes further each
	feederList   = 0x14000
	listBytes    = 0x2B000
	feederOut    = 0x120000
	feederDump   = 0xE0000 // list that reads Dst

	dataBase = 0x40000 // what the programs of tests work on
	dataSize = 0x20000
)

// Registers that the feeder reaches (ttsim data/*/tile_regs.json).
const (
	pushAperture = 0xFFE40000 // of thread 0; the next ones are 0x10000 apart
	configWindow = 0xFFEF0000
	mopWindow    = 0xFFB80000
	gprWindow    = 0xFFE00000
	semWindow    = 0xFFE80020
	debugBase    = 0xFFB12000
	arrayRead    = debugBase + 0x60 // enable
	arrayCommand = debugBase + 0x64
	arrayData    = debugBase + 0x6C
	busControl   = debugBase + 0x54
	busData      = debugBase + 0x5C
)

// feeder is a core's program. It waits for a go and works through pairs of words: an address and a
// value to store, or an odd address to load into the output. Then it clears the go.
func feeder(core int) []uint32 {
	return []uint32{
		0x00002437,                    // lui s0,0x2
		0x00040413 | uint32(core)<<28, // addi s0,s0,0x100*core
		0x00042283,                    // wait: lw t0,0(s0)
		0xFE028EE3,                    // beqz t0,wait
		0x00442483,                    // lw s1,4(s0)
		0x00842783,                    // lw a5,8(s0)
		0x0004A503,                    // loop: lw a0,0(s1)
		0x0044A583,                    // lw a1,4(s1)
		0x00848493,                    // addi s1,s1,8
		0x00157613,                    // andi a2,a0,1
		0x00061863,                    // bnez a2,read
		0x00050E63,                    // beqz a0,end
		0x00B52023,                    // sw a1,0(a0)
		0xFE5FF06F,                    // j loop
		0xFFF52603,                    // read: lw a2,-1(a0)
		0x00C7A023,                    // sw a2,0(a5)
		0x00478793,                    // addi a5,a5,4
		0xFD5FF06F,                    // j loop
		0x00042023,                    // end: sw zero,0(s0)
		0xFBDFF06F,                    // j wait
	}
}

var cores = [4]uint64{feederCode, 0x6000, 0xA000, 0xE000}

// access is a step of a feeder: core 0 is BRISC, n+1 T core n.
type access struct {
	addr, value uint32
	core        int
}

type oracle struct {
	t    testing.TB
	sim  *ttsim.Sim
	dev  *ttsim.Function
	arch chip.Arch
	tile chip.XY
}

var libraries = map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole}

func newOracle(t testing.TB, arch chip.Arch) *oracle {
	t.Helper()
	s := value(ttsim.Start(ttsimtest.Path(t, libraries[arch]), ttsimtest.Server(), ttsim.ManualClock()))(t)
	topo := value(chip.New(arch, chip.Harvesting{}))(t)
	v := value(topo.Virtual(chip.Core{}))(t)
	o := &oracle{t: t, sim: s, dev: s.Functions()[0], arch: arch, tile: v}
	for core, base := range cores {
		o.write(base, words(feeder(core)...))
	}
	o.write(0, words(0x0000106F)) // j 0x1000
	o.write(feederDump, dumpList())
	const softReset, onlyNCRISC = 0xFFB121B0, 0x40000
	o.dev.BARStore(0, o.point(softReset), 4, onlyNCRISC)
	return o
}

func (o *oracle) close() { o.sim.Close() }

func (o *oracle) point(addr uint64) uint64 {
	if o.arch == chip.Wormhole {
		o.dev.BARStore(0, 0x1FC00000+8*166, 8, addr>>24|uint64(o.tile.X)<<12|uint64(o.tile.Y)<<18)
		return 0x0B000000 + addr&0xFFFFFF
	}
	for i, w := range []uint32{uint32(addr >> 21), uint32(o.tile.X)<<11 | uint32(o.tile.Y)<<17, 0} {
		o.dev.BARStore(0, 0x1FC00000+uint64(4*i), 4, uint64(w))
	}
	return addr & 0x1FFFFF
}

func (o *oracle) write(addr uint64, p []byte) { o.dev.BARWrite(0, o.point(addr), p) }

func (o *oracle) read(addr uint64, n int) []byte {
	p := make([]byte, n)
	o.dev.BARRead(0, o.point(addr), p)
	return p
}

func words(w ...uint32) []byte {
	var p []byte
	for _, v := range w {
		p = binary.LittleEndian.AppendUint32(p, v)
	}
	return p
}

func encode(list []access) []byte {
	p := make([]byte, 0, 8*len(list)+8)
	for _, a := range list {
		p = binary.LittleEndian.AppendUint32(p, a.addr)
		p = binary.LittleEndian.AppendUint32(p, a.value)
	}
	return append(p, make([]byte, 8)...)
}

func (o *oracle) run(core int, list uint32) error {
	params := feederParams + 0x100*uint64(core)
	o.write(params, words(1, list, feederOut))
	for range 10000 {
		o.sim.Clock(2000)
		if err := o.dev.Fault(); err != nil {
			return err
		}
		if binary.LittleEndian.Uint32(o.read(params, 4)) == 0 {
			return nil
		}
	}
	o.t.Fatal("the vendor's simulator doesn't come to the end of a list")
	return nil
}

func (o *oracle) do(list []access) ([]uint32, error) {
	var out []uint32
	for len(list) > 0 {
		n, loads := 0, 0
		for n < len(list) && n < listBytes/8-1 && list[n].core == list[0].core {
			loads += int(list[n].addr & 1)
			n++
		}
		o.write(feederList, encode(list[:n]))
		if err := o.run(list[0].core, feederList); err != nil {
			return nil, err
		}
		out = append(out, o.output(loads)...)
		list = list[n:]
	}
	return out, nil
}

func (o *oracle) output(n int) []uint32 {
	if n == 0 {
		return nil
	}
	out := make([]uint32, n)
	p := o.read(feederOut, 4*n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(p[4*i:])
	}
	return out
}

func dumpList() []byte {
	list := []access{{arrayRead, 1, 0}}
	for row := range uint32(dstRows) {
		for pair := range uint32(8) {
			list = append(list, access{arrayCommand, row | pair<<12 | 2<<16, 0}, access{arrayData | 1, 0, 0})
		}
	}
	return encode(list)
}

// dst returns the rows of Dst: on Wormhole as they read, on Blackhole as stored, valid or not.
func (o *oracle) dst() ([]uint32, error) {
	if err := o.run(0, feederDump); err != nil {
		return nil, err
	}
	return o.output(dstRows * 8), nil
}
