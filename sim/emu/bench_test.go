package emu

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func busyLoop() *asm {
	return onB().li(a0, 0x20000).li(a1, localBase).li(a2, 0).
		label("loop").
		lw(t0, a0, 0).addi(t0, t0, 1).sw(t0, a0, 0).
		lw(t1, a1, 16).add(t1, t1, t0).sw(t1, a1, 16).
		addi(a2, a2, 3).andi(a3, a2, 0x7F).sub(a4, a2, a3).
		bne(a4, x0, "next").addi(a4, a4, 1).
		label("next").addi(a5, a5, 1).
		bne(a0, x0, "loop")
}

func benchmarkBusy(b *testing.B, cfg Config, others bool) {
	cfg.Synchronous, cfg.MaxRun = true, 1
	r := newRig(b, cfg)
	if others {
		spin := newAsm(0x2000).li(a0, 0x30000).label("w").lw(a1, a0, 0).beq(a1, x0, "w").halt()
		for w := range r.topo.Workers() {
			v := r.worker(w.X, w.Y)
			r.load(v, spin)
			for _, at := range []uint64{0x6000, 0xA000, 0xE000, 0x12000} {
				s := newAsm(uint32(at)).li(a0, 0x30000).label("w").lw(a1, a0, 0).beq(a1, x0, "w").halt()
				r.write(v, at, s.bytes())
			}
		}
		for w := range r.topo.Workers() {
			if w.X != 0 || w.Y != 0 {
				r.st(r.worker(w.X, w.Y), 0xFFB121B0, 0)
			}
		}
		for r.c.busy() {
			r.c.step()
		}
	}
	v := r.worker(0, 0)
	r.st(v, 0x20000, 0)
	r.run(v, busyLoop())
	k := r.c.tileAt(r.raw(v)).core(chip.BRISC)
	b.ResetTimer()
	start := k.retired
	for k.retired-start < uint64(b.N) {
		r.c.step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(k.retired-start), "ns/instr")
	must(b, r.c.Fault())
}

func BenchmarkBusyCore(b *testing.B) { benchmarkBusy(b, Config{Arch: chip.Wormhole}, false) }

func BenchmarkBusyCoreChecked(b *testing.B) {
	benchmarkBusy(b, Config{Arch: chip.Blackhole, Delay: 100, RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true,
		RefuseCounters: true, DataCache: true}, false)
}

func BenchmarkBusyCoreAmongWaiting(b *testing.B) {
	benchmarkBusy(b, Config{Arch: chip.Blackhole}, true)
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		c := value(New(Config{Arch: chip.Blackhole}))(b)
		c.Close()
	}
}

func BenchmarkTransfers(b *testing.B) {
	r := newRig(b, Config{Arch: chip.Blackhole, Synchronous: true})
	v, far, bank := r.worker(0, 0), r.worker(3, 3), r.topo.DRAMBanks()[0]
	last := r.worker(1, 1)
	r.write(v, 0x40000, pattern(8192, 1))
	r.write(far, 0x40000, pattern(8192, 2))
	r.write(bank.HostEndpoint, 0x40000, pattern(8192, 3))
	t := r.c.tileAt(r.raw(v))
	for _, k := range []struct {
		name string
		q    nocRequest
	}{
		{"read_worker", nocRequest{targXY: far, retXY: v, ctrl: ctrlRead, len: 64}},
		{"read_dram", nocRequest{targXY: bank.Endpoint[0], retXY: v, ctrl: ctrlRead, len: 64}},
		{"write_worker", nocRequest{targXY: v, retXY: far, ctrl: ctrlWriteNP, len: 64}},
		{"write_dram", nocRequest{targXY: v, retXY: bank.Endpoint[0], ctrl: ctrlWriteNP, len: 64}},
		{"multicast", nocRequest{targXY: v, start: &v, retXY: last, ctrl: ctrlMulticast, len: 64}},
		{"atomic", nocRequest{targXY: far, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: 0x107C}},
		{"inline", nocRequest{targXY: far, retXY: v, ctrl: ctrlWrite | ctrlInline | ctrlMarked, dat: 1}},
		{"write_8192", nocRequest{targXY: v, retXY: far, ctrl: ctrlWriteNP, len: 8192}},
	} {
		k.q.targ, k.q.ret = 0x40000, 0x40000
		if k.name == "inline" {
			k.q.targ, k.q.len = 0xFFB40010, 4
		}
		b.Run(k.name, func(b *testing.B) {
			r.issue(v, k.q)
			o, cmd := origin{tile: t, core: t.cores[0]}, r.c.layout.cmd
			for b.Loop() {
				if t.niuStore(o, 0, cmd, 1) != slowDone {
					b.Fatal(r.c.Fault())
				}
			}
		})
	}
}
