package bench

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// measureTransfer measures writes and reads of interleaved buffers to their end: through the
// queue's own memory, which costs the host a copy, and directly with pinned memory if the chip
// reaches it.
func measureTransfer(ctx context.Context, s *session) error {
	var unreachable error // why pinned memory isn't measured
	for _, t := range []struct {
		kind              allocator.Kind
		size, page, burst int
	}{
		{allocator.DRAM, 4 << 10, 1 << 10, 4}, {allocator.DRAM, 64 << 10, 2 << 10, 4}, {allocator.DRAM, 1 << 20, 4 << 10, 4}, {allocator.DRAM, 1 << 20, 64, 4},
		{allocator.DRAM, 64 << 20, 4 << 10, 1}, {allocator.L1, 64 << 10, 2 << 10, 4},
	} {
		b, err := s.dev.NewBuffer(reprise.BufferConfig{Kind: t.kind, Size: t.size, PageSize: t.page, Name: "transfer"})
		if err != nil {
			return err
		}
		h, err := s.dev.NewHostBuffer(reprise.HostBufferConfig{Size: t.size, Strict: true, Name: "transfer"})
		if errors.Is(err, dispatch.ErrRemoteChip) {
			h, unreachable = nil, err
		} else if err != nil {
			return err
		}
		base := []*measure.Baseline{measure.MemcpySame(t.size, 1)}
		for _, j := range s.transfers(b, h) {
			j.Params = report.Params("memory", t.kind.String(), "bytes", t.size, "page", t.page)
			j.PerSample, j.Burst, j.Against, j.Bytes = 1, t.burst, base, float64(t.size)
			if err := s.measure(ctx, "transfer", j); err != nil {
				return err
			}
		}
		if h != nil {
			if err := h.Release(ctx); err != nil {
				return err
			}
		}
		if err := b.Release(); err != nil {
			return err
		}
	}
	if unreachable != nil {
		s.leaveOut("transfer", " from and to pinned host memory", unreachable.Error())
	}
	return nil
}

// transfers returns the ways to move a whole buffer; h is nil without pinned memory.
func (s *session) transfers(b *reprise.Buffer, h *reprise.HostBuffer) []*measure.Job {
	q, data := s.dev.Queue(0), make([]byte, b.Size())
	var jobs []*measure.Job
	type way struct {
		name string
		op   func(context.Context) error
	}
	ways := []way{
		{"write", func(ctx context.Context) error {
			if err := q.Write(ctx, b, 0, data); err != nil {
				return err
			}
			return q.Wait(ctx)
		}},
		{"read", func(ctx context.Context) error { return q.Read(ctx, b, 0, data) }},
	}
	if h != nil {
		ways = append(ways,
			way{"write_pinned", func(ctx context.Context) error { return q.WriteFrom(ctx, b, 0, h, 0, b.Size()) }},
			way{"read_pinned", func(ctx context.Context) error { return q.ReadTo(ctx, b, 0, h, 0, b.Size()) }})
	}
	for _, w := range ways {
		jobs = append(jobs, &measure.Job{Name: w.name, Do: measure.Repeat(w.op)})
	}
	return jobs
}
