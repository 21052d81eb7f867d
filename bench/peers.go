package bench

// Costs of other runtimes, to show beside ours. A peer's absolute times are its own machine's; the ratios to the
// baselines measured beside them carry over.
//
// tt-metal's command assembler (device_command) and allocator (free_list_opt) were measured on a 2-core x86-64 virtual
// machine. tt-metal's times for whole operations are those that its own continuous integration expects on its Blackhole
// machine (fd_command_construction_golden.json).
const (
	assembler = "tt-metal's command assembler"
	itsCI     = "tt-metal's CI, its machine"
	freeList  = "tt-metal's free list"
)

func replayPeers() []Peer {
	return []Peer{
		{Who: assembler + ", commands alone", To: NonTemporal, Value: 162 / 3.83, Ns: 162},
		{Who: itsCI, Ns: 1870},
		{Who: "CUDA graph launch, as quoted by NVIDIA", Ns: 2500},
	}
}

func enqueuePeers(s shape) []Peer {
	return []Peer{{Who: itsCI, Ns: map[string]float64{"common": 15_200, "worst": 16_700}[s.name]}}
}

func capturePeers(s shape) []Peer {
	return []Peer{{Who: itsCI, Ns: map[string]float64{"common": 57_600, "worst": 54_300}[s.name]}}
}

func allocatorPeers(live int) []Peer {
	ns := map[int]float64{10: 150, 1_000: 300, 100_000: 13_550}[live]
	if ns == 0 {
		return nil
	}
	return []Peer{{Who: freeList, To: MemcpyHot, Value: ns / 24.5, Ns: ns}}
}

func argumentPeers(s shape) []Peer {
	return []Peer{{Who: itsCI, Ns: map[string]float64{"common": 130_000, "worst": 536_000}[s.name]}}
}
