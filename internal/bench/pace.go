package bench

import (
	"time"
)

// A pace is a way to wait.
type pace struct {
	name          string
	spin, longest time.Duration
}

var (
	defaultPace  = pace{"default", 0, 0}
	spinningPace = pace{"spin=5ms", 5 * time.Millisecond, 0}
)

// paces are the ways to wait that the wake family measures.
var paces = []pace{
	defaultPace,
	spinningPace,
	{"longest=100us", 0, 100 * time.Microsecond},
	{"longest=5ms", 0, 5 * time.Millisecond},
}
