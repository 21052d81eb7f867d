package program

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// target is that of the workers of a Blackhole.
func target(tb testing.TB) *Target {
	tb.Helper()
	ch, err := chip.New(chip.Blackhole, chip.Harvesting{})
	if err != nil {
		tb.Fatal(err)
	}
	t := NewTarget(ch, abi.Own(chip.Blackhole), chip.Grid(13, 10))
	t.PackedCores = memmap.Own(t.Workers).PackedCores
	return t
}

// A launch message has its fields where the workers' layout has them.
func TestLaunchMessageFollowsTheLayout(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		for _, r := range abi.Revisions() {
			d := target(t)
			d.Chip, _ = chip.New(arch, chip.Harvesting{})
			d.Workers = abi.Of(r.Name, arch)
			on := []chip.Range{chip.Single(0, 0)}
			last := d.Workers.Launch.CircularBuffers - 1
			p := &Program{
				Name: "p", Kernels: []Kernel{
					{Name: "b", Processor: chip.BRISC, Cores: on, Text: make([]byte, 64), NOC: chip.NOC1,
						Args: []CoreArgs{{Args: []uint32{1, 2, 3}}}},
					{Name: "n", Processor: chip.NCRISC, Cores: on, Text: make([]byte, 160), Common: []uint32{7}},
				},
				CircularBuffers: []CircularBuffer{
					{Index: 0, Cores: on, Addr: d.Workers.L1.Unreserved + 64, PageSize: 16, Pages: 1}, {Index: last, Cores: on, Addr: d.Workers.L1.Unreserved + 128, PageSize: 16, Pages: 1},
				},
				Semaphores: []Semaphore{{ID: 1, Cores: on, Initial: 5}},
			}
			im, err := d.Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			var msg []byte
			for e := range cq.All(d.layout(), im.main.bytes) {
				for r := range e.Relayed {
					if w, ok := r.Command.(cq.WritePacked); ok && w.Type == cq.PackedLaunch && w.Addr == d.Workers.L1.Launch &&
						uint32(w.Size) == d.Workers.L1.LaunchSize {
						msg = w.Data
					}
				}
			}
			l, le := &d.Workers.Launch, binary.LittleEndian
			mask := make([]byte, (last+8)/8)
			mask[0], mask[last/8] = mask[0]|1, mask[last/8]|1<<(last%8)
			ncrisc := uint16(0)
			if d.Workers.Boot.IRAMSize > 0 {
				ncrisc = 160 / 16
			}
			if len(msg) < int(d.Workers.L1.LaunchSize) || !bytes.Equal(msg[l.CBMask:][:len(mask)], mask) || msg[l.NOC] != 1 ||
				int(msg[l.FirstRemote]) != last+1 || le.Uint32(msg[l.Enables:]) != 3 ||
				msg[l.Preload] != 0x80 || le.Uint16(msg[l.NCRISCSize:]) != ncrisc || le.Uint16(msg[l.Args+4+2:]) != 16 ||
				le.Uint16(msg[l.Semaphores:]) != 32 || le.Uint16(msg[l.Circular:]) != 64 {
				t.Errorf("%s on %v: launch message % x", r.Name, arch, msg)
			}
			p.CircularBuffers[1].Index = last + 1
			var refused *ProgramError
			if _, err = d.Compile(p); !errors.As(err, &refused) {
				t.Errorf("%s on %v: circular buffer %d: %v", r.Name, arch, last+1, err)
			}
		}
	}
}

// Firmware with the watcher has the number of arguments before them, and 0xFFFF for none; other
// firmware has neither.
func TestCountedArgs(t *testing.T) {
	p := &Program{Kernels: []Kernel{
		{Processor: chip.BRISC, Args: []CoreArgs{{Args: []uint32{7, 8, 9, 10}}, {Args: []uint32{11}}}},
		{Processor: chip.NCRISC, Common: []uint32{12}},
	}}
	for _, c := range []struct {
		fw       ArgFormat
		bytes    uint32 // of BRISC's arguments
		common   uint32 // offset of NCRISC's
		none     uint16 // offset of NCRISC's unique arguments
		contents []byte
	}{
		{0, 16, 16, 16, []byte{11, 0, 0, 0, 0, 0, 0, 0}},
		{Counted, 20, 32, 0xFFFF, []byte{1, 0, 0, 0, 11, 0, 0, 0}},
	} {
		lay := layoutSlot(p, nil, c.fw)
		if lay.argBytes[chip.BRISC] != c.bytes || lay.common[chip.NCRISC] != c.common {
			t.Errorf("%d: %+v", c.fw, lay)
		}
		if at := lay.Offset(lay.args[chip.NCRISC], lay.argBytes[chip.NCRISC]); at != c.none {
			t.Errorf("%d: no arguments at %#x", c.fw, at)
		}
		if at := lay.Offset(lay.common[chip.NCRISC], lay.commonSize[chip.NCRISC]); uint32(at) != c.common {
			t.Errorf("%d: common arguments at %#x", c.fw, at)
		}
		b := make([]byte, 8)
		lay.Put(b, p.Kernels[0].Args[1].Args)
		lay.Put(b[8:], nil)
		if !slices.Equal(b, c.contents) {
			t.Errorf("%d: % x", c.fw, b)
		}
	}
}
