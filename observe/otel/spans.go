// Package otel makes OpenTelemetry spans of what runs on a device: operations, the functions inside
// them, and the calls that use the device. It is a module of its own, so that only programs that
// need OpenTelemetry depend on it.
//
//	spans := otel.New(tracer)
//	defer dev.Observe(spans.Calls())()
//	d := ops.New(dev, ops.WithObserver(spans))
//
// The parent of a span is the span in the context of the call: the caller's for an operation, the
// operation's for its calls. Calls without a context, such as the allocation of a buffer, are
// traces of their own.
package otel

import (
	"context"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/ops"
)

// Spans makes spans of the functions of package ops, as an ops.Observer. [Spans.Calls] is the
// device's.
type Spans struct{ tracer trace.Tracer }

var _ ops.Observer = (*Spans)(nil)

// New makes spans with a tracer; with nil none are made.
func New(t trace.Tracer) *Spans {
	if t == nil {
		t = noop.NewTracerProvider().Tracer("")
	}
	return &Spans{tracer: t}
}

// Begin implements ops.Observer.
func (s *Spans) Begin(ctx context.Context, f *ops.Function) context.Context {
	ctx, _ = s.tracer.Start(ctx, f.Name, trace.WithTimestamp(f.Start), trace.WithAttributes(
		attribute.Int("reprise.device", f.Device), attribute.Int("reprise.level", f.Level),
		attribute.StringSlice("reprise.arguments", f.Args),
	))
	return ctx
}

// End implements ops.Observer.
func (s *Spans) End(ctx context.Context, f *ops.Function) {
	span := trace.SpanFromContext(ctx)
	failed(span, f.Err)
	span.End(trace.WithTimestamp(f.End))
}

func failed(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}

// Calls returns an Observer that makes spans of the calls that use a device. A span lasts as long
// as its call; the device may still work on it afterwards, as observe.Timeline shows.
func (s *Spans) Calls() reprise.Observer {
	return &calls{tracer: s.tracer, open: map[*reprise.Call]trace.Span{}}
}

type calls struct {
	tracer trace.Tracer

	mu   sync.Mutex
	open map[*reprise.Call]trace.Span
}

func (c *calls) Begin(ctx context.Context, call *reprise.Call) {
	_, span := c.tracer.Start(ctx, "reprise::"+strings.ReplaceAll(call.Kind.String(), " ", "_"))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[call] = span
}

func (c *calls) End(_ context.Context, call *reprise.Call) {
	c.mu.Lock()
	span := c.open[call]
	delete(c.open, call)
	c.mu.Unlock()
	if span == nil {
		return // it began before the Observer was attached
	}
	queues := make([]int, len(call.Queues))
	for i, q := range call.Queues {
		queues[i] = q.ID()
	}
	span.SetAttributes(
		attribute.String("reprise.object", call.Name), attribute.Int("reprise.bytes", call.Bytes),
		attribute.IntSlice("reprise.queues", queues),
	)
	failed(span, call.Err)
	span.End(trace.WithTimestamp(call.End))
}
