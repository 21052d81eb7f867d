package probe

import "time"

// Config says what to watch.
type Config struct {
	// PID is the process, 0 for this one.
	PID int
	// Kinds are what to measure; nil means system calls, scheduler, page faults and functions of
	// the kernel. Markers have to be asked for.
	Kinds []Kind
	// Functions are functions of the kernel; nil means those of the kernel driver that are there.
	Functions []string
	// Slow is the limit above which an event is also kept on its own. 0 means 50 µs.
	Slow time.Duration
	// Events is the largest number of those that a Snapshot keeps, the latest ones. 0 means 1024.
	Events int
	// RingBytes is the size of the ring through which they come, a power of 2 of at least a page. 0
	// means 1 MiB.
	RingBytes int
	// Machine says which features may be used; nil means those that [Detect] finds.
	Machine Machine
}

// defaultKinds leaves out markers: a trap on every submission would be most of what is measured.
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

// Cost is the time that a probe takes the process that it watches.
type Cost struct {
	Probe string `json:"probe"`
	// Event is what runs the probe, Ns the time for one of them.
	Event string  `json:"event"`
	Ns    float64 `json:"ns"`
}
