package postmortem

import (
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// places explain waypoints by a text and, after "; ", a format for the detail.
type places map[string]string

// The base firmware, the start of kernels, and the waits in kernels' headers. Source:
// dispatch/firmware/src/{brisc,ncrisc,trisc}.c, kernels/include/reprise/{kernel,stream}.h.
var firmwarePlaces = places{
	"????": "has not started",
	"BOOT": "sets itself up after reset",
	"SUBS": "waits for the other four processors to start",
	"IDLE": "waits for work",
	"PREP": "reads its launch message",
	"LOAD": "loads a kernel's data",
	"GOW":  "is ready and waits for the go signal",
	"RUN":  "runs a kernel",
	"WAIT": "is through with its kernel and waits for the other processors",
	"SYNC": "waits for the coprocessor to become idle",
	"DONE": "reports that the program is done",
	"SEMW": "waits for a word to have a value; the word is at L1 address %#x",
	"SEMM": "waits for a word to reach a value; the word is at L1 address %#x",
	"NRBW": "waits for its reads to arrive; on NoC %d",
	"NWBW": "waits for its writes to be acknowledged; on NoC %d",
	"NWFW": "waits for its writes to leave; on NoC %d",
	"NPFW": "waits for its posted writes to leave; on NoC %d",
	"NABW": "waits for its atomics to be acknowledged; on NoC %d",
	"CWFW": "waits for pages in a circular buffer; circular buffer %d",
	"CRBW": "waits for room in a circular buffer; circular buffer %d",
	"FAIL": "has stopped because a check failed",
	"SPOP": "waits for a message of the host in a stream; stream %#x",
	"SPSH": "waits for room in a stream that the host reads; stream %#x",
}

// tt-metal's base firmware and kernels if they were built with the watcher, and "RSET", which
// stands for the state without. Waits on the NoC or a circular buffer are in firmwarePlaces.
// Source: tt-metal tt_metal/hw/firmware/src/tt-1xx/{brisc,ncrisc,trisc}.cc.
var metalPlaces = places{
	"I":    "sets itself up after reset",
	"W":    "waits for work",
	"GW":   "waits for work",
	"GD":   "reads its launch message",
	"R":    "runs a kernel",
	"K":    "runs a kernel",
	"KD":   "is through with its kernel",
	"D":    "is through with its kernel",
	"NTW":  "is through with its kernel and waits for the other processors",
	"NTD":  "reports that the program is done",
	"NKFW": "waits for its requests to the NoC to end",
	"RSET": "waits for BRISC to restart it in its instruction RAM",
	"NSW":  "waits for a semaphore to have a value",
	"NSMW": "waits for a semaphore to reach a value",
	"NARW": "waits for the network interface to take a read, or the watcher has refused it",
	"NAWW": "waits for the network interface to take a write, or the watcher has refused it",
	"NWPW": "waits for the network interface to take a write, or the watcher has refused it",
	"NSIW": "waits for the network interface to take an atomic, or the watcher has refused it",
}

// tt-metal's command-queue kernels. Source: tt-metal
// tt_metal/impl/dispatch/kernels/{cq_prefetch.cpp,cq_dispatch.cpp,cq_dispatch_subordinate.cpp,cq_common.hpp}.
var (
	metalPrefetchPlaces = places{
		"HQW":  "waits for an entry in the prefetch queue",
		"DAPW": "waits for room in a dispatcher's ring: that dispatcher doesn't get on",
		"PSW":  "waits for the dispatcher's notification that a STALL is waiting for",
		"TAPW": "ends, and waits for the dispatchers to give their rings back",
		"!CMD": "has stopped for good at a command it doesn't know",
	}
	metalDispatchPlaces = places{
		"UAPW": "waits for commands from the prefetcher",
		"QRBW": "waits for the host to take reports out of the completion queue",
		"PWW":  "waits for workers, or for a word of its L1 to reach a value",
		"WCW":  "waits for workers before it sends a go signal",
		"CBRW": "waits for its writes to leave before it releases pages of its ring",
		"!CMD": "has stopped for good at a command it doesn't know",
	}
	metalSubordinatePlaces = places{
		"DAPW": "waits for commands from the prefetcher",
		"DCW":  "waits for the dispatcher's permission to send a go signal",
		"WCW":  "waits for workers before it sends a go signal",
	}
)

// Where a command-queue kernel stops for good. Source: firmware/src/cq/cq_core.h.
var stopPlaces = places{
	"BADC": "has stopped for good at a command it doesn't know; which begins with the word %#08x",
	"BADL": "has stopped for good at a command whose length can't be; word %#08x",
	"BADE": "has stopped for good at an impossible prefetch queue entry; %#04x",
	"BADS": "has stopped for good: a stall entry without a trace, or a trace without a stall entry; word %#08x",
	"LOOP": "has stopped for good: a loop with a condition began an iteration more than its limit; it is loop %d of its trace",
	"BADT": "has stopped for good: a trace ended without its end command; row %#x",
}

// The command-queue kernels. Source: firmware/src/cq/{prefetch.c,cq_prefetch_input.h,cq_ring.h},
// {dispatch.c,cq_completion.h,cq_go.h}, dispatch_s.c.
var (
	prefetchPlaces = places{
		"IDLE": "waits for an entry in the prefetch queue",
		"RUN":  "works on commands",
		"RING": "waits for room in a dispatcher's ring: that dispatcher doesn't get on; %d pages",
		"STAL": "waits for the dispatcher's notification that a STALL is waiting for; the one with number %d",
		"TERM": "ends, and waits for the dispatchers to give their rings back",
	}
	dispatchPlaces = places{
		"IDLE": "waits for commands from the prefetcher",
		"RUN":  "works on a command",
		"WMEM": "waits for a word of its L1 to reach a value; the word is at %#x",
		"HAND": "waits for its subordinate to take what it has forwarded: that one doesn't get on",
		"HOST": "waits for the host to take reports out of the completion queue; %d units of 16 B are needed",
		"TERM": "ends",
	}
	subordinatePlaces = places{
		"IDLE": "waits for commands from the prefetcher or the dispatcher",
		"RUN":  "works on a command",
		"SYNC": "waits for the dispatcher's permission to send a go signal; sub-device %d",
		"TERM": "ends",
	}
)

// Explain describes in words where a processor of the core is.
func (s CoreState) Explain(p chip.Processor) string {
	if int(p) >= len(s.Processors) {
		return "is none of a Tensix core's"
	}
	at := &s.Processors[p]
	if s.Firmware != "" {
		for _, m := range []places{s.queuePlaces(p, metalPrefetchPlaces, metalDispatchPlaces, metalSubordinatePlaces), metalPlaces,
			firmwarePlaces} {
			if w, ok := m[at.Waypoint]; ok {
				text, _, _ := strings.Cut(w, "; ")
				return text
			}
		}
		return "is at a waypoint of its kernel's own"
	}
	own := s.queuePlaces(p, prefetchPlaces, dispatchPlaces, subordinatePlaces)
	if own != nil && at.Waypoint == "WRKR" {
		return fmt.Sprintf("waits for workers: completion stream %d to reach %d (modulo %#x)", at.Detail>>24, at.Detail&0xFFFFFF, 1<<24)
	}
	if own != nil && at.Waypoint == "WMEM" {
		if what := awaitedWord(at.Detail); what != "" {
			return fmt.Sprintf("waits for %s, the word is at %#x", what, at.Detail)
		}
	}
	for _, m := range []places{own, stopPlacesOf(own), firmwarePlaces} {
		if w, ok := m[at.Waypoint]; ok {
			text, detail, ok := strings.Cut(w, "; ")
			if !ok {
				return text
			}
			return text + ", " + fmt.Sprintf(detail, at.Detail)
		}
	}
	return fmt.Sprintf("is at a waypoint of its kernel's own, detail %#x", at.Detail)
}

func (s CoreState) queuePlaces(p chip.Processor, prefetch, dispatch, subordinate places) places {
	switch {
	case s.Kind == Prefetch && p == chip.BRISC:
		return prefetch
	case s.Kind == Dispatch && p == chip.BRISC:
		return dispatch
	case s.Kind == Dispatch && p == chip.NCRISC:
		return subordinate
	}
	return nil
}

// awaitedWord names the counter in a word of the dispatch core that a WAIT polls. The words of the
// two architectures don't overlap.
func awaitedWord(addr uint32) string {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		ctl := memmap.Own(abi.Own(arch))
		for id := range memmap.MaxQueues {
			switch addr {
			case ctl.LastEvent[id]:
				return fmt.Sprintf("an event of queue %d", id)
			case ctl.EdgeWord[id]:
				return fmt.Sprintf("queue %d's part of a trace", id)
			}
		}
	}
	return ""
}

func stopPlacesOf(own places) places {
	if own == nil {
		return nil
	}
	return stopPlaces
}
