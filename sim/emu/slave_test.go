package emu

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// As tt-umd's ClusterBH.WriteCountMatchesPostedWrites expects; posted only by ordering mode
// (tt-isa-documentation WormholeB0/PCIExpressTile/TLBs.md).
func TestHostStoresAreCounted(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(1, 2)
		counters := uint64(niu0Base + 0x200)
		count := func(i uint64) uint32 { return r.ld(v, counters+4*i) }
		words, posted, acks := count(cntSlaveWords), count(cntSlaveWords+1), count(cntSlaveWriteAck)
		for i := range uint32(5) {
			r.st(v, 0x40000, i)
		}
		r.write(v, 0x40000, make([]byte, 3*int(r.params.NOCWord)))
		equal(t, count(cntSlaveWords)-words, 5+3, "%v: words of non-posted writes received", arch)
		equal(t, count(cntSlaveWriteAck)-acks, 6, "%v: writes acknowledged", arch)
		if arch == chip.Blackhole {
			at := r.point(v, 0x40000)
			id := at >> 21
			r.dev.BARStore(0, 0x1FC00000+12*id+8, 4, 2<<6)
			r.dev.BARStore(0, at, 4, 1)
			equal(t, count(cntSlaveWords+1)-posted, 1, "words of posted writes received")
		}
		r.healthy()
	}
}
