// Package hoststest has the tests that every engine of package hosts must pass.
package hoststest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/mesh/hosts"
)

// Each calls f for each host concurrently and returns their errors, by rank.
func Each[E hosts.Engine](engines []E, f func(E) error) []error {
	errs := make([]error, len(engines))
	var wg sync.WaitGroup
	for i, e := range engines {
		wg.Go(func() { errs[i] = f(e) })
	}
	wg.Wait()
	return errs
}

// Test tests engines of hosts in one process.
func Test[E hosts.Engine](t *testing.T, open func(t *testing.T, n int) []E) {
	t.Run("data of all hosts", func(t *testing.T) {
		for _, n := range []int{1, 2, 5} {
			engines := open(t, n)
			if errs := Each(engines, func(e E) error { return Data(t.Context(), e) }); errors.Join(errs...) != nil {
				t.Errorf("%d hosts: %v", n, errs)
			}
		}
	})
	ok := func(t *testing.T, errs []error) {
		t.Helper()
		for i, err := range errs {
			if err != nil {
				t.Errorf("host %d: %v", i, err)
			}
		}
	}
	t.Run("different operations", func(t *testing.T) {
		ok(t, Each(open(t, 3), func(e E) error { return Order(t.Context(), e) }))
	})
	t.Run("several callers", func(t *testing.T) {
		ok(t, Each(open(t, 2), func(e E) error {
			var wg sync.WaitGroup
			errs := make([]error, 8)
			for k := range errs {
				wg.Go(func() {
					for range 20 {
						_, err := e.Exchange(t.Context(), "step", []byte{1})
						errs[k] = errors.Join(errs[k], err)
					}
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		}))
	})
	t.Run("context ended before", func(t *testing.T) {
		engines := open(t, 2)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := engines[0].Exchange(over, "step", nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ok(t, Each(engines, func(e E) error { _, err := e.Exchange(t.Context(), "step", nil); return err }))
	})
	t.Run("context ends", func(t *testing.T) {
		engines := open(t, 3)
		for i, err := range Each(engines, func(e E) error {
			if e.Rank() == 1 {
				return nil
			}
			if e.Rank() == 2 {
				return interrupted(t.Context(), e)
			}
			_, err := e.Exchange(t.Context(), "step", nil)
			return err
		}) {
			var lost *hosts.LostError
			if (i == 1) != (err == nil) || err != nil && (!errors.As(err, &lost) || lost.Op != "step") {
				t.Errorf("host %d: %v", i, err)
			}
		}
		for i, err := range Each(engines, func(e E) error { _, err := e.Exchange(t.Context(), "step", nil); return err }) {
			if lost := (*hosts.LostError)(nil); !errors.Is(err, hosts.ErrBroken) && (i != 1 || !errors.As(err, &lost)) {
				t.Errorf("host %d afterwards: %v", i, err)
			}
		}
	})
}

func interrupted(ctx context.Context, e hosts.Engine) error {
	for {
		ending, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Millisecond, cancel)
		_, err := e.Exchange(ending, "step", nil)
		cancel()
		if lost := (*hosts.LostError)(nil); errors.As(err, &lost) || !errors.Is(err, context.Canceled) {
			return err
		}
	}
}

// Data exchanges data of many sizes, equal and different on the hosts. Every host must call it.
func Data(ctx context.Context, e hosts.Engine) error {
	of := func(kind string, size, rank int) []byte {
		switch kind {
		case "equal":
			rank = 0
		case "one has nothing":
			if rank == 0 {
				return []byte{}
			}
		case "other sizes":
			size += rank
		}
		return bytes.Repeat([]byte{byte(rank + size)}, size)
	}
	for _, kind := range []string{"equal", "different", "one has nothing", "other sizes"} {
		for _, size := range []int{0, 1, 15, 16, 17, 63, 64, 1000, 100_000} {
			got, err := e.Exchange(ctx, kind, of(kind, size, e.Rank()))
			if err != nil {
				return err
			}
			if len(got) != e.Size() {
				return fmt.Errorf("data of %d hosts, want %d", len(got), e.Size())
			}
			for rank, d := range got {
				if !slices.Equal(d, of(kind, size, rank)) {
					return fmt.Errorf("%s, %d B: host %d got %d B of host %d, which are not what it gave", kind, size, e.Rank(),
						len(d), rank)
				}
			}
		}
	}
	return nil
}

// Order does different operations on the hosts, and then the same. At least two hosts must call it.
func Order(ctx context.Context, e hosts.Engine) error {
	op := "write"
	if e.Rank() == e.Size()-1 {
		op = "read"
	}
	if _, err := e.Exchange(ctx, op, []byte("data")); !errors.Is(err, hosts.ErrOrder) ||
		!strings.Contains(err.Error(), "read") || !strings.Contains(err.Error(), "write") {
		return fmt.Errorf("different operations: %v", err)
	}
	_, err := e.Exchange(ctx, "write", []byte("data"))
	return err
}
