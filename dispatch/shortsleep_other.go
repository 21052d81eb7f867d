//go:build !linux

package dispatch

import "time"

// sleep sleeps.
func (s *Sleepers) sleep(d time.Duration) { time.Sleep(d) }
