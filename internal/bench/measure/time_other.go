//go:build !linux

package measure

import "time"

// ProcessTime reports that the time isn't known.
func ProcessTime() (time.Duration, bool) { return 0, false }

// TreeTime reports that the time isn't known.
func TreeTime() (time.Duration, bool) { return 0, false }
