package findings

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/emu"
)

// memoryOf is a chip whose L1 holds its own addresses, each 4 KiB alike.
type memoryOf struct{ *chip.Chip }

func (m memoryOf) Topology() *chip.Chip { return m.Chip }

func (memoryOf) ReadCore(_ chip.XY, _ chip.Processor, addr uint32, b []byte) bool {
	for i := range b {
		b[i] = byte((addr + uint32(i)) >> 2 % 1024)
	}
	return true
}

func (memoryOf) Registers(chip.XY, chip.Processor) [32]uint32 { return [32]uint32{} }

func newCollector(t *testing.T) (*Collector, func(check string, pc, other uint32)) {
	t.Helper()
	c := expect.Value(chip.New(chip.Wormhole, chip.Harvesting{}))(t)
	g := &Collector{
		File: filepath.Join(t.TempDir(), "found.json"),
		Code: func(_ chip.Processor, pc uint32, _ stack.Memory) stack.Space {
			at := pc &^ 0xFFF
			return stack.Space{stack.Region("reader", at, at+0x1000)}
		},
		Calls: func() []Call { return []Call{{File: "x.py", Line: 3, Function: "f", Text: "ttnn.add(x, y)"}} },
	}
	return g, func(check string, pc, other uint32) {
		r := emu.Refusal{Check: check, Tile: chip.XY{X: 1, Y: 1}, HasCore: true, Core: chip.NCRISC, PC: pc, Addr: 64,
			Detail: "load of 4 bytes"}
		if other != 0 {
			r.Other = &emu.Access{Tile: chip.XY{X: 1, Y: 2}, Core: chip.BRISC, PC: other, Addr: 64, Wrote: true}
		}
		g.Add(0, &emu.Finding{Refusal: r, ChipView: memoryOf{c}})
	}
}

// One kernel at several addresses, and on several cores, has one finding.
func TestEqualFindingsAreOne(t *testing.T) {
	g, add := newCollector(t)
	for _, at := range []uint32{0, 0, 0x3000} {
		add("races", 0x1100+at, 0x2200+at)
	}
	add("races", 0x1104, 0x2200) // another instruction
	add("races", 0x1100, 0x2204)
	add("counters", 0x1100, 0)
	var counts []int
	for _, f := range g.Findings() {
		counts = append(counts, f.Count)
	}
	expect.NoDiff(t, counts, []int{3, 1, 1, 1}, "counts")
	expect.Must(t, g.Close())
	list, err := Read(g.File)
	if diff := cmp.Diff(g.Findings(), list); diff != "" || err != nil {
		t.Errorf("the file: %v (-want +got):\n%s", err, diff)
	}
}

func TestReports(t *testing.T) {
	g, add := newCollector(t)
	add("races", 0x1100, 0x2200)
	add("races", 0x1100, 0x2200)
	var b bytes.Buffer
	expect.Must(t, Print(&b, g.Findings()))
	want := `finding 1 of 1, races, 2 times: load of 4 bytes
  NCRISC of core (0,0), address 0x40
    #0 reader+0x100, pc 0x1100 in reader
  after BRISC of core (0,1), address 0x40
    #0 reader+0x200, pc 0x2200 in reader
  called by x.py:3 in f: ttnn.add(x, y)
`
	expect.NoDiff(t, b.String(), want, "b.String()")
	b.Reset()
	expect.Must(t, SARIF(&b, g.Findings()))
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID           string
				OccurrenceCount  int
				Stacks           []struct{ Frames []any }
				RelatedLocations []any
			}
		}
	}
	expect.Must(t, json.Unmarshal(b.Bytes(), &log))
	if r := log.Runs[0].Results; log.Version != "2.1.0" || len(r) != 1 || r[0].RuleID != "races" || r[0].OccurrenceCount != 2 ||
		len(r[0].Stacks) != 3 || len(r[0].RelatedLocations) != 1 {
		t.Errorf("SARIF: %s", b.Bytes())
	}
	known := map[string]bool{}
	for _, rule := range log.Runs[0].Tool.Driver.Rules {
		known[rule.ID] = true
	}
	for _, id := range []string{"races", "counters", "unwritten", "stalecode", "stack", "stopped"} {
		if !known[id] || rules[id] == "" {
			t.Errorf("SARIF has no rule %q", id)
		}
	}
}

func TestReadDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "found.json")
	if list, err := Read(path); list != nil || err != nil {
		t.Errorf("no file: %v, %v", list, err)
	}
	expect.Must(t, os.WriteFile(path, []byte(`[{"check":`), 0o600))
	expect.Error(t, expect.ErrOf(Read(path))) // half a file
}

func TestKnown(t *testing.T) {
	list, err := ReadKnown(strings.NewReader(`# a comment

races; reader; w*r; 4 bytes; it is harmless
races; reader; -; 4 bytes; it is harmless, too
`))
	expect.Must(t, err)
	of := func(check, text string, other *Access) Finding {
		return Finding{Check: check, Text: text, At: Access{Frames: []stack.Frame{{Module: "reader"}}}, Other: other}
	}
	writer := &Access{Frames: []stack.Frame{{Module: "writer"}}}
	left, n := FilterKnown([]Finding{
		of("races", "load of 4 bytes", writer), of("races", "load of 4 bytes", nil), of("races", "load of 8 bytes", writer),
		of("counters", "load of 4 bytes", writer), of("races", "load of 4 bytes", &Access{Frames: []stack.Frame{{Module: "reader"}}}),
	}, list)
	if n != 2 || len(left) != 3 {
		t.Errorf("%d known, %d left: %v", n, len(left), left)
	}
	for _, text := range []string{"races; reader; writer; 4 bytes", "races; reader; writer; ; it", "races; a; b; c; d; e"} {
		if _, err := ReadKnown(strings.NewReader(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// Who moves the file away has its findings: the same fault is then a new one.
func TestTakenFindings(t *testing.T) {
	g, add := newCollector(t)
	for range 2 {
		add("races", 0x1100, 0x2200)
		add("races", 0x1100, 0x2200)
		if list, err := Read(g.File); err != nil || len(list) != 1 {
			t.Fatalf("%d findings: %v", len(list), err)
		}
		expect.Must(t, os.Rename(g.File, g.File+".taken"))
	}
	err := g.Close()
	if list, _ := Read(g.File); err != nil || len(list) != 0 {
		t.Errorf("the end brings %d findings back: %v", len(list), err)
	}
}
