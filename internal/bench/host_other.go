//go:build !linux

package bench

import "time"

// machine returns nothing: the names are only known on Linux.
func machine() (cpu, kernel string) { return "", "" }

// processorTime reports that the time isn't known.
func processorTime() (time.Duration, bool) { return 0, false }

func familyTime() (time.Duration, bool) { return 0, false }
