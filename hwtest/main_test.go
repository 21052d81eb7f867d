package hwtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var (
	deviceFlag  = flag.String("device", "", "device to test: emu:blackhole, emu:wormhole, ttsim:PATH or /dev/tenstorrent/N; default both emulators")
	compareFlag = flag.String("compare", "", "second device for the differential cases, named as in -device")
	reportFlag  = flag.String("report", "", "file to write a report to: JSON, or JUnit if the name ends in .xml")
	updateFlag  = flag.Bool("update", false, "record results of layer tensix, best from ttsim")
	unsafeFlag  = flag.Bool("unsafe", false, "also run on a card what leaves it in need of a reset: it may be thrown away")
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	if len(os.Args) > 2 && os.Args[1] == VictimCommand {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

type testT struct {
	*testing.T
	beside *sync.RWMutex
}

// say adds the places, and all cores' state after a hang.
func (t testT) say(log func(...any), args []any) {
	t.T.Helper()
	for _, h := range rig.Hangs(args) {
		t.T.Log(h.Detail())
	}
	log(rig.Place() + strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

func (t testT) Log(args ...any)              { t.say(t.T.Log, args) }
func (t testT) Error(args ...any)            { t.say(t.T.Error, args) }
func (t testT) Fatal(args ...any)            { t.say(t.T.Fatal, args) }
func (t testT) Logf(f string, args ...any)   { t.say(t.T.Log, []any{fmt.Sprintf(f, args...)}) }
func (t testT) Errorf(f string, args ...any) { t.say(t.T.Error, []any{fmt.Sprintf(f, args...)}) }
func (t testT) Fatalf(f string, args ...any) { t.say(t.T.Fatal, []any{fmt.Sprintf(f, args...)}) }

func (t testT) Run(name string, fn func(tb)) bool {
	t.Helper()
	return t.T.Run(name, func(part *testing.T) { fn(testT{part, t.beside}) })
}

// Parallel lets go of the lock while the case waits for its turn: with one that another goroutine
// wants for writing, no other case would get that far.
func (t testT) Parallel() {
	t.beside.RUnlock()
	defer t.beside.RLock()
	t.T.Parallel()
}

func parseDevice(t *testing.T, name string) *target.Device {
	t.Helper()
	d, err := target.Parse(name, ttsimtest.Server())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func devices(t *testing.T) []*target.Device {
	t.Helper()
	names := []string{*deviceFlag}
	if *deviceFlag == "" {
		names = []string{"emu:wormhole", "emu:blackhole"}
		for _, v := range []string{ttsimtest.Wormhole, ttsimtest.Blackhole} {
			if path := os.Getenv(v); path != "" {
				names = append(names, "ttsim:"+path)
			}
		}
	}
	var out []*target.Device
	for _, n := range names {
		out = append(out, parseDevice(t, n))
	}
	return out
}

// other is what -compare names, or for an emulator the vendor's simulator of its architecture.
func other(t *testing.T) func(*target.Device) *target.Device {
	t.Helper()
	if *compareFlag != "" {
		d := parseDevice(t, *compareFlag)
		return func(*target.Device) *target.Device { return d }
	}
	simulators := map[chip.Arch]*target.Device{}
	for arch, v := range map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole} {
		if path := os.Getenv(v); path != "" {
			simulators[arch] = parseDevice(t, "ttsim:"+path)
		}
	}
	return func(d *target.Device) *target.Device { return simulators[d.Arch] }
}

func TestConformance(t *testing.T) {
	rep := &books{}
	var beside sync.RWMutex // held for writing by cases that run alone
	t.Cleanup(func() {
		if *reportFlag == "" {
			return
		}
		if err := os.WriteFile(*reportFlag, []byte(written(t, rep.report(), *reportFlag)), 0o644); err != nil {
			t.Error(err)
		}
	})
	short := effort.Of(true, false, false)
	s := &rig.Settings{Limit: 10 * time.Minute, Short: short, Long: effort.Hours, Unsafe: *unsafeFlag,
		Victim: []string{os.Args[0], VictimCommand}, Compare: other(t), Property: rapidProperty}
	if *updateFlag {
		var rec recorder
		s.Record = rec.record
		t.Cleanup(func() { rec.write(t, "internal/tensix/vectors/golden.bin") })
	}
	for _, d := range devices(t) {
		t.Run(d.Name, func(t *testing.T) {
			if d.Kind == target.Emulator {
				t.Parallel()
			}
			b := &rig.Shared{Device: d, Config: s}
			t.Cleanup(func() {
				if err := b.Close(context.Background()); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			all, quick := Cases(), *deviceFlag == "" && d.Kind == target.Emulator
			for i, l := range layers() {
				t.Run(l.name, func(t *testing.T) {
					if quick && l.name != "kmd" && (d.Arch == chip.Wormhole) != (i%2 == 0) {
						effort.Long(t) // quick runs have each layer on one emulator, but that of memory and windows
					}
					if l.name == "hard" || quick && slices.Contains([]string{"faults", "differential", "soak"}, l.name) {
						effort.Long(t)
					}
					for i := range all {
						if c := &all[i]; c.Layer == l.name {
							t.Run(c.Name, func(t *testing.T) {
								if quick && !*updateFlag {
									effort.OneOf(t, c.Layer+c.Name, 0, 3)
								}
								if c.Alone {
									beside.Lock()
									defer beside.Unlock()
								} else {
									beside.RLock()
									defer beside.RUnlock()
								}
								rep.begin(t, d.Name, c)
								rig.RunCase(testT{t, &beside}, b, c)
							})
						}
					}
				})
			}
		})
	}
}

// A case once waited for its turn with the lock, while another wanted to be alone.
func TestWaitingCasesHoldNoLock(t *testing.T) {
	b := &rig.Shared{Device: parseDevice(t, "emu:blackhole"), Config: &rig.Settings{}}
	var beside sync.RWMutex
	var ran atomic.Int32
	t.Run("layer", func(t *testing.T) {
		for _, name := range []string{"one", "two"} {
			t.Run(name, func(t *testing.T) {
				beside.RLock()
				defer beside.RUnlock()
				rig.RunCase(testT{t, &beside}, b, &rig.Case{Name: name, Layer: "faults", Run: func(*rig.T) {
					if beside.TryLock() {
						t.Error("the case runs without the lock")
						beside.Unlock()
					}
					ran.Add(1)
				}})
			})
			if !beside.TryLock() {
				t.Fatalf("case %s waits for its turn with the lock", name)
			}
			beside.Unlock()
		}
		if n := ran.Load(); n != 0 {
			t.Errorf("%d cases ran before the last one had begun: they don't wait for their turn", n)
		}
	})
	if n := ran.Load(); n != 2 {
		t.Errorf("%d of 2 cases ran", n)
	}
}

func TestCasesSayWhatTheyProtect(t *testing.T) {
	for _, c := range Cases() { // Run refuses equal names
		if c.Protects == "" {
			t.Errorf("case %s/%s doesn't say what it protects", c.Layer, c.Name)
		}
	}
}

func rapidProperty(t *rig.T, n int, prop func(rig.Draw)) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	old := f.Value.String()
	t.OK(f.Value.Set(strconv.Itoa(n)))
	defer func() { t.OK(f.Value.Set(old)) }()
	rapid.Check(t.TB.(testT).T, func(r *rapid.T) { prop(rapidDraw{r}) })
}

type rapidDraw struct{ r *rapid.T }

func (d rapidDraw) IntRange(from, to int, label string) int {
	return rapid.IntRange(from, to).Draw(d.r, label)
}
func (d rapidDraw) Uint32(label string) uint32 { return rapid.Uint32().Draw(d.r, label) }

func (d rapidDraw) Fatalf(format string, args ...any) {
	d.r.Helper()
	d.r.Fatalf(format, args...)
}

func (d rapidDraw) Repeat(actions map[string]func(rig.Draw)) {
	of := map[string]func(*rapid.T){}
	for name, fn := range actions {
		of[name] = func(r *rapid.T) { fn(rapidDraw{r}) }
	}
	d.r.Repeat(of)
}
