package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
)

// measureMesh measures opening chips, and the host's cost of a replay for each chip, without their
// links.
func measureMesh(s *session) error {
	all := s.config.Mesh
	if len(all) == 0 {
		s.leaveOut("mesh", "", "no machine with several chips was named")
		return nil
	}
	for n := 1; n <= len(all); n *= 2 {
		if err := s.openMesh(all[:n]); err != nil {
			return err
		}
	}
	for n := 1; n <= len(all); n *= 2 {
		m, err := s.chips(all[:n], mesh.Shape{n}, mesh.Unlinked())
		if err != nil {
			return err
		}
		if err := s.replayMesh(m, "chips", n); err != nil {
			return err
		}
	}
	// The cards with as many remote chips, which have no PCI interface.
	m, err := s.chips(all, mesh.Shape{2, len(all)}, mesh.OrShape(mesh.Shape{1, 2 * len(all)}))
	if none := (*mesh.ShapeError)(nil); errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.replayMesh(m, "chips", m.Size(), "behind", m.Size()-len(all))
}

// chips opens a mesh whose queues start one worker, so that emulated chips are done soon.
func (s *session) chips(m mesh.Machine, shape mesh.Shape, o mesh.Option) (*mesh.Mesh, error) {
	return mesh.Open(s.ctx, m, shape, o, mesh.WithDevice(reprise.WithQueueWorkers(0, chip.Range{})))
}

func (s *session) openMesh(m mesh.Machine) error {
	var last *mesh.Mesh
	closeLast := func() (err error) {
		if last != nil {
			err, last = last.Close(s.ctx), nil
		}
		return err
	}
	err := s.measure("mesh", &measure.Job{
		Name: "open", Params: report.Params("chips", len(m)), Settle: closeLast,
		Sample: func() (_ float64, err error) {
			start := time.Now()
			last, err = s.chips(m, mesh.Shape{len(m)}, mesh.Unlinked())
			return float64(time.Since(start)), err
		},
	})
	return errors.Join(err, closeLast())
}

// replayMesh measures replays on a mesh and closes it.
func (s *session) replayMesh(m *mesh.Mesh, params ...any) (err error) {
	defer func() { err = errors.Join(err, m.Close(s.ctx)) }()
	d := m.Chips()[0].Device
	s.report.Arch = d.Arch().String()
	im, err := kernels.Prebuilt(d.Arch(), kernels.Blank)
	if err != nil {
		return err
	}
	x, err := m.Load(s.ctx, "blank", mesh.Same(mesh.Range{}, &reprise.Program{Name: "blank", Kernels: []reprise.Kernel{{
		Name: "nothing", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
	}}}))
	if err != nil {
		return err
	}
	t, err := m.Queue(0).Capture(s.ctx, "blank", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	if err != nil {
		return err
	}
	const replays = 8
	if n, _ := t.Streams(); n != 1 {
		return fmt.Errorf("equal chips have %d streams of commands", n)
	}
	return s.measure("mesh", &measure.Job{
		Name: "replay for each chip", Params: report.Params(params...), Burst: 4, Peers: replayPeers()[1:],
		Settle: func() error { return m.Queue(0).Wait(s.ctx) },
		Sample: func() (float64, error) {
			start := time.Now()
			for range replays {
				if err := t.Replay(s.ctx); err != nil {
					return 0, err
				}
			}
			return float64(time.Since(start)) / float64(replays*m.Size()), nil
		},
	})
}
