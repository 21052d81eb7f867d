// Package bench measures what things cost: a replay, an enqueue, a capture, a transfer, on any device. It is what
// `reprise bench` runs.
//
// A family of measurements ([Families]) makes [Figure]s. Every figure is made of rounds; in each round the figure's
// baselines, such as a copy of the same bytes, are measured right beside it, so that a ratio compares things that saw the same
// machine. Times are of the processor's constant-rate counter, less what reading it costs. Nothing is thrown away:
// percentiles are over all samples, outliers included. What can't be measured on a device is left out of the report, not
// filled in.
package bench

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild bench
