package otel_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/observe/otel"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func TestNoTracer(t *testing.T) {
	spans := otel.New(nil)
	dev, err := reprise.Open(t.Context(), sim.Wormhole())
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close(t.Context())
	defer dev.Observe(spans.Calls())()
	d := ops.New(dev, ops.WithObserver(spans))
	defer d.Release(context.Background())
	if _, err := d.Empty(t.Context(), ops.Spec{Shape: []int{32, 32}, DType: ops.BFloat16, Layout: ops.Tile,
		Memory: ops.Interleaved(allocator.L1)}); err != nil {
		t.Fatal(err)
	}
}

func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
	spans := otel.New(tracer)
	dev, err := reprise.Open(t.Context(), sim.Wormhole())
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close(t.Context())
	d := ops.New(dev, ops.WithObserver(spans))
	defer d.Release(context.Background())
	x, err := d.Empty(t.Context(), ops.Spec{Shape: []int{32, 32}, DType: ops.BFloat16, Layout: ops.Tile,
		Memory: ops.Interleaved(allocator.L1)})
	if err != nil {
		t.Fatal(err)
	}
	recorder.Reset()
	stop := dev.Observe(spans.Calls())
	ctx, caller := tracer.Start(t.Context(), "caller")
	if _, err := d.Relu(ctx, x); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Concat(ctx, []*ops.Tensor{x}, 0); err == nil {
		t.Error("a concat of one tensor")
	}
	caller.End()
	stop()

	name := map[trace.SpanID]string{}
	for _, s := range recorder.Ended() {
		name[s.SpanContext().SpanID()] = s.Name()
		if s.Name() == "reprise::allocate" {
			continue // calls that take no context are traces of their own
		}
		if s.SpanContext().TraceID() != caller.SpanContext().TraceID() {
			t.Errorf("%s is in another trace", s.Name())
		}
		if s.EndTime().Before(s.StartTime()) {
			t.Errorf("%s ends before it begins", s.Name())
		}
	}
	parents := map[string]string{}
	for _, s := range recorder.Ended() {
		if s.Name() == "reprise::allocate" {
			continue
		}
		parents[s.Name()] = name[s.Parent().SpanID()]
		if bad := s.Name() == "ttnn::concat"; bad != (s.Status().Code == codes.Error) || bad != (len(s.Events()) == 1) {
			t.Errorf("%s: status %v, events %v", s.Name(), s.Status(), s.Events())
		}
		want := map[string]attribute.KeyValue{
			"ttnn::relu":   attribute.Int("reprise.level", 1),
			"reprise::run": attribute.String("reprise.object", "relu"),
		}[s.Name()]
		found := want.Key == ""
		for _, a := range s.Attributes() {
			found = found || a == want
		}
		if !found {
			t.Errorf("%s: %v isn't among %v", s.Name(), want, s.Attributes())
		}
	}
	want := map[string]string{
		"caller": "", "ttnn::relu": "caller", "ttnn::prim::unary": "ttnn::relu", "UnaryDeviceOperation": "ttnn::prim::unary",
		"tt::tt_metal::create_device_tensor": "UnaryDeviceOperation", "reprise::load": "UnaryDeviceOperation",
		"reprise::run": "UnaryDeviceOperation", "ttnn::concat": "caller",
	}
	if d := cmp.Diff(want, parents); d != "" {
		t.Error(d)
	}
}

func Example() {
	recorder := tracetest.NewSpanRecorder()
	spans := otel.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("example"))
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close(ctx)
	d := ops.New(dev, ops.WithObserver(spans))
	x, err := d.Empty(ctx, ops.Spec{Shape: []int{32, 32}, DType: ops.Int32, Memory: ops.Interleaved(allocator.DRAM)})
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Deallocate(x); err != nil {
		log.Fatal(err)
	}
	for _, s := range recorder.Ended() {
		fmt.Println(s.Name())
	}
	// Output:
	// tt::tt_metal::create_device_tensor
	// ttnn::empty
}
