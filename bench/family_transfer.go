package bench

import (
	"context"

	"github.com/reprise-tt/reprise"
)

// measureTransfer measures writing and reading interleaved buffers, to the end: the data are in memory.
func measureTransfer(ctx context.Context, s *session) error {
	q := s.dev.Queue(0)
	for _, t := range []struct {
		kind       reprise.Kind
		size, page int
	}{
		{reprise.DRAM, 4 << 10, 1 << 10}, {reprise.DRAM, 64 << 10, 2 << 10}, {reprise.DRAM, 1 << 20, 4 << 10}, {reprise.DRAM, 1 << 20, 64},
		{reprise.L1, 64 << 10, 2 << 10},
	} {
		b, err := s.dev.NewBuffer(reprise.BufferConfig{Kind: t.kind, Size: t.size, PageSize: t.page, Name: "transfer"})
		if err != nil {
			return err
		}
		data := make([]byte, t.size)
		params := []Param{{"memory", t.kind.String()}, param("bytes", t.size), param("page", t.page)}
		write := jobToEnd("write", params, 4, func(ctx context.Context, _ int) error { return q.Write(ctx, b, 0, data) }, s.finish)
		read := &job{name: "read", params: params, per: 1, burst: 4, op: func(ctx context.Context, n int) error {
			for range n {
				if err := q.Read(ctx, b, 0, data); err != nil {
					return err
				}
			}
			return nil
		}}
		for _, j := range []*job{write, read} {
			j.against, j.bytes = []*baseline{memcpySame(t.size, 1)}, float64(t.size)
			if err := s.measure(ctx, "transfer", j); err != nil {
				return err
			}
		}
		if err := b.Free(); err != nil {
			return err
		}
	}
	return nil
}
