package emu

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

// A read from a peer stops the library, which would have to give the answer itself.
func TestPeersOfTTSim(t *testing.T) {
	s, err := ttsim.Start(ttsimtest.Path(t, ttsimtest.BlackholeX2), ttsimtest.Server())
	must(t, err)
	t.Cleanup(func() { s.Close() })
	topo, err := chip.New(chip.Blackhole, chip.Harvesting{})
	must(t, err)
	var rigs [2]*rig
	for i, f := range s.Functions() {
		rigs[i] = &rig{t, nil, f, func() {}, chip.Blackhole, topo, chip.Blackhole.Params()}
	}
	p := peersOf(t, rigs)
	soon(t, "a write", func() {
		// Only one of them runs: the library doesn't say which of its chips accesses host memory.
		r, v, to := rigs[0], rigs[0].worker(0, 0), p.target(1)
		q := nocRequest{targ: 0x40000, targXY: v, ret: p.at[0] + 0x50000, retXY: r.topo.PCIe(0), ctrl: ctrlWriteNP, len: 4096}
		a := onB()
		for _, w := range q.stores(r.arch) {
			a.stw(w[0], w[1])
		}
		a.li(t0, niu0Base+layoutOf(r.arch).cmd).li(t1, 1).li(a0, niu0Base+0x200+4*cntWriteAck).li(a1, 0x40000).li(a2, 0).label("loop")
		a.addi(a2, a2, 1).sw(a2, a1, 0).lw(a3, a1, 0).sw(t1, t0, 0).label("wait").lw(a3, a0, 0).bltu(a3, a2, "wait")
		r.run(v, a.j("loop"))
		var wg sync.WaitGroup
		for _, r := range rigs {
			at := r.point(r.worker(0, 0), 0)
			wg.Go(func() {
				for range 100 {
					r.dev.BARWrite(0, at+0x60000, make([]byte, 512<<10))
				}
			})
			wg.Go(func() {
				for range 1000 {
					r.dev.BARLoad(0, at+0x60000, 4)
				}
			})
		}
		wg.Wait()
		n := rigs[1].ld(to, 0x50000)
		r.eventually("more writes of a peer", func() bool { return rigs[1].ld(to, 0x50000) > n+10 })
		r.st(v, 0xFFB121B0, 0x47800)
	})
	soon(t, "a read", func() {
		v := rigs[0].worker(0, 0)
		rigs[1].write(p.target(1), 0x50000, pattern(64, 1))
		p.request(0, v, ctrlRead, 0x40000, 0x50000, 64)
		for s.Fault() == nil {
			if bytes.Equal(rigs[0].read(v, 0x40000, 64), pattern(64, 1)) {
				t.Error("the read was answered")
				return
			}
		}
		var de *driver.DMAError
		if err := s.Fault(); !errors.As(err, &de) || de.Write || de.Size != 64 {
			t.Errorf("the device stopped with %v", err)
		}
	})
	soon(t, "the end", func() { s.Close() })
}
