package probe

// Cost is the time that a probe takes the process that it watches.
type Cost struct {
	Probe string `json:"probe"`
	// Event is what runs the probe, Ns the time for one of them.
	Event string  `json:"event"`
	Ns    float64 `json:"ns"`
}
