package probe

import "time"

// Config says what to watch.
type Config struct {
	// PID is the process; 0 means this one.
	PID int
	// Kinds selects what to measure; nil means all but markers.
	Kinds []Kind
	// Functions are kernel functions; nil means those of the loaded kernel driver.
	Functions []string
	// Slow is the duration above which an event is also kept by itself. 0 means 50 µs.
	Slow time.Duration
	// Events bounds the slow events of a Snapshot; the latest are kept. 0 means 1024.
	Events int
	// RingBytes is the size of the ring of slow events, a power of 2 of at least a page. 0 means 1
	// MiB.
	RingBytes int
	// Machine says which features may be used; nil means [Detect].
	Machine Machine
}

// defaultKinds leaves out markers, whose traps on every submission would dominate.
var defaultKinds = []Kind{Calls, Scheduler, Faults, Functions}

const (
	defaultSlow   = 50 * time.Microsecond
	defaultEvents = 1024
	defaultRing   = 1 << 20
)

func (c Config) withDefaults() Config {
	if c.Kinds == nil {
		c.Kinds = defaultKinds
	}
	if c.Slow == 0 {
		c.Slow = defaultSlow
	}
	if c.Events == 0 {
		c.Events = defaultEvents
	}
	if c.RingBytes == 0 {
		c.RingBytes = defaultRing
	}
	if c.Machine == nil {
		c.Machine = Detect()
	}
	return c
}

// Cost is the time that a probe takes of the watched process.
type Cost struct {
	Probe string `json:"probe"`
	// Event is what triggers the probe, Ns its cost in nanoseconds.
	Event string  `json:"event"`
	Ns    float64 `json:"ns"`
}
