package abi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// TestMetalQueue holds the constants of command-queue kernels to numbers that tt-metal's own
// sources give for queue 1 of two with 16 MiB each. Those of January on Blackhole follow the
// formulas that give all 128 constants in the debug information of a build of tt-metal's own.
func TestMetalQueue(t *testing.T) {
	for _, c := range []struct {
		revision string
		arch     chip.Arch
		want     abi.Queue
	}{
		{"2026-01-09", chip.Blackhole, abi.Queue{
			FetchQueue: 104512, FetchQueueSize: 3068, FetchRead: 104128, Commands: 107584, Scratch: 369728, DispatchRing: 106496,
			SubordinateRing: 630784,
			Issue:           16777472, IssueSize: 12586752, Completion: 29364224, CompletionSize: 4190208, CompletionWriteWords: 128,
			CompletionWrite: 104144, CompletionRead: 104160, SyncWords: 104208, Go: 880, HostMemory: 0x1000613000000000,
		}},
		{"2026-01-09", chip.Wormhole, abi.Queue{
			FetchQueue: 103008, FetchQueueSize: 3068, FetchRead: 102656, Commands: 106080, Scratch: 368224, DispatchRing: 106496,
			SubordinateRing: 630784,
			Issue:           16777344, IssueSize: 12586880, Completion: 29364224, CompletionSize: 4190208, CompletionWriteWords: 64,
			CompletionWrite: 102672, CompletionRead: 102688, SyncWords: 102736, Go: 800, HostMemory: 0xC0<<36 | 0x8_0000_0000,
		}},
		{"2026-03-12", chip.Blackhole, abi.Queue{
			FetchQueue: 111488, FetchQueueSize: 3068, FetchRead: 111104, Commands: 114560, Scratch: 376704, DispatchRing: 114688,
			SubordinateRing: 638976,
			Issue:           16777472, IssueSize: 12586752, Completion: 29364224, CompletionSize: 4190208, CompletionWriteWords: 128,
			CompletionWrite: 111120, CompletionRead: 111136, SyncWords: 111184, Go: 1008, HostMemory: 0x1000613000000000,
		}},
		{"2026-03-12", chip.Wormhole, abi.Queue{
			FetchQueue: 104096, FetchQueueSize: 3068, FetchRead: 103712, Commands: 107168, Scratch: 369312, DispatchRing: 106496,
			SubordinateRing: 630784,
			Issue:           16777344, IssueSize: 12586880, Completion: 29364224, CompletionSize: 4190208, CompletionWriteWords: 64,
			CompletionWrite: 103728, CompletionRead: 103744, SyncWords: 103792, Go: 928, HostMemory: 0xC0<<36 | 0x8_0000_0000,
		}},
	} {
		l := abi.Of(c.revision, c.arch)
		tile := map[chip.Arch]uint32{chip.Wormhole: 3 << 6, chip.Blackhole: 24<<6 | 19}[c.arch]
		got := l.MetalQueue(l.QueueForms()[0], abi.QueuePlace{HostTile: tile, Base: 16 << 20, Size: 16 << 20})
		picked := abi.Queue{
			FetchQueue: got.FetchQueue, FetchQueueSize: got.FetchQueueSize, FetchRead: got.FetchRead, Commands: got.Commands, Scratch: got.Scratch,
			DispatchRing: got.DispatchRing, SubordinateRing: got.SubordinateRing, Issue: got.Issue, IssueSize: got.IssueSize,
			Completion:     got.Completion,
			CompletionSize: got.CompletionSize, CompletionWriteWords: got.CompletionWriteWords, CompletionWrite: got.CompletionWrite,
			CompletionRead: got.CompletionRead, SyncWords: got.SyncWords, Go: got.Go, HostMemory: got.HostMemory,
		}
		if diff := cmp.Diff(c.want, picked); diff != "" {
			t.Errorf("%s on %v (-want +got):\n%s", c.revision, c.arch, diff)
		}
	}
	if abi.Own(chip.Blackhole).QueueForms() != nil {
		t.Error("this runtime's own queues have forms of tt-metal")
	}
}
