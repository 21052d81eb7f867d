package ops

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/reprise-tt/reprise/observe"
)

// Observer is notified of operations, and of the functions inside them that graphs show.
//
// Begin is called before a function starts and End after it has ended, on the same goroutine. Begin
// returns a context derived from its argument, for the function's own calls and End. An Observer
// must return quickly and must not use the device.
type Observer interface {
	Begin(ctx context.Context, f *Function) context.Context
	End(ctx context.Context, f *Function)
}

// Function is one call of a function. Observers may read it until End returns.
type Function struct {
	Name   string
	Args   []string // as text, as in graphs
	Device int      // see WithID
	Level  int      // 1 for an operation, 2 for functions that it calls, and so on
	Start  time.Time
	End    time.Time // set when End is called
	Err    error     // set when End is called
}

type levelKey struct{}

type observers []Observer

func (all observers) begin(ctx context.Context, device int, name string, args func() []string) (context.Context, func(error)) {
	if len(all) == 0 {
		return ctx, func(error) {}
	}
	level, _ := ctx.Value(levelKey{}).(int)
	f := &Function{Name: name, Args: args(), Device: device, Level: level + 1, Start: time.Now()}
	ctx = context.WithValue(ctx, levelKey{}, f.Level)
	ctxs := make([]context.Context, len(all))
	for i, o := range all {
		ctx = o.Begin(ctx, f)
		ctxs[i] = ctx
	}
	return ctx, func(err error) {
		f.End, f.Err = time.Now(), err
		for i, o := range slices.Backward(all) {
			o.End(ctxs[i], f)
		}
	}
}

// Log returns an Observer that logs every function at its end: operations at level Info, functions
// inside them at Debug, failures at Error. It is nil for a nil Logger.
func Log(l *slog.Logger) Observer {
	if l == nil {
		return nil
	}
	return logger{l}
}

type logger struct{ *slog.Logger }

func (l logger) Begin(ctx context.Context, _ *Function) context.Context { return ctx }

func (l logger) End(ctx context.Context, f *Function) {
	at := slog.LevelInfo
	switch {
	case f.Err != nil:
		at = slog.LevelError
	case f.Level > 1:
		at = slog.LevelDebug
	}
	if !l.Enabled(ctx, at) {
		return
	}
	attrs := []slog.Attr{slog.Int("device", f.Device), slog.Int("level", f.Level), slog.Duration("took", f.End.Sub(f.Start))}
	if f.Err != nil {
		attrs = append(attrs, slog.Any("error", f.Err))
	}
	l.LogAttrs(ctx, at, f.Name, attrs...)
}

// OnTimeline returns an Observer that adds functions to a timeline, as spans of the host. It is nil
// for a nil Timeline.
func OnTimeline(t *observe.Timeline) Observer {
	if t == nil {
		return nil
	}
	return timeline{t}
}

type timeline struct{ *observe.Timeline }

type spanEnd struct{}

func (t timeline) Begin(ctx context.Context, f *Function) context.Context {
	return context.WithValue(ctx, spanEnd{}, t.Span(f.Name))
}

func (t timeline) End(ctx context.Context, _ *Function) {
	if end, ok := ctx.Value(spanEnd{}).(func()); ok {
		end()
	}
}
