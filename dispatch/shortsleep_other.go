//go:build !linux

package dispatch

import "time"

// shortSleep sleeps.
func shortSleep(d time.Duration) { time.Sleep(d) }
