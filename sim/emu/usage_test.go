package emu

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
)

// What a tile reads of DRAM before something has written it is kept as it was then.
func TestTrack(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, TrackDRAM: true})
		b, v := r.topo.DRAMBanks()[1], r.worker(0, 0)
		request := func(write bool, off uint64, n uint32) {
			q := nocRequest{noc: chip.NOC0, targ: b.Offset + off, targXY: b.Endpoint[0], ret: 0x40000 + off, retXY: v, ctrl: ctrlRead,
				len: n}
			if write {
				q.targ, q.targXY, q.ret, q.retXY, q.ctrl = q.ret, q.retXY, q.targ, q.targXY, ctrlWriteNP
			}
			r.issue(v, q)
			r.healthy()
		}
		words := func(m func(func(uint64, uint32) bool)) map[uint64]uint32 {
			out := map[uint64]uint32{}
			for a, v := range m {
				out[a-TrackAddress(b.Controller, b.Offset)] = v
			}
			return out
		}
		r.write(b.HostEndpoint, b.Offset+0x100, []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0})
		got := r.c.TakeTrack()
		want := map[uint64]uint32{0x100: 1, 0x104: 2, 0x108: 3, 0x10C: 4}
		equal(t, cmp.Diff(want, words(got.Written.All)), "", "%v: the host's write", arch)
		equal(t, len(got.Read), 0, "%v: words read", arch)

		r.read(b.HostEndpoint, b.Offset+0x100, 16)
		request(false, 0x100, 8)
		r.write(b.HostEndpoint, b.Offset+0x104, []byte{7, 0, 0, 0, 8, 0, 0, 0})
		request(false, 0x100, 16)
		r.write(v, 0x40200, make([]byte, 16))
		request(true, 0x200, 16)
		request(false, 0x200, 16)
		got = r.c.TakeTrack()
		equal(t, cmp.Diff(map[uint64]uint32{0x100: 1, 0x104: 2, 0x10C: 4}, words(got.Read.All)), "", "%v: reads", arch)
		want = map[uint64]uint32{0x104: 7, 0x108: 8, 0x200: 0, 0x204: 0, 0x208: 0, 0x20C: 0}
		equal(t, cmp.Diff(want, words(got.Written.All)), "", "%v: writes", arch)
		equal(t, len(maps.Collect(r.c.TakeTrack().Read.All)), 0, "%v: words after", arch)
	}
}
