package observe

import (
	"context"
	"log/slog"

	"github.com/reprise-tt/reprise"
)

// Log returns an Observer that writes a record for every call once it has ended: at level Debug,
// and at Error if it failed. For a nil Logger it is nil.
func Log(l *slog.Logger) reprise.Observer {
	if l == nil {
		return nil
	}
	return callLog{l}
}

type callLog struct{ *slog.Logger }

func (callLog) Begin(context.Context, *reprise.Call) {}

func (l callLog) End(ctx context.Context, c *reprise.Call) {
	at := slog.LevelDebug
	if c.Err != nil {
		at = slog.LevelError
	}
	if !l.Enabled(ctx, at) {
		return
	}
	attrs := []slog.Attr{slog.Uint64("call", c.ID), slog.String("name", c.Name), slog.Duration("took", c.End.Sub(c.Start))}
	if len(c.Queues) > 0 {
		ids := make([]int, len(c.Queues))
		for i, q := range c.Queues {
			ids[i] = q.ID()
		}
		attrs = append(attrs, slog.Any("queues", ids))
	}
	if c.Bytes > 0 {
		attrs = append(attrs, slog.Int("bytes", c.Bytes))
	}
	if c.Err != nil {
		attrs = append(attrs, slog.Any("error", c.Err))
	}
	l.LogAttrs(ctx, at, c.Kind.String(), attrs...)
}
