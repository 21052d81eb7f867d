package bench

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// Costs of other runtimes. A peer's absolute times are of its own machine; its ratios to baselines
// carry over. tt-metal's command assembler (device_command) and allocator (free_list_opt) were
// measured on a 2-core x86-64 virtual machine; its whole operations are the expectations of its CI
// for a Blackhole machine (fd_command_construction_golden.json).
const (
	assembler = "tt-metal's command assembler"
	itsCI     = "tt-metal's CI, its machine"
	freeList  = "tt-metal's free list"
)

func replayPeers() []report.Peer {
	return []report.Peer{
		{Who: assembler + ", commands alone", To: report.NonTemporal, Value: 162 / 3.83, Ns: 162},
		{Who: itsCI, Ns: 1870},
		{Who: "CUDA graph launch, as quoted by NVIDIA", Ns: 2500},
	}
}

// ofCI are the times of tt-metal's CI for the shapes common and worst.
func ofCI(s shape, common, worst float64) []report.Peer {
	return []report.Peer{{Who: itsCI, Ns: map[string]float64{"common": common, "worst": worst}[s.name]}}
}

func enqueuePeers(s shape) []report.Peer  { return ofCI(s, 15_200, 16_700) }
func capturePeers(s shape) []report.Peer  { return ofCI(s, 57_600, 54_300) }
func argumentPeers(s shape) []report.Peer { return ofCI(s, 130_000, 536_000) }

func allocatorPeers(live int) []report.Peer {
	ns := map[int]float64{10: 150, 1_000: 300, 100_000: 13_550}[live]
	if ns == 0 {
		return nil
	}
	return []report.Peer{{Who: freeList, To: report.MemcpyHot, Value: ns / 24.5, Ns: ns}}
}

// Sources of the summary's quotations.
var (
	itsCISource = &report.Source{
		From: "tt-metal's fd_command_construction_golden.json at 352665ff, host time, least of 7",
		Date: "20 November 2026",
	}
	assemblerSource = &report.Source{From: "exec_trace by tt-metal's device_command at 001254c6", Date: "20 November 2026"}
	itsQueuesSource = &report.Source{
		From: "instructions of tt-metal's command-queue firmware (a4347c0dda, gcc 12.2) on this emulator, docs/tt-metal.md",
		Date: "23 November 2026",
	}
	ttsimAlone = &report.Source{
		From: "ttsim 1.10.0 on 2 processors of an x86-64 virtual machine: each instruction takes this, and each clock 86 to 132 ns besides",
		Date: "20 November 2026",
	}
	ttsimBeside = &report.Source{From: "ttsim 1.10 beside this emulator, on 2 processors of an AMD EPYC", Date: "22 November 2026"}
)

// quotedSimulator is the simulator whose figures are quoted unless Config.Against is measured.
const quotedSimulator = "ttsim"

// itsQueuesExecute returns the instructions of prefetcher and dispatcher with tt-metal's firmware,
// on a chip without harvested workers.
func itsQueuesExecute(a chip.Arch, s shape, replay bool) float64 {
	type of struct {
		arch   chip.Arch
		shape  string
		replay bool
	}
	return map[of]float64{
		{chip.Blackhole, "smallest", false}: 616 + 328, {chip.Blackhole, "common", false}: 868 + 5260,
		{chip.Blackhole, "smallest", true}: 2050 + 877, {chip.Blackhole, "common", true}: 2414 + 5770,
		{chip.Wormhole, "smallest", false}: 597 + 342, {chip.Wormhole, "common", false}: 838 + 2767,
		{chip.Wormhole, "smallest", true}: 1984 + 879, {chip.Wormhole, "common", true}: 2298 + 3302,
	}[of{a, s.name, replay}]
}
