// Package effort says how much tests do. `go test ./...` is for who has just cloned: it takes a few
// minutes. With -tags long tests run that take longer, as in .ci/run, and with -tags hours they
// also try so many seeds that they run for hours.
package effort

import "testing"

// Long skips a test that isn't for who has just cloned.
func Long(t testing.TB) {
	t.Helper()
	if level < long {
		t.Skip("takes long: runs with -tags long")
	}
}

// Of returns how much a test does: by itself, with -tags long, or with -tags hours.
func Of[T any](quick, longer, hours T) T { return [...]T{quick, longer, hours}[level] }

// Hours reports whether tests were built with -tags hours: then they go on after a failure.
const Hours = level == forHours

const (
	quick = iota
	long
	forHours
)
