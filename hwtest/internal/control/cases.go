// Package control has the cases of loops, branches and calls in traces.
package control

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Cases test traces that decide. What a trace does is written down as statements, which are recorded and, on the
// host, carried out: words of L1 tell which programs ran and in which order, and counters in DRAM are what conditions
// read.
func Cases() rig.Table {
	cs := forms()
	for seed := range uint64(12) {
		cs.Add(fmt.Sprintf("random control flow, seed %d", seed), "any nest of loops, conditions, branches and calls runs what it says, in order",
			func(t *rig.T) { randomControl(t, seed) })
	}
	for c := cq.Equal; c.Valid(); c++ {
		cs.Add(fmt.Sprintf("comparison %v", c), "a condition compares words as unsigned numbers", func(t *rig.T) { comparison(t, c) })
	}
	cs = append(cs, fileCases()...)
	cs.Add("words anywhere", "a condition may read any word of a buffer in DRAM or L1", wordsAnywhere)
	cs.Add("long bodies", "bodies that are longer than what the prefetcher holds are read again in each iteration", longBodies)
	cs.Add("kernels without room", "bodies whose kernels can't all stay on the workers bring them again", kernelsWithoutRoom)
	cs.Add("number of iterations as a parameter", "replays have the numbers of iterations that were set before them", iterationsAsParameter)
	cs.Add("arguments in loops as parameters", "arguments of runs inside of loops can be set", parametersInLoops)
	cs.Add("calls have parameters of the callee", "a trace that is called has the parameters that were set last", calleeParameters)
	cs.Add("callee released first", "a trace keeps what it calls", calleeReleased)
	cs.Add("host writes between replays", "a condition finds what the host wrote before the replay", hostWrites)
	cs.Add("runs between replays", "programs and replays with control flow take turns on a queue", runsBetween)
	cs.Add("abort", "a replay ends between two iterations, and what comes after it runs", abortReplay)
	cs.Add("abort of several replays", "all replays that were given before end, and none after", abortSeveral)
	cs.Add("abort of a callee", "a replay ends inside of what it calls", abortCallee)
	cs.Add("abort without loops", "replays without loops run to their end", abortStraight)
	cs.Add("released memory", "traces with control flow hold what they use and give it back", controlMemory)
	cs.Add("refusals", "what can't be recorded is refused, and the queue is as before", controlRefusals)
	cs.Add("limit", "a loop that doesn't end stops at its limit, with a report; a recovery makes the device usable", loopLimit).Needs = rig.NeedSimulator
	cs.Add("recover in the middle", "a device recovers from a hang inside of a loop, and the trace runs again", recoverInLoop).Needs = rig.NeedSimulator
	cs.Add("timeline of random control flow", "a timeline has each loop, iteration, branch and call, in order, with the device's times", controlTimeline).Needs = rig.NeedSimulator
	cs.Add("timeline of an aborted replay", "a timeline ends where a replay was aborted", abortedTimeline)
	cs.Add("condition and writers on two queues", "a condition finds what another queue's programs wrote before an event", conditionAcrossQueues).Level = rig.LevelOwn
	cs.Add("words that the next iteration reads", "an iteration finds what the programs of the one before wrote", carriedWords)
	cs.Add("stock wire format", "control flow works without shared pages", stockControl).Level = rig.LevelOwn
	cs.Add("replays allocate nothing", "a replay with control flow allocates nothing", controlAllocates).Alone = true
	return slices.Concat(cs, spanCases(), meshCases())
}
