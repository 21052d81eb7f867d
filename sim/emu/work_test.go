package emu

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
)

func TestWork(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		a, b := r.worker(0, 0), r.worker(1, 1)
		r.issue(a, r.sendTo(a, b))
		r.issue(a, r.fetchFrom(a, b))
		r.issue(a, r.increment(a, b, 0x60000))
		corner := a
		r.issue(a, nocRequest{targ: 0x40000, targXY: a, ret: 0x50000, start: &corner, retXY: b, ctrl: ctrlMulticast,
			len: 100}) // not to itself
		want := Work{NoCBytes: 64 + 64 + 4 + 3*100}
		noDiff(t, r.c.Work(), want, "%v: requests", arch)
		r.run(a, onB().addi(a0, x0, 1).addi(a0, a0, 1).halt())
		r.run(b, onB().addi(a0, x0, 1).halt())
		want.Instructions = r.c.Retired(r.raw(a), chip.BRISC) + r.c.Retired(r.raw(b), chip.BRISC)
		if diff := cmp.Diff(want, r.c.Work()); diff != "" || want.Instructions < 5 {
			t.Errorf("%v: programs (-want +got):\n%s", arch, diff)
		}
		r.healthy()
		r.reset()
		equal(t, r.c.Work(), (Work{}), "%v: after a reset", arch)
	}
}
