//go:build !linux

package dispatch

import "time"

// nap sleeps.
func shortSleep(d time.Duration) { time.Sleep(d) }
