package rig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/target"
)

// Case is one fact that every device must hold.
type Case struct {
	Layer    string        `json:"layer"`
	Name     string        `json:"name"`
	Protects string        `json:"protects"`           // the fact, in one clause
	Unsafe   string        `json:"unsafe,omitempty"`   // why silicon skips it unless asked for
	Long     bool          `json:"long,omitempty"`     // only in long runs
	Needs    Need          `json:"needs,omitempty"`    // beside the device of its level
	Limit    time.Duration `json:"limit_ns,omitempty"` // if the case needs more than others; hours for minutes in a long run
	Level    Level         `json:"-"`                  // shared with other cases; in a layer's table LevelNone for the layer's
	Alone    bool          `json:"-"`                  // it inspects memory of the whole process, so nothing runs beside it
	Run      func(*T)      `json:"-"`
}

// Time is how long a case may take on a device.
func (s *Settings) Time(d *target.Device, c *Case) time.Duration {
	limit := max(cmp.Or(s.Limit, 5*Patience(d)), c.Limit)
	if s.Long {
		limit *= 60
	}
	return limit
}

// Need is what a case asks of the device beside its layer.
type Need int

const (
	needNothing   Need = iota
	NeedEmulator       // options that only the emulator has
	NeedSimulator      // a device that may be thrown away: emulator, simulator, or a card that is said to be one
)

func (n Need) String() string { return [...]string{"", "emulator", "simulator"}[n] }

// MarshalText is for JSON.
func (n Need) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// Level is what a layer's cases share.
type Level int

const (
	LevelNone Level = iota // each case opens what it needs
	LevelKMD
	LevelQueues
	LevelDevice // everything
	LevelTwo    // everything, with two queues that share all workers
	LevelSplit  // everything, with two queues that have workers of their own
	LevelMesh   // several chips, opened by the first case that needs them
	LevelOwn    // as LevelNone, in a layer whose other cases share something
)

// Skip returns why a device doesn't run a case, or "".
func (s *Settings) Skip(d *target.Device, c *Case) string {
	switch {
	case c.Long && !s.Long:
		return "only in long runs: -tags=long of go test, --long of reprise hwtest"
	case c.Unsafe != "" && d.Kind == target.Silicon && !s.Unsafe:
		return "not on silicon unless the unsafe cases are asked for: " + c.Unsafe
	case c.Needs == NeedEmulator && d.Kind != target.Emulator:
		return "needs the emulator's options"
	case !s.Firmware.Own() && c.Level == LevelQueues:
		return belowRuntime
	case c.Needs == NeedSimulator && d.Kind == target.Silicon && !s.Unsafe:
		return "needs a device that may be thrown away, as a card is if the unsafe cases are asked for"
	}
	return ""
}

// RunCase runs a case on a device.
func RunCase(t TB, b *Shared, c *Case) {
	if why := b.Config.Skip(b.Device, c); why != "" {
		t.Skip(why)
	}
	// These wait for timeouts most of their time, on emulators of their own.
	parallel := (c.Layer == "faults" || c.Layer == "hard") && b.Device.Kind == target.Emulator
	if parallel {
		b.leave(t, c.Level)
		t.Parallel()
	}
	var x *T
	defer func() {
		if !t.Failed() {
			return
		}
		if x != nil {
			x.opened.report(t, b.Device, context.Cause(x.Ctx))
		}
		t.Logf("this case protects: %s", c.Protects)
		if !parallel {
			b.discard(t)
		}
	}()
	x = b.use(t, c.Level, b.Config.Time(b.Device, c)) // after Parallel, so that its wait doesn't count
	c.Run(x)
	if err := x.Ctx.Err(); err != nil && !t.Failed() {
		t.Error(context.Cause(x.Ctx))
	}
}

// Settings are the parts of a run's configuration that cases see.
type Settings struct {
	Short    bool          // fewer repetitions
	Long     bool          // also the cases that take minutes, and more seeds
	Unsafe   bool          // run the unsafe cases on device nodes too, which may leave a card in need of a reset
	Limit    time.Duration // of a case that states no longer one; 0 is 100 seconds, or 5 minutes on a slow device
	Victim   []string      // command that runs hwtest.Victim on its argument; "--once" may follow. nil skips the case that needs it
	Firmware Firmware      // that devices run, in place of this runtime's own

	Compare  func(*target.Device) *target.Device // second device of the differential cases; nil for an emulator with slow networks
	Property func(t *T, n int, prop func(Draw))  // tries a property n times: SeededProperty

	// Record gets the results of layer tensix in place of a comparison, if it is not nil.
	Record func(d *target.Device, a chip.Arch, name string, run int, input, result []byte)
}

// Table is a list of cases.
type Table []Case

// Add appends a case, whose other fields the caller may set.
func (cs *Table) Add(name, protects string, run func(*T)) *Case {
	*cs = append(*cs, Case{Name: name, Protects: protects, Run: run})
	return &(*cs)[len(*cs)-1]
}

// parts are the elements of an array, or another value itself.
func parts(v any) (all []any) {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Array {
		return []any{v}
	}
	for i := range r.Len() {
		all = append(all, r.Index(i).Interface())
	}
	return all
}

// Each appends a case for each value, which its name has, and returns these cases. The name has an
// array element by element.
func Each[V any](cs *Table, name, protects string, run func(*T, V), values ...V) Table {
	for _, v := range values {
		cs.Add(fmt.Sprintf(name, parts(v)...), protects, func(t *T) { run(t, v) })
	}
	return (*cs)[len(*cs)-len(values):]
}

