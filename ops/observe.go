package ops

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/reprise-tt/reprise/observe"
)

// Observer hears of functions: operations, and what graphs show inside of them. [WithObserver] attaches one to a Device;
// what the device is told to do by a function, a [reprise.Observer] hears of.
//
// Begin is called before the function does anything, and End when it is over, on the same goroutine. The context that Begin
// returns is that of all the function calls, and is given to End; it comes from the one that Begin is given. An Observer must
// be quick, and must not use the device.
type Observer interface {
	Begin(ctx context.Context, f *Function) context.Context
	End(ctx context.Context, f *Function)
}

// Function is a function that runs. It is the Observer's to read until End returns.
type Function struct {
	Name   string
	Args   []string // in words, as in graphs
	Device int      // see WithID
	Level  int      // 1 is an operation, 2 what it calls, and so on
	Start  time.Time
	End    time.Time // from End on
	Err    error     // from End on
}

// WithObserver attaches an Observer. Given several times, all hear of each function, the first one first.
func WithObserver(o Observer) Option { return func(d *Device) { d.watch = append(d.watch, o) } }

// observed runs a function of which Observers hear. args are its arguments in words.
func (c *call) observed(name string, args func() []string, f func() (*Tensor, error)) (*Tensor, error) {
	if len(c.d.watch) == 0 {
		return f()
	}
	before := c.ctx
	ctx, end := c.d.observe(c.ctx, name, args())
	c.ctx = ctx
	t, err := f()
	end(err)
	c.ctx = before
	return t, err
}

// openFunctions is what contexts have the number of functions by that are open.
type openFunctions struct{}

// observe tells of a function that begins. It returns the context of what the function calls, and how to tell of its end.
func (d *Device) observe(ctx context.Context, name string, args []string) (context.Context, func(error)) {
	level, _ := ctx.Value(openFunctions{}).(int)
	f := &Function{Name: name, Args: args, Device: d.id, Level: level + 1, Start: time.Now()}
	ctx = context.WithValue(ctx, openFunctions{}, f.Level)
	given := make([]context.Context, len(d.watch))
	for i, o := range d.watch {
		ctx = o.Begin(ctx, f)
		given[i] = ctx
	}
	return ctx, func(err error) {
		f.End, f.Err = time.Now(), err
		for i, o := range slices.Backward(d.watch) {
			o.End(given[i], f)
		}
	}
}

// Log returns an Observer that writes a record for every function that is over: operations at level Info, what is inside of
// them at Debug, what failed at Error.
func Log(l *slog.Logger) Observer { return logger{l} }

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

// OnTimeline returns an Observer that puts functions on a timeline, among what the host does. It opens as the timeline's
// own spans do, in Perfetto.
func OnTimeline(t *observe.Timeline) Observer { return timeline{t} }

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
