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
// traces of their own. Each Observer works without the other.
package otel
