//go:build !linux

package bench

import "time"

// machine returns nothing: the names are only known on Linux.
func machine() (cpu, kernel string) { return "", "" }

// processorTime reports that the time isn't known.
func processorTime() (time.Duration, bool) { return 0, false }

func familyTime() (time.Duration, bool) { return 0, false }

func threadTime() time.Duration { return 0 }

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
