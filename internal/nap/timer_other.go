//go:build !linux

package nap

import "time"

// timer doesn't exist: there are no other timers than Go's.
type timer struct{}

func newTimer() *timer { return nil }

func (*timer) sleep(time.Time, time.Duration) {}

func (*timer) close() {}
