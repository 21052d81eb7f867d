//go:build !linux

package measure

import "time"

// ProcessTime is unknown.
func ProcessTime() (time.Duration, bool) { return 0, false }

// TreeTime is unknown.
func TreeTime() (time.Duration, bool) { return 0, false }
