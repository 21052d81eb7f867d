// Package traces has the cases of recorded traces: capture, replay, parameters, files, debugging.
package traces

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Cases are the cases of layer traces.
func Cases() rig.Table {
	var cs rig.Table
	for _, n := range []int{1, 2, 6, 7, 8, 9, 16, 17, 100, 500} {
		for _, replays := range []int{1, 10} {
			cs.Add(fmt.Sprintf("%d programs %d times", n, replays), "a replay runs each recorded program once, in order, every time",
				func(t *rig.T) { TraceOf(t, n, replays, false) })
		}
		cs.Add(fmt.Sprintf("%d programs with runs between", n), "replays and ordinary runs follow each other in order",
			func(t *rig.T) { TraceOf(t, n, 4, true) })
	}
	for _, n := range []int{1, 3, 8} {
		cs.Add(fmt.Sprintf("%d traces alive", n), "several traces replay in any order without touching each other",
			func(t *rig.T) { tracesAlive(t, n) })
	}
	cs = slices.Concat(cs, captureCases(), paramCases(), debugCases(), fileCases())
	cs.Add("capture runs nothing", "what is recorded doesn't run, and the queue goes on as before", captureRunsNothing)
	cs.Add("hundreds of replays", "replays follow each other without waits, hundreds of times", hundredsOfReplays)
	cs.Add("different programs", "programs of all sizes follow each other around the kernel-config ring in a replay", mixedSizes)
	cs.Add("long commands", "a program whose commands span fetch entries can be recorded", longCommands)
	cs.Add("input of a replay", "a replay reads what its buffers hold now, not what they held at the capture", inputs)
	cs.Add("release gives memory back", "after a release everything is allocated as before the capture", traceRelease)
	cs.Add("released memory is used again", "a new trace lies where a released one lay", reuse)
	cs.Add("replay after release", "a released trace isn't replayed, and not released again", replayAfterRelease)
	cs.Add("failed capture", "a capture that fails leaves nothing behind", failedCapture)
	cs.Add("nothing recorded", "an empty capture is ErrEmptyTrace", emptyTrace)
	cs.Add("recorder after the end", "a recorder that outlives its capture records nothing", recorderAfterEnd)
	cs.Add("error names the place", "a *CaptureError names the operation and the caller's line", captureErrorPlace)
	cs.Add("closed program in a trace", "a trace keeps the kernels of a program that was closed", closedInTrace)
	cs.Add("freed buffer in a trace", "memory that a trace writes isn't handed out before its release", freedInTrace)
	cs.Add("circular buffers in a trace", "memory of circular buffers that a trace uses isn't handed out", circularInTrace)
	cs.Add("description", "a trace's size, steps, extents and text agree", traceDescription)
	cs.Add("concurrent use", "a queue takes replays, runs and transfers from several goroutines", concurrentUse)
	cs.Add("capture beside use", "capturing doesn't disturb other users of the queue", captureBesideUse)
	cs.Add("replays allocate nothing", "a replay allocates no memory on the host", replayAllocates).Alone = true
	return cs
}
