//go:build !linux

package dispatch

import "time"

// nap sleeps.
func nap(d time.Duration) { time.Sleep(d) }
