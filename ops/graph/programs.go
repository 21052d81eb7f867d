package graph

import "time"

// ProgramRun is a program that a device ran, with times from the device.
type ProgramRun struct {
	Function int    `json:"function"` // start of the innermost function that ran it, or that recorded it into the trace; -1 if unknown
	Name     string `json:"program"`  // empty if it isn't known which program of the trace it was
	Device   int64  `json:"device_id"`
	Queue    int    `json:"queue"`
	Cores    int    `json:"num_cores,omitempty"` // that it ran on, if known
	// Trace is the name of the replayed trace, and Replay the number of its replay in this capture,
	// from 1 on; zero outside of replays.
	Trace  string `json:"trace,omitempty"`
	Replay int    `json:"replay,omitempty"`
	// Start and End are cycles of the device's clock: from the end of earlier programs to the end
	// of its kernels. Those of a queue don't overlap.
	Start uint64 `json:"start_cycle"`
	End   uint64 `json:"end_cycle"`
	// HostStart and HostEnd delimit the host's call, since the start of the capture.
	HostStart time.Duration `json:"host_start_ns"`
	HostEnd   time.Duration `json:"host_end_ns"`
}

// Cycles returns how long the program ran.
func (p *ProgramRun) Cycles() uint64 { return p.End - min(p.Start, p.End) }

// ClockMHz returns the frequency of a device's clock; 1,000 if unknown.
func (r *Report) ClockMHz(device int64) float64 {
	if d := r.device(device); d != nil && d.ClockMHz > 0 {
		return d.ClockMHz
	}
	return 1000
}

// DeviceTime is how long a function's programs ran.
type DeviceTime struct {
	Programs int
	Cycles   uint64
	Time     time.Duration // by the clocks of the devices
}

func (t *DeviceTime) add(o DeviceTime) {
	t.Programs += o.Programs
	t.Cycles += o.Cycles
	t.Time += o.Time
}

func (r *Report) timeOf(device int64, cycles uint64) time.Duration {
	return time.Duration(float64(cycles) * 1000 / r.ClockMHz(device))
}

// DeviceTimes returns how long the programs of each function with programs ran, also in functions
// inside, by the counter of the function's start.
func (r *Report) DeviceTimes() map[int]DeviceTime {
	if len(r.Programs) == 0 || r.Graph == nil {
		return nil
	}
	own := map[int]DeviceTime{}
	for _, p := range r.Programs {
		t := own[p.Function]
		t.add(DeviceTime{1, p.Cycles(), r.timeOf(p.Device, p.Cycles())})
		own[p.Function] = t
	}
	calls := r.Graph.Calls()
	sums := make([]DeviceTime, len(calls))
	out := map[int]DeviceTime{}
	for i := len(calls) - 1; i >= 0; i-- {
		c := &calls[i]
		sums[i].add(own[c.Start])
		if sums[i].Programs == 0 {
			continue
		}
		out[c.Start] = sums[i]
		if c.Parent >= 0 {
			sums[c.Parent].add(sums[i])
		}
	}
	return out
}

// Function returns the counter of the start of the innermost open function, or -1 if none is open.
func (r *Recorder) Function() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) < 2 {
		return -1
	}
	return r.top().counter
}

// Started returns when the capture began.
func (r *Recorder) Started() time.Time { return r.started }

// SetPrograms sets the programs of the report, in the order of their starts on each queue.
func (r *Recorder) SetPrograms(runs []ProgramRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programs = runs
}

func (r *Report) device(id int64) *Device {
	for i := range r.Devices {
		if r.Devices[i].ID == id {
			return &r.Devices[i]
		}
	}
	return nil
}
