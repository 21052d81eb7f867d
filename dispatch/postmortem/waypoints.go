package postmortem

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

//go:embed waypoints.txt
var waypointsText string

// places explain waypoints by a text and, after "; ", a format for the detail.
type places map[string]string

// placesOf returns a section of waypoints.txt.
func placesOf(section string) places { return allPlaces()[section] }

var allPlaces = sync.OnceValue(func() map[string]places {
	all, section := map[string]places{}, ""
	for line := range strings.Lines(waypointsText) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			all[section] = places{}
		} else if key, text, ok := strings.Cut(line, " "); ok && key != "#" {
			all[section][key] = text
		}
	}
	return all
})

// Explain describes in words where a processor of the core is.
func (s CoreState) Explain(p chip.Processor) string {
	if int(p) >= len(s.Processors) {
		return "is none of a Tensix core's"
	}
	at := &s.Processors[p]
	if s.Firmware != "" {
		for _, m := range []places{s.queuePlaces(p, "metal "), placesOf("metal"), placesOf("firmware")} {
			if w, ok := m[at.Waypoint]; ok {
				text, _, _ := strings.Cut(w, "; ")
				return text
			}
		}
		return "is at a waypoint of its kernel's own"
	}
	own, stop := s.queuePlaces(p, ""), places(nil)
	if own != nil && at.Waypoint == "WRKR" {
		return fmt.Sprintf("waits for workers: completion stream %d to reach %d (modulo %#x)", at.Detail>>24, at.Detail&0xFFFFFF, 1<<24)
	}
	if own != nil && at.Waypoint == "WMEM" {
		if what := awaitedWord(at.Detail); what != "" {
			return fmt.Sprintf("waits for %s, the word is at %#x", what, at.Detail)
		}
	}
	if own != nil {
		stop = placesOf("stop")
	}
	for _, m := range []places{own, stop, placesOf("firmware")} {
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

func (s CoreState) queuePlaces(p chip.Processor, prefix string) places {
	switch {
	case s.Kind == Prefetch && p == chip.BRISC:
		return placesOf(prefix + "prefetch")
	case s.Kind == Dispatch && p == chip.BRISC:
		return placesOf(prefix + "dispatch")
	case s.Kind == Dispatch && p == chip.NCRISC:
		return placesOf(prefix + "subordinate")
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
