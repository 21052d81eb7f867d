// Package effort says how much tests do: by themselves a few minutes for who has just cloned, with
// -tags long as in .ci/run, and with -tags hours with many more seeds. -short is for the race
// detector: a run is a quick one then, but for tests with goroutines of their own.
package effort

import (
	"hash/crc32"
	"testing"
)

// Long skips a test without -tags long, and with -short.
func Long(t testing.TB) {
	t.Helper()
	if level() < long {
		t.Skip("takes long: runs with -tags long and without -short")
	}
}

// Raced is Long for a test whose goroutines no other test has: -short doesn't skip it.
func Raced(t testing.TB) {
	t.Helper()
	if built < long {
		t.Skip("takes long: runs with -tags long")
	}
}

// OneOf skips a variant of what key names in a quick run: all but one of n, which key decides.
func OneOf(t testing.TB, key string, variant, n int) {
	t.Helper()
	if level() < long && int(crc32.ChecksumIEEE([]byte(key)))%n != variant {
		t.Skipf("a quick run has one of %d: runs with -tags long", n)
	}
}

// Of returns how much a test does: by itself, with -tags long, or with -tags hours.
func Of[T any](quick, longer, hours T) T { return [...]T{quick, longer, hours}[level()] }

// Hours reports whether tests were built with -tags hours, which go on after a failure.
const Hours = built == forHours

const (
	quick = iota
	long
	forHours
)

func level() int {
	if testing.Short() {
		return quick
	}
	return built
}
