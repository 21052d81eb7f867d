package probe

// Cost is what a probe takes from the process that is watched.
type Cost struct {
	Probe string `json:"probe"`
	// Event is what costs it, Ns how much.
	Event string  `json:"event"`
	Ns    float64 `json:"ns"`
}
