package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrDiffers is returned by Explore after a run that doesn't repeat its beginning.
var ErrDiffers = errors.New("the program's runs differ")

// Result is what a Run found out.
type Result struct {
	Hash      uint64 `json:"hash,string"`
	Conflicts []Hold `json:"conflicts"` // that its last hold has made possible, or all
	// Infeasible: a hold was never reached, or its other access only came after it.
	Infeasible bool `json:"infeasible,omitempty"`
	// Differs: the run was another one even before a hold.
	Differs bool `json:"differs,omitempty"`
	// Capped: there were more words or conflicts than are followed.
	Capped bool `json:"capped,omitempty"`
}

// ResultSuffix makes the name of a run's result from that of its schedule.
const ResultSuffix = ".result"

// Write writes the result to a file, and ReadResult reads it.
func (r Result) Write(path string) error {
	b, err := json.Marshal(r)
	return errors.Join(err, os.WriteFile(path, b, 0o644))
}

// ReadResult reads what Result.Write has written.
func ReadResult(path string) (r Result, err error) {
	b, err := os.ReadFile(filepath.Clean(path))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// State is an exploration, breadth first by the number of holds. It is a JSON file.
type State struct {
	Version     int      `json:"version"`
	Preemptions int      `json:"preemptions"` // holds of a schedule, at most
	Seed        uint64   `json:"seed"`
	Pending     [][]Hold `json:"pending"`
	Runs        int      `json:"runs"`
	Distinct    int      `json:"distinct"`
	Infeasible  int      `json:"infeasible"`
	Capped      bool     `json:"capped,omitempty"`
	Seen        []uint64 `json:"seen"`  // sorted hashes of runs
	Tried       []uint64 `json:"tried"` // sorted hashes of schedules
	// Failing is the first schedule that failed, and so a shortest one.
	Failing *File `json:"failing,omitempty"`
}

// Bounds are documented in package sim.
type Bounds struct {
	Schedules, Preemptions int
	Seed                   uint64
	State                  string
}

func (b Bounds) load() (*State, error) {
	text, err := os.ReadFile(filepath.Clean(b.State))
	if b.State == "" || errors.Is(err, fs.ErrNotExist) {
		return &State{Version: fileVersion, Preemptions: b.Preemptions, Seed: b.Seed, Pending: [][]Hold{nil}}, nil
	}
	s := &State{}
	if err == nil {
		err = parse(b.State, text, s, &s.Version)
	}
	if err == nil && (s.Preemptions != b.Preemptions || s.Seed != b.Seed) {
		err = fmt.Errorf("schedule: %s: %w: it is of %d preemptions and seed %d, not %d and %d: use another file",
			b.State, ErrFile, s.Preemptions, s.Seed, b.Preemptions, b.Seed)
	}
	return s, err
}

func (s *State) save(path string) error {
	b, err := json.Marshal(s)
	if err != nil || path == "" {
		return err
	}
	temp := path + ".new"
	return errors.Join(os.WriteFile(temp, b, 0o644), os.Rename(temp, path))
}

// Explore calls run for schedules until one fails: run then returns why. It returns the state that
// it also keeps in the file of the bounds.
func Explore(ctx context.Context, b Bounds, run func(context.Context, *File) (Result, string, error)) (*State, error) {
	s, err := b.load()
	if err != nil {
		return nil, err
	}
	s.Failing = nil
	for n := b.Schedules; n > 0 && len(s.Pending) > 0 && s.Failing == nil; n-- {
		r, failure, err := run(ctx, &File{Version: fileVersion, Seed: s.Seed, Holds: s.Pending[0]})
		if err == nil {
			err = s.add(r, failure)
		}
		if err == nil {
			err = s.save(b.State)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// All reports whether every schedule within the bound was run, and none failed.
func (s *State) All() bool { return len(s.Pending) == 0 && !s.Capped && s.Failing == nil }

func (s *State) add(r Result, failure string) error {
	holds := s.Pending[0]
	if r.Differs {
		return fmt.Errorf("schedule: %w: before the accesses that were to change their order, run %d wasn't the one in which they were found. "+
			"The host's program must make the same accesses each time: it may depend on the time, or on a random number", ErrDiffers, s.Runs+1)
	}
	s.Pending = s.Pending[1:]
	s.Runs++
	if failure != "" && s.Failing == nil {
		s.Failing = &File{Version: fileVersion, Seed: s.Seed, Holds: holds, Failure: failure}
	}
	s.Capped = s.Capped || r.Capped
	if r.Infeasible {
		s.Infeasible++
		return nil
	}
	if !insert(&s.Seen, r.Hash) {
		return nil
	}
	s.Distinct++
	if len(holds) == s.Preemptions {
		return nil
	}
	for _, c := range r.Conflicts {
		next := append(slices.Clone(holds), c)
		if insert(&s.Tried, key(next)) {
			s.Pending = append(s.Pending, next)
		}
	}
	return nil
}

// key is the same for lists of the same holds.
func key(holds []Hold) (k uint64) {
	for _, h := range holds {
		k += mix(h.At.hash(), h.Until.hash())
	}
	return k
}

func (p *Point) hash() uint64 {
	h := mix(uint64(p.Round), uint64(p.Nth), uint64(p.Tile.X), uint64(p.Tile.Y))
	for _, s := range []string{p.Core, p.Path} {
		for _, b := range []byte(s) {
			h = mix(h, uint64(b))
		}
	}
	if p.Path == "" {
		h = mix(h, uint64(p.Where.X), uint64(p.Where.Y), uint64(p.Addr))
	}
	return h
}

// insert adds to a sorted set, false if it is there.
func insert(set *[]uint64, v uint64) bool {
	i, there := slices.BinarySearch(*set, v)
	if !there {
		*set = slices.Insert(*set, i, v)
	}
	return !there
}

func mix(vs ...uint64) (h uint64) {
	for _, v := range vs {
		h = (h ^ v + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9
		h ^= h >> 29
	}
	return h
}
