// Package schedules explores the orders in which the agents of an emulated chip may reach the words
// that they share: dynamic partial-order reduction, bounded by the number of preemptions.
//
// An agent is a processor, or a path of a NoC. A [Run] follows one run of the chip with a vector
// clock for each agent, and finds conflicts: two accesses to a word, one of them a change, that no
// other conflict orders. A [Hold] reverses a conflict. A schedule is a list of holds.
//
// A run is divided into rounds, in each of which the chip runs inside one access of its host until
// all processors wait. Accesses of different rounds have only one order.
package schedules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// Word is a word of a tile, by its raw NoC 0 coordinate.
type Word struct {
	Tile chip.XY
	Addr uint32
}

// Point is a processor's Nth access of a round to a word, or the Nth request of a path. Polls of a
// loop that only waits count once.
type Point struct {
	Agent      uint64 // hash of its name
	Round, Nth int
	Word       // zero for requests
}

// Hold makes access At wait until access Until has happened.
type Hold struct {
	Text      string // for readers
	At, Until Point
	Before    uint64 // hash of the run until the round of At
}

// File is an exploration, breadth first by the number of holds. A chip can repeat its first Pending
// schedule.
type File struct {
	Version     int
	Seed        uint64
	Preemptions int    // holds of a schedule, at most
	Failure     string // of the first one pending: none with fewer holds fails
	Held        uint64 `json:",omitempty"` // Result.Held of the run that failed
	Pending     [][]Hold
	Runs        int
	Capped      bool            // a run was
	Seen        map[uint64]bool `json:",omitempty"` // hashes of runs and schedules
}

const version = 1

// ReadFile reads a file.
func ReadFile(path string) (*File, error) {
	f := &File{}
	b, err := os.ReadFile(filepath.Clean(path))
	if err == nil {
		err = json.Unmarshal(b, f)
	}
	if err == nil && f.Version != version {
		err = fmt.Errorf("version %d: %w: this program reads %d", f.Version, errors.ErrUnsupported, version)
	}
	if err != nil {
		err = fmt.Errorf("schedule: %s is unusable: %w", path, err)
	}
	return f, err
}

// Open returns a run under a file's schedule.
func Open(path string) (*Run, error) {
	f, err := ReadFile(path)
	return NewRun(f), err
}

// JSON is what ReadFile reads.
func (f *File) JSON() []byte {
	b, _ := json.MarshalIndent(f, "", " ") // there is nothing in it that JSON lacks
	return append(b, '\n')
}

// All reports whether every schedule within the bound was run, and none failed.
func (f *File) All() bool { return f.Runs > 0 && len(f.Pending) == 0 && !f.Capped }

// Explore calls run for pending schedules until one fails, whose error run returns first. If there
// is a file of the state it goes on with that, else with f, and keeps the result in the file.
func Explore(ctx context.Context, state string, most int, f *File, run func(*File) (Result, error, error)) (*File, error) {
	have, err := ReadFile(state)
	switch {
	case state == "" || errors.Is(err, fs.ErrNotExist):
		f.Version, f.Pending, f.Seen, err = version, [][]Hold{nil}, map[uint64]bool{}, nil
	case err == nil && (have.Preemptions != f.Preemptions || have.Seed != f.Seed || have.Seen == nil):
		err = fmt.Errorf("schedule: %s isn't of %d preemptions and seed %d: use another file", state, f.Preemptions, f.Seed)
	default:
		f = have
	}
	for n := 0; err == nil && n < most && len(f.Pending) > 0 && (n == 0 || f.Failure == ""); n++ {
		r, failure, wrong := run(f)
		if err = cmp.Or(wrong, ctx.Err()); err == nil && r.Differs {
			err = fmt.Errorf("schedule: run %d differs before the accesses that were to change their order. "+
				"The host's program must make the same accesses each time: it may depend on the time, or on a random number", f.Runs+1)
		}
		if err != nil {
			return f, err
		}
		f.Runs++
		if f.Failure, f.Held = "", 0; failure == nil {
			f.add(r)
		} else {
			f.Failure, f.Held = failure.Error(), r.Held
		}
		if state != "" {
			temp := state + ".new"
			err = errors.Join(os.WriteFile(temp, f.JSON(), 0o644), os.Rename(temp, state))
		}
	}
	return f, err
}

// add replaces the first pending schedule by those that its run made possible.
func (f *File) add(r Result) {
	holds := f.Pending[0]
	f.Pending = f.Pending[1:]
	f.Capped = f.Capped || r.Capped
	if f.Seen[r.Hash] {
		return
	}
	f.Seen[r.Hash] = true
	for _, c := range r.Conflicts {
		if len(holds) == f.Preemptions {
			return
		}
		next, key := append(slices.Clone(holds), c), uint64(0)
		for _, h := range next {
			key += hashOf(h.At, h.Until) // the same in any order
		}
		if !f.Seen[key] {
			f.Seen[key] = true
			f.Pending = append(f.Pending, next)
		}
	}
}

func hashOf(v ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, v...)
	return h.Sum64()
}

func mix(h, v uint64) uint64 {
	h = (h ^ h>>31 ^ v + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9
	return h ^ h>>29
}
