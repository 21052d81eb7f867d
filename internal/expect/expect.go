// Package expect has the assertions of this module's tests.
package expect

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// TB is a test of package testing or rapid.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Must ends the test on an error.
func Must(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Value is Must for a call with a result.
func Value[V any](v V, err error) func(TB) V {
	return func(t TB) V {
		t.Helper()
		Must(t, err)
		return v
	}
}

// ErrOf returns the error of a call with a result.
func ErrOf[V any](_ V, err error) error { return err }

// Equal fails the test unless got is want, and formats what it is.
func Equal[V comparable](t TB, got, want V, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf(what+": %#v, want %#v", append(args, got, want)...)
	}
}

// NoDiff is Equal for slices, maps and structs.
func NoDiff(t TB, got, want any, what string, args ...any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf(what+" (-want +got):\n%s", append(args, d)...)
	}
}

// Fails fails the test unless err is want.
func Fails(t TB, err, want error, what string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf(what+": %v, want %v", append(args, err, want)...)
	}
}

// Error fails the test unless err is an error.
func Error(t TB, err error) {
	t.Helper()
	Says(t, err, nil)
}

// Says fails the test unless err is want, or any error if want is nil, and one line of text that
// has all parts in order.
func Says(t TB, err, want error, parts ...string) {
	t.Helper()
	rest := fmt.Sprint(err)
	ok := err != nil && (want == nil || errors.Is(err, want)) && !strings.Contains(rest, "\n")
	for _, p := range parts {
		var found bool
		_, rest, found = strings.Cut(rest, p)
		ok = ok && found
	}
	if !ok {
		t.Errorf("error %v, want one line that is %v and says %q", err, want, parts)
	}
}
