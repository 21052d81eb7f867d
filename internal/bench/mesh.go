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

// measureMesh measures opening chips, and the host's cost of a replay for each chip. Links between
// chips play no part. On an emulator the chips share the host's processors, so the least time
// counts.
func measureMesh(ctx context.Context, s *session) error {
	all := s.config.Mesh
	if len(all) == 0 {
		s.leaveOut("mesh", "", "no machine with several chips was named")
		return nil
	}
	for n := 1; n <= len(all); n *= 2 {
		if err := s.openMesh(ctx, all[:n]); err != nil {
			return err
		}
	}
	for n := 1; n <= len(all); n *= 2 {
		m, err := chips(ctx, all[:n])
		if err != nil {
			return err
		}
		if err := s.replayMesh(ctx, m, report.NewParam("chips", n)); err != nil {
			return err
		}
	}
	m, err := withFar(ctx, all)
	var none *mesh.ShapeError
	if errors.As(err, &none) { // not one remote chip for each card
		return nil
	}
	if err != nil {
		return err
	}
	return s.replayMesh(ctx, m, report.NewParam("chips", m.Size()), report.NewParam("behind", m.Size()-len(all)))
}

// chips opens a mesh whose queues start one worker, so that emulated chips are done soon.
func chips(ctx context.Context, m mesh.Machine) (*mesh.Mesh, error) {
	return mesh.Open(ctx, m, mesh.Shape{len(m)}, mesh.Unlinked(), mesh.WithDevice(reprise.WithQueueWorkers(0, chip.Range{})))
}

// withFar opens the cards with as many remote chips, which have no PCI interface.
func withFar(ctx context.Context, m mesh.Machine) (*mesh.Mesh, error) {
	n := len(m)
	return mesh.Open(ctx, m, mesh.Shape{2, n}, mesh.OrShape(mesh.Shape{1, 2 * n}),
		mesh.WithDevice(reprise.WithQueueWorkers(0, chip.Range{})))
}

func (s *session) openMesh(ctx context.Context, m mesh.Machine) error {
	var last *mesh.Mesh
	closeLast := func(context.Context) (err error) {
		if last != nil {
			err, last = last.Close(ctx), nil
		}
		return err
	}
	err := s.measure(ctx, "mesh", &measure.Job{
		Name: "open", Params: report.Params("chips", len(m)), Settle: closeLast,
		Sample: func(ctx context.Context) (float64, error) {
			start := time.Now()
			var err error
			last, err = chips(ctx, m)
			return float64(time.Since(start)), err
		},
	})
	return errors.Join(err, closeLast(ctx))
}

// replayMesh measures replays on a mesh and closes it.
func (s *session) replayMesh(ctx context.Context, m *mesh.Mesh, params ...report.Param) (err error) {
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	d := m.Chips()[0].Device
	s.report.Arch = d.Arch().String()
	im, err := kernels.Prebuilt(d.Arch(), kernels.Blank)
	if err != nil {
		return err
	}
	x, err := m.Load(ctx, "blank", mesh.Same(mesh.Range{}, &reprise.Program{Name: "blank", Kernels: []reprise.Kernel{{
		Name: "nothing", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
	}}}))
	if err != nil {
		return err
	}
	t, err := m.Queue(0).Capture(ctx, "blank", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	if err != nil {
		return err
	}
	const replays = 8
	if n, _ := t.Streams(); n != 1 {
		return fmt.Errorf("equal chips have %d streams of commands", n)
	}
	return s.measure(ctx, "mesh", &measure.Job{
		Name: "replay for each chip", Params: params, Burst: 4, Settle: m.Queue(0).Wait,
		Sample: func(ctx context.Context) (float64, error) {
			start := time.Now()
			for range replays {
				if err := t.Replay(ctx); err != nil {
					return 0, err
				}
			}
			return float64(time.Since(start)) / float64(replays*m.Size()), nil
		},
		Peers: replayPeers()[1:],
	})
}
