package main

import (
	"context"
	"os"
)

// reader is a command that may only read and print, by what it was given. Then it holds nothing that has to be put back.
type reader interface{ onlyReads() bool }

func (*graphShowCmd) onlyReads() bool   { return true }
func (*graphTableCmd) onlyReads() bool  { return true }
func (*graphPeakCmd) onlyReads() bool   { return true }
func (*graphDotCmd) onlyReads() bool    { return true }
func (*graphSVGCmd) onlyReads() bool    { return true }
func (*graphHTMLCmd) onlyReads() bool   { return true }
func (*inspectCmd) onlyReads() bool     { return true }
func (*metalLsCmd) onlyReads() bool     { return true }
func (*metalCheckCmd) onlyReads() bool  { return true }
func (c *traceDumpCmd) onlyReads() bool { return isFile(c.Source) }
func (c *traceStatCmd) onlyReads() bool { return isFile(c.Source) }
func (c *traceDiffCmd) onlyReads() bool { return isFile(c.A) && isFile(c.B) }

// isFile reports whether a name is that of a plain file, and so not of a device.
func isFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

// until calls a function that only reads or prints, and returns without it when ctx ends: the function may wait for a pipe,
// which takes no context, and the process ends soon.
func until[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
