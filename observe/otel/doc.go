// Package otel turns what runs on a device into OpenTelemetry spans: operations, what is inside of them, and the calls that
// use the device. It is a module of its own, so that who doesn't need OpenTelemetry doesn't get it.
//
//	spans := otel.New(tracer)
//	defer dev.Observe(spans.Calls())()
//	d := ops.New(dev, ops.WithObserver(spans))
//
// A span has the context of the call as its parent: that of the caller for an operation, that of the operation for what it
// calls. Calls that take no context, such as the allocation of a buffer, are traces of their own. Both Observers work without
// the other.
package otel