// Pairs appends a case for each pair of values, which its name has.
func Pairs[A, B any](cs *Table, name, protects string, run func(*T, A, B), as []A, bs []B) {
	for _, a := range as {
		for _, b := range bs {
			cs.Add(fmt.Sprintf(name, append(parts(a), parts(b)...)...), protects, func(t *T) { run(t, a, b) })
		}
	}
}

// At sets the level of all cases.
func (cs Table) At(l Level) Table {
	for i := range cs {
		cs[i].Level = l
	}
	return cs
}

// AddHang appends a case that makes a core hang.
func (cs *Table) AddHang(name, protects string, run func(*T)) {
	cs.Add(name, protects, run)
	(*cs)[len(*cs)-1:].Hang()
}

// Hang marks cases that make a core hang.
func (cs Table) Hang() {
	for i := range cs {
		cs[i].Unsafe, cs[i].Needs = "a hanging core holds the card until it is reset", NeedSimulator
	}
}

// Draw is what a property draws from: rapid under go test, else a generator with a seed.
type Draw interface {
	IntRange(from, to int, label string) int // inclusive
	Uint32(label string) uint32
	Repeat(actions map[string]func(Draw)) // in any order
	Fatalf(format string, args ...any)
}

// Sample draws one of several values.
func Sample[V any](r Draw, from []V, label string) V { return from[r.IntRange(0, len(from)-1, label)] }

type seeded struct {
	*T
	rng *rand.Rand
}

const seededActions = 40

// SeededProperty tries a property with the seeds from 1 to n.
func SeededProperty(t *T, n int, prop func(Draw)) {
	for seed := range uint64(n) {
		t.Sub(fmt.Sprintf("seed %d", seed+1), func(t *T) {
			prop(seeded{t, rand.New(rand.NewPCG(seed+1, 2))})
		})
		if t.Failed() {
			return
		}
	}
}

func (s seeded) IntRange(from, to int, _ string) int { return from + s.rng.IntN(to-from+1) }
func (s seeded) Uint32(string) uint32                { return s.rng.Uint32() }

func (s seeded) Repeat(actions map[string]func(Draw)) {
	names := slices.Sorted(maps.Keys(actions))
	for range seededActions {
		actions[names[s.rng.IntN(len(names))]](s)
	}
}

// Random returns the same numbers in every run of a case.
func Random(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// Same compares bytes and shows the first difference.
func (t *T) Same(want, got []byte, what string, args ...any) {
	if d := Difference(want, got); d != "" {
		t.Errorf("%s: %s", fmt.Sprintf(what, args...), d)
	}
}

// Difference describes where two pieces of memory differ; it is empty if they don't.
func Difference(want, got []byte) string {
	if bytes.Equal(want, got) {
		return ""
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%d bytes, want %d", len(got), len(want))
	}
	first, last, n := -1, 0, 0
	for i := range want {
		if want[i] != got[i] {
			if first < 0 {
				first = i
			}
			last = i
			n++
		}
	}
	end := min(first+16, len(want))
	return fmt.Sprintf("%d of %d bytes differ, from %#x to %#x: first % x, want % x", n, len(want), first, last, got[first:end],
		want[first:end])
}

// Pattern returns n bytes that differ by seed, and at any shift.
func Pattern[I int | uint32 | uint64](seed I, n int) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x >> 8)
	}
	return b
}

// Word reads a word of a device's memory, which is little-endian.
func Word(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// PutWord writes a word.
func PutWord(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }

// MakeWords makes n bytes of words that follow from their numbers.
func MakeWords[I int | uint32](n int, word func(i I) uint32) []byte {
	p := make([]byte, 0, n)
	for i := I(0); i < I(n/4); i++ {
		p = AppendWord(p, word(i))
	}
	return p
}

// WordsOf makes bytes of words.
func WordsOf(words ...uint32) []byte {
	return MakeWords(4*len(words), func(i int) uint32 { return words[i] })
}

// Repeated makes n bytes of equal words.
func Repeated(n int, v uint32) []byte { return MakeWords(n, func(int) uint32 { return v }) }

// AppendWord appends a word.
func AppendWord(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }

// Equal compares two values.
func Equal[V comparable](t TB, got, want V, what string, args ...any) {
	if got != want {
		t.Errorf("%s: %#v, want %#v", fmt.Sprintf(what, args...), got, want)
	}
}

// Fails checks what kind of error a call has.
func (t *T) Fails(what string, err, want error) {
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// AllFail checks what kind of error each of several calls has. With parts, its text has the call's
// name and the parts.
func (t *T) AllFail(want error, calls map[string]error, parts ...string) {
	for _, what := range slices.Sorted(maps.Keys(calls)) {
		t.Fails(what, calls[what], want)
		if parts != nil {
			t.Says(calls[what], append([]string{what}, parts...)...)
		}
	}
}

// As returns the error of a type that an error has to be.
func As[E error](t TB, err error) (e E) {
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want a %T", err, e)
	}
	return e
}

// Says checks that an error's text has parts, in their order.
func (t *T) Says(err error, parts ...string) {
	if err == nil {
		t.Errorf("no error, want one that says %q", parts)
		return
	}
	rest := err.Error()
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			t.Errorf("error %q doesn't say %q", err, p)
			return
		}
		rest = after
	}
}

func Error[A any](_ A, err error) error { return err }
