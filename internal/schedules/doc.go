// Package schedules explores the orders in which the agents of an emulated chip may reach the words
// that they share: dynamic partial-order reduction, bounded by the number of preemptions.
//
// An agent is a processor, or what a processor sends along one path of a NoC. A [Run] follows one
// run of the chip. It keeps a vector clock for each agent and finds conflicts: two accesses to a
// word, one of them a change, that no other conflict orders. A [Hold] reverses a conflict: the
// earlier access waits until the later one has happened. A schedule is a list of holds, and a
// [State] is the queue of schedules that are still to be run.
//
// A run is divided into rounds, in each of which the chip runs inside one access of its host until
// all processors wait. Accesses of different rounds have only one order.
package schedules

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reprise-tt/reprise/chip"
)

// ErrFile is wrapped by errors about files of this package.
var ErrFile = errors.New("unusable schedule")

// Agent names a processor, or with a Path its requests that don't overtake each other.
type Agent struct {
	Tile chip.XY `json:"tile"` // raw NoC 0 coordinate
	Core string  `json:"core"`
	Path string  `json:"path,omitempty"`
}

// Point is an access: the agent's Nth one of the round to a word, or on a path its Nth request.
// Rounds of a loop that only waits don't count.
type Point struct {
	Agent
	Round int     `json:"round"`
	Where chip.XY `json:"where"` // the word's tile
	Addr  uint32  `json:"address"`
	Nth   int     `json:"nth"`
	PC    uint32  `json:"pc"` // for readers
	Kind  string  `json:"kind"`
}

// String describes the access.
func (p Point) String() string {
	what := fmt.Sprintf("%s of %s of tile %v at pc=%#x", p.Kind, p.Core, p.Tile, p.PC)
	if p.Path != "" {
		what += ", sent over " + p.Path
	}
	return what
}

// is reports whether both are the same access.
func (p *Point) is(q *Point) bool {
	return p.Agent == q.Agent && p.Round == q.Round && p.Nth == q.Nth && (p.Path != "" || p.Where == q.Where && p.Addr == q.Addr)
}

// Hold makes access At wait until access Until has happened.
type Hold struct {
	At    Point `json:"at"`
	Until Point `json:"until"`
	// Before is the hash of the run until the round of At.
	Before uint64 `json:"before,string"`
}

// String describes the order.
func (h Hold) String() string {
	return fmt.Sprintf("%v waits for the %v, at %#x of tile %v", h.At, h.Until, h.At.Addr, h.At.Where)
}

// File is a schedule that a chip can repeat.
type File struct {
	Version int    `json:"version"`
	Seed    uint64 `json:"seed"`
	Holds   []Hold `json:"holds"`
	Failure string `json:"failure,omitempty"` // what it showed
}

// fileVersion is of File and State.
const fileVersion = 1

// Parse reads a schedule.
func Parse(b []byte) (*File, error) {
	f := &File{}
	return f, parse("file", b, f, &f.Version)
}

// ReadFile reads a schedule's file.
func ReadFile(path string) (*File, error) {
	b, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("schedule: %w: %w", ErrFile, err)
	}
	return Parse(b)
}

// JSON is what Parse reads.
func (f *File) JSON() []byte {
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		panic(err) // there is nothing in it that JSON lacks
	}
	return append(b, '\n')
}

func parse(name string, b []byte, v any, version *int) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("schedule: %s: %w: %w", name, ErrFile, err)
	}
	if *version != fileVersion {
		return fmt.Errorf("schedule: %s: %w: it has version %d, this program reads %d", name, ErrFile, *version, fileVersion)
	}
	return nil
}
