package queues

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// subDevices divides the workers, and runs programs and replays on all but the first row while a
// program on that row doesn't end.
func subDevices(t *rig.T) {
	f, q, g := t.Follow(), t.Both(), t.Grid()
	above, below := chip.Range{End: chip.Core{X: g.End.X}}, chip.Range{Start: chip.Core{Y: 1}, End: g.End}
	x := f.Load("x", 6, below)
	s, err := t.Dev.NewSubDevices(0, []chip.Range{above}, []chip.Range{below})
	t.OK(err)
	for range 2 {
		t.OK(s.Load(t.Ctx))
		tr := f.On(q[1]).Capture("tr", x, x)
		release := t.Spinning(q[0], above)
		for _, q := range q {
			t.OK(q.SetStallGroup(1))
		}
		for range t.Size(10, 4) {
			f.On(q[1]).Start(x)
			f.Replay(tr)
			t.WaitFor(q[1])
		}
		release(q[1])
		for _, q := range q {
			t.OK(q.SetStallGroup())
		}
		t.FinishBoth()
		f.Check("with sub-devices")
		t.OK(tr.Release(t.Ctx))
		t.OK(t.Dev.ClearSubDevices(t.Ctx))
		f.Start(x)
		t.FinishBoth()
		f.Check("without them")
	}
}
