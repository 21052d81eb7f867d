package emu

import (
	"bytes"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestEthernetLikeTTSim(t *testing.T) {
	path := ttsimtest.Path(t, ttsimtest.BlackholeX2)
	s := value(ttsim.Start(path, ttsimtest.Server()))(t)
	t.Cleanup(func() { s.Close() })
	_, ours := machineOf(t, []Config{{Arch: chip.Blackhole}, {Arch: chip.Blackhole}}, Link{0, 2, 1, 9}, Link{0, 3, 1, 8})
	var theirs []*rig
	for _, f := range s.Functions()[:2] {
		theirs = append(theirs, &rig{t, nil, f, func() {}, chip.Blackhole, ours[0].topo, ours[0].params})
	}
	tx, rx := ours[0].eth(2), ours[1].eth(9)
	for name, rs := range map[string][]*rig{"emulator": ours, "simulator": theirs} {
		data := bytes.Repeat([]byte("fedcba9876543210"), 64)
		rs[0].write(tx, 0x30000, data)
		rs[0].write(tx, 0x31000, append([]byte{1}, make([]byte, 15)...))
		rs[1].write(rx, 0x32000, make([]byte, 4096+128))
		rs[1].release(rx, newAsm(ethCode).waitFor(0x33000, 1).li(a0, 0x32000+1020).lw(a1, a0, 0).li(a0, 0x33020).sw(a1, a0, 0).halt())
		a := newAsm(ethCode)
		for q := range uint32(3) {
			a.send(chip.Blackhole, int(q), 0x30000, 0x32000+0x400*q, 1024)
			if q < 2 {
				a.stw(0xFFB9001C+q<<12, 0x33040+4*q).stw(0xFFB90044+q<<12, 7+q).stw(0xFFB90004+q<<12, 4)
			}
		}
		rs[0].release(tx, a.send(chip.Blackhole, 0, 0x31000, 0x33000, 16).halt())
		rs[1].eventually(name+": the receiver's answer", func() bool { return rs[1].ld(rx, 0x33020) != 0 })
		rs[1].eventually(name+": all queues", func() bool {
			return bytes.Equal(rs[1].read(rx, 0x32000, 3072), bytes.Repeat(data, 3)) && rs[1].ld(rx, 0x33040) == 7 &&
				rs[1].ld(rx, 0x33044) == 8
		})
		for _, at := range []uint64{0x7CC00, 0x7CC04, 0x7CC08, 0x7CE04, 0x7CFBC} {
			if a, b := ours[1].ld(rx, at), theirs[1].ld(rx, at); a != b {
				t.Errorf("%s: firmware's word at %#x is %#x here and %#x there", name, at, a, b)
			}
		}
		for _, r := range rs {
			r.healthy()
		}
	}
}
