package dispatch

import (
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// Firmware with the watcher has the number of arguments before them, and 0xFFFF for none; other firmware has neither.
func TestCountedArgs(t *testing.T) {
	p := &Program{Kernels: []Kernel{
		{Processor: chip.BRISC, Args: []CoreArgs{{Args: []uint32{7, 8, 9, 10}}, {Args: []uint32{11}}}},
		{Processor: chip.NCRISC, Common: []uint32{12}},
	}}
	for _, c := range []struct {
		fw       *Firmware
		bytes    uint32 // of BRISC's arguments
		common   uint32 // offset of NCRISC's
		none     uint16 // offset of NCRISC's unique arguments
		contents []byte
	}{
		{nil, 16, 16, 16, []byte{11, 0, 0, 0, 0, 0, 0, 0}},
		{&Firmware{}, 16, 16, 16, []byte{11, 0, 0, 0, 0, 0, 0, 0}},
		{&Firmware{CountsArgs: true}, 20, 32, 0xFFFF, []byte{1, 0, 0, 0, 11, 0, 0, 0}},
	} {
		lay := layoutSlot(p, nil, c.fw.countBytes())
		if lay.argBytes[chip.BRISC] != c.bytes || lay.common[chip.NCRISC] != c.common {
			t.Errorf("%+v: %+v", c.fw, lay)
		}
		if at := lay.argsAt(lay.args[chip.NCRISC], lay.argBytes[chip.NCRISC]); at != c.none {
			t.Errorf("%+v: no arguments at %#x", c.fw, at)
		}
		if at := lay.argsAt(lay.common[chip.NCRISC], lay.commonSize[chip.NCRISC]); uint32(at) != c.common {
			t.Errorf("%+v: common arguments at %#x", c.fw, at)
		}
		b := make([]byte, 8)
		lay.putArgs(b, p.Kernels[0].Args[1].Args)
		lay.putArgs(b[8:], nil)
		if !slices.Equal(b, c.contents) {
			t.Errorf("%+v: % x", c.fw, b)
		}
	}
}
