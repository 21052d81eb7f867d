package cli

import (
	"context"
	"os"
)

// IsFile reports whether a name is that of a plain file, and so not of a device.
func IsFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

// Until calls a function that only reads or prints, and returns without it when ctx ends: the function may wait for a pipe,
// which takes no context, and the process ends soon.
func Until[T any](ctx context.Context, f func() (T, error)) (T, error) {
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
