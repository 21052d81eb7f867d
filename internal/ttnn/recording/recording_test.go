package recording_test

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/sparse"
	"github.com/reprise-tt/reprise/internal/ttnn/recording"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/libttsim"
	"github.com/reprise-tt/reprise/tracebuf"
)

var wormhole, _ = chip.New(chip.Wormhole, chip.Harvesting{})

func written(t testing.TB, machine string, steps ...libttsim.Step) []byte {
	var b bytes.Buffer
	b.WriteString(libttsim.RecordMagic)
	e := gob.NewEncoder(&b)
	devtest.Must(t, e.Encode(machine))
	for _, s := range steps {
		devtest.Must(t, e.Encode(s))
	}
	return b.Bytes()
}

func step(t testing.TB, commands func(b *cq.Builder)) libttsim.Step {
	b := cq.NewBuilder(cq.Wormhole, nil)
	commands(&b)
	out, err := b.Finish()
	devtest.Must(t, err)
	return libttsim.Step{Stored: true, Fetched: []libttsim.Fetch{{Bus: 0x80, Bytes: out}},
		Track: emu.Track{Read: sparse.Memory{}, Written: sparse.Memory{}}}
}

func write(base uint32, inDRAM bool) func(b *cq.Builder) {
	return func(b *cq.Builder) {
		b.WritePaged(cq.WritePaged{DRAM: inDRAM, Base: base, PageSize: 64, Pages: 2, Data: make([]byte, 128)})
	}
}

func replay(b *cq.Builder) { b.ExecBuf(cq.ExecBuf{Base: 0x100000, LogPageSize: 10, Pages: 1}) }

func TestRefusals(t *testing.T) {
	good := written(t, "n150", step(t, write(0x20000, true)))
	for _, c := range []struct {
		name string
		file []byte
		want error
	}{
		{"another file", []byte("RPRTRACE and so on"), recording.ErrOther},
		{"cut off", good[:len(good)-9], recording.ErrOther},
		{"another machine", written(t, "n151"), libttsim.ErrSettings},
		{"no trace", good, recording.ErrNoTrace},
		{"L1 without its banks", written(t, "n150", step(t, write(0x20000, false)), step(t, replay)), recording.ErrOther},
		{"no commands", written(t, "n150", libttsim.Step{Fetched: []libttsim.Fetch{{Bytes: make([]byte, 16)}}}), cq.ErrRevision},
		{"no trace there", written(t, "n150", step(t, replay)), cq.ErrRevision},
	} {
		expect.Fails(t, expect.ErrOf(recording.Read(bytes.NewReader(c.file), nil)), c.want, "%s", c.name)
	}
}

// put puts bytes into pages of a size, round the banks from an address on.
func put(m sparse.Memory, base uint64, page int, data []byte) {
	banks := wormhole.DRAMBanks()
	for at := 0; at < len(data); at += 4 {
		k := banks[at/page%len(banks)]
		a := base + uint64(at/page/len(banks)*page+at%page)
		m.Set(emu.TrackAddress(k.Controller, k.Offset+a), binary.LittleEndian.Uint32(data[at:]))
	}
}

const weight, input, output = 0x40000, 0x50000, 0x60000 // addresses of two pages of 64 B

// trace are the commands of a trace.
func trace(t testing.TB) []byte {
	return step(t, func(b *cq.Builder) {
		b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
		b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: cq.NewGoWord(0, 1, 1, cq.SignalGo), WaitStream: 48})
		b.ExecBufEnd()
	}).Fetched[0].Bytes
}

// model is what a program does that replays a trace twice: it writes a weight and inputs, and reads
// the output. A program outside of the trace, if any, writes to an address in between.
func modelSteps(t testing.TB, between uint64) []libttsim.Step {
	host := func(addr uint32, fill byte) libttsim.Step {
		s := step(t, write(addr, true))
		put(s.Written, uint64(addr), 64, bytes.Repeat([]byte{fill}, 128))
		return s
	}
	replayed := func(fill byte) libttsim.Step {
		s := step(t, replay)
		put(s.Read, 0x100000, 1024, trace(t))
		put(s.Read, weight, 64, bytes.Repeat([]byte{1}, 64)) // another input may need the rest of it
		put(s.Read, input, 64, bytes.Repeat([]byte{fill}, 128))
		put(s.Written, output, 64, bytes.Repeat([]byte{fill + 10}, 128))
		return s
	}
	read := step(t, func(b *cq.Builder) {
		b.WriteHostHeader(cq.WriteHost{Length: 16 + 128})
		b.RelayPaged(cq.RelayPaged{DRAM: true, Base: output, PageSize: 64, Pages: 2})
	})
	steps := []libttsim.Step{host(weight, 1), host(input, 2), replayed(2), read, host(input, 3), replayed(3)}
	if between != 0 {
		s := step(t, func(b *cq.Builder) {
			b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
			b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: cq.NewGoWord(0, 1, 1, cq.SignalGo), WaitStream: 48})
		})
		put(s.Written, between, 64, make([]byte, 128))
		for i := range uint64(16) { // the second page only, which the first replay doesn't read of the weight
			k := wormhole.DRAMBanks()[0]
			s.Written.Delete(emu.TrackAddress(k.Controller, k.Offset+between+4*i))
		}
		steps = slices.Insert(steps, 4, s)
	}
	return steps
}

func model(t testing.TB, between uint64, before ...libttsim.Step) []byte {
	return written(t, "n150", append(before, modelSteps(t, between)...)...)
}

// Places on a chip of pair, and the layout of its workers' L1.
var (
	layout                = abi.Of("0.77.0", chip.Wormhole)
	tables, _             = layout.KernelTables()
	linked, worker, other = chip.XY{X: 9}, chip.XY{X: 1, Y: 1}, chip.XY{X: 9, Y: 11} // channel 0, logical cores (0,0) and (7,9)
)

const semaphores = 0x16DFF0

// pair is the model on two linked chips of a machine: the first one's replays end when the second
// one's have begun. The host has set up an Ethernet tile, a worker's tables and its L1.
func pair(t testing.TB) []byte {
	host := func(load bool, at chip.XY, addr uint32, v byte) emu.HostAccess {
		return emu.HostAccess{Start: at, End: at, Load: load, Addr: uint64(addr), Data: []byte{v, 0, 0, 0}}
	}
	all := []libttsim.Step{{Stored: true, Track: emu.Track{Host: []emu.HostAccess{
		host(false, linked, 0x100, 1), host(true, linked, 0x100, 1), host(true, linked, 0x100, 2), host(false, other, tables, 1),
		host(false, worker, tables, 3), host(false, worker, layout.L1.KernelConfig, 3), host(false, worker, semaphores, 4)}}}}
	for _, s := range modelSteps(t, 0) {
		peer, late := s, libttsim.Step{Track: emu.Track{Written: s.Written}}
		peer.Chip = 1
		if len(s.Read) > 0 {
			s.Written = nil
		}
		all = append(all, s, peer, late)
	}
	return written(t, "galaxy-wh", all...)
}

func TestPair(t *testing.T) {
	r := expect.Value(recording.Read(bytes.NewReader(pair(t)), nil))(t)
	if len(r.Traces) != 1 || len(r.Traces[0]) != 32 || r.Traces[0][2] != nil {
		t.Fatalf("traces %v", r.Traces)
	}
	for i, part := range r.Traces[0][:2] {
		if part.Replays != 2 || len(part.Results) != 1 || part.Results[0].Bytes[127] != 12 {
			t.Errorf("chip %d: %d replays with results %v", i, part.Replays, part.Results)
		}
	}
	workers := chip.Range{End: chip.Core{X: 7, Y: 8}}
	s, l1 := r.Setup(0, layout, workers)
	one := func(wait bool, at chip.XY, addr uint32, v byte) tracebuf.SetupOp {
		return tracebuf.SetupOp{Wait: wait, Tiles: []chip.XY{at}, Addr: uint64(addr), Bytes: []byte{v, 0, 0, 0}}
	}
	want := []tracebuf.SetupOp{one(false, linked, 0x100, 1), one(true, linked, 0x100, 2), one(false, worker, tables, 3),
		one(false, worker, semaphores, 4)}
	if diff := cmp.Diff(want, s.Ops); diff != "" || len(s.Links) == 0 {
		t.Errorf("%d links, setup (-want +got):\n%s", len(s.Links), diff)
	}
	if len(l1) != 1 || l1[0].Addr != semaphores || l1[0].Pages() != 72 || l1[0].PageSize != 16 {
		t.Errorf("L1 %+v", l1)
	}
	if s, l1 := r.Setup(1, layout, workers); s != nil || l1 != nil {
		t.Errorf("a chip without tables: %v, %v", s, l1)
	}
}

// tensors is what the program's variables hold at the first replay; rows of y are shorter than
// pages.
const tensors = `{"replay": 0, "tensors": [
	{"name": "model.w", "address": 262144, "shape": [2, 16], "dtype": "FLOAT32", "layout": "ROW_MAJOR", "page_size": 64, "pages": 2},
	{"name": "y", "address": 393216, "shape": [2, 25], "dtype": "BFLOAT16", "layout": "ROW_MAJOR", "page_size": 50, "pages": 2},
	{"name": "other", "address": 524288, "shape": [2, 16], "dtype": "FLOAT32", "layout": "ROW_MAJOR", "page_size": 64, "pages": 2}]}`

func TestModel(t *testing.T) {
	described := func(tensors io.Reader) (out []string) {
		r := expect.Value(recording.Read(bytes.NewReader(model(t, 0)), tensors))(t)
		trace := r.Traces[0][0]
		content := func(list []tracebuf.Data, buffer int) string {
			for _, d := range list {
				if d.Buffer == buffer {
					return fmt.Sprintf(" %d B of %d", len(d.Bytes), d.Bytes[len(d.Bytes)-1])
				}
			}
			return " none"
		}
		for i, b := range trace.Buffers {
			text := fmt.Sprintf("%s at %#x: before%s, after%s", b.Name, b.Addr, content(trace.Data, i), content(trace.Results, i))
			if n := b.Tensor; n != nil {
				text += fmt.Sprintf(", %v %s %v %v", n.Shape, n.DType, n.Tiles, n.Input)
			}
			out = append(out, text)
		}
		return out
	}
	expect.NoDiff(t, described(nil), []string{
		"w0 at 0x40000: before 128 B of 1, after none", "in0 at 0x50000: before 128 B of 2, after none",
		"out0 at 0x60000: before none, after 128 B of 12"}, "without tensors")
	expect.NoDiff(t, described(strings.NewReader(tensors)), []string{
		"model.w at 0x40000: before 128 B of 1, after none, [2 16] FLOAT32 false false",
		"in0 at 0x50000: before 128 B of 2, after none", "y at 0x60000: before none, after 100 B of 12, [2 25] BFLOAT16 false false",
	}, "with tensors")
	for at, want := range map[uint64]error{weight: recording.ErrIncomplete, input: nil, output: nil, 0x70000: nil,
		weight + 64*12: nil} {
		expect.Fails(t, expect.ErrOf(recording.Read(bytes.NewReader(model(t, at)), nil)), want, "a program in between writes to %#x", at)
	}
	for _, wrong := range []string{"{", `{"tensors": [{"address": 64}]}`, `{"tensors": [{"pages": -1}]}`} {
		if _, err := recording.Read(bytes.NewReader(model(t, 0)), strings.NewReader(wrong)); !errors.Is(err, recording.ErrOther) {
			t.Errorf("tensors %q: %v", wrong, err)
		}
	}
}

// sharded is what a program does that has a weight on two cores, and an interleaved input and a
// result on one core, all in L1. A replay reads another word there, if not 0.
func sharded(t testing.TB, other uint32) []byte {
	spec := libttsim.Settings{Machine: "n150"}
	machine, err := spec.Spec()
	devtest.Must(t, err)
	ch, err := chip.New(machine.Arch, machine.Chips[0].Harvesting)
	devtest.Must(t, err)
	var raw, virtual []chip.XY
	for c := range ch.Workers() {
		xy, err := ch.Physical(c)
		devtest.Must(t, err)
		v, err := ch.Virtual(c)
		devtest.Must(t, err)
		raw, virtual = append(raw, xy), append(virtual, v)
	}
	banks := slices.Clone(virtual)
	slices.Reverse(banks) // as TT-NN, which shuffles them
	table := abi.BankTable{Fields: []abi.BankField{abi.L1Offsets, abi.L1Places}, Shift: 4}
	linear := func(core int, addr uint64, fill byte) libttsim.Step {
		s := step(t, func(b *cq.Builder) {
			at := virtual[core]
			b.WriteLinear(cq.WriteLinear{NOC: cq.Wormhole.NOCXY(at.X, at.Y), Addr: addr, Length: 64, Data: make([]byte, 64)})
		})
		fillL1(s.Written, raw[core], addr, fill)
		return s
	}
	inputs := func(fill byte) libttsim.Step {
		s := step(t, write(input, false))
		fillL1(s.Written, raw[len(raw)-1], input, fill)
		fillL1(s.Written, raw[len(raw)-2], input, fill+1)
		return s
	}
	replayed := func(fill byte) libttsim.Step {
		s := step(t, replay)
		put(s.Read, 0x100000, 1024, trace(t))
		for core := range 2 {
			fillL1(s.Read, raw[core], weight, byte(core+1))
			fillL1(s.Read, raw[len(raw)-1-core], input, fill+byte(core))
		}
		if other != 0 {
			s.Read.Set(emu.TrackL1Address(raw[0], other), 1)
		}
		fillL1(s.Written, raw[5], output, fill+10)
		fillL1(s.Written, raw[6], 0x20000, 1) // a circular buffer
		return s
	}
	read := step(t, func(b *cq.Builder) {
		b.WriteHostHeader(cq.WriteHost{Length: 16 + 64})
		b.Append(cq.RelayLinear{NOC: cq.Wormhole.NOCXY(virtual[5].X, virtual[5].Y), Addr: output, Length: 64})
	})
	steps := []libttsim.Step{linear(1, weight, 2), linear(0, weight, 1), inputs(3), replayed(3), read, inputs(5), replayed(5)}
	steps[0].Host = []emu.HostAccess{{Data: table.Encode(nil, banks)}}
	return written(t, "n150", steps...)
}

func fillL1(m sparse.Memory, core chip.XY, addr uint64, fill byte) {
	for i := range uint32(16) {
		m.Set(emu.TrackL1Address(core, uint32(addr)+4*i), uint32(fill)*0x01010101)
	}
}

func TestTensorsInL1(t *testing.T) {
	r, err := recording.Read(bytes.NewReader(sharded(t, 0)), strings.NewReader(`{"replay": 0, "tensors": [{"name": "model.w", "address": 262144,
		"memory": "L1", "shape": [2, 16], "dtype": "FLOAT32", "layout": "ROW_MAJOR", "page_size": 64, "pages": 2,
		"shards": {"layout": "HEIGHT_SHARDED", "shape": [1, 16], "orientation": "ROW_MAJOR", "cores": [[0, 0, 1, 0]]}}]}`))
	devtest.Must(t, err)
	trace := r.Traces[0][0]
	var got []string
	for i, b := range trace.Buffers {
		text := fmt.Sprintf("%s, kind %d, at %#x:", b.Name, b.Kind, b.Addr)
		if b.Sharding != nil {
			text += fmt.Sprintf(" on %v:", b.Sharding.Cores)
		}
		for _, d := range slices.Concat(trace.Data, trace.Results) {
			if d.Buffer == i {
				text += fmt.Sprintf(" %d B, first %d, last %d", len(d.Bytes), d.Bytes[0], d.Bytes[len(d.Bytes)-1])
			}
		}
		got = append(got, text)
	}
	want := []string{"model.w, kind 1, at 0x40000: on [(0,0)-(1,0)]: 128 B, first 1, last 2", "in0, kind 1, at 0x50000: 128 B, first 3, last 4",
		"out0, kind 1, at 0x60000: on [(5,0)-(5,0)]: 64 B, first 13, last 13"}
	if diff := cmp.Diff(want, got); diff != "" || trace.L1End != 0x20040 {
		t.Errorf("programs use L1 up to %#x; buffers (-want +got):\n%s", trace.L1End, diff)
	}
	// Without the tensor, the weight is where the host put it.
	r, err = recording.Read(bytes.NewReader(sharded(t, 0)), nil)
	devtest.Must(t, err)
	if b := r.Traces[0][0].Buffers[0]; b.Name != "w0" || fmt.Sprint(b.Sharding.Cores) != "[(0,0)-(0,0) (1,0)-(1,0)]" || b.Size != 128 {
		t.Errorf("a weight of which nothing is known is %+v on %v", b, b.Sharding.Cores)
	}
	expect.Says(t, expect.ErrOf(recording.Read(bytes.NewReader(sharded(t, 0x38000)), nil)), recording.ErrIncomplete,
		"0x38000 of L1 of worker (0,0)")
}

// indices give rectangles of workers the go message of each.
type indices []struct {
	x0, y0, x1, y1 int
	index          uint32
}

func divide(t testing.TB, n uint32, all indices) libttsim.Step {
	return step(t, func(b *cq.Builder) {
		b.Dispatch(cq.Subordinate, cq.SetNumWorkerSems{Num: n})
		w := cq.WritePacked{Type: cq.PackedGoIndex, Size: 4, Addr: 0x4D0}
		for _, r := range all {
			v := wormhole.Rects(chip.Range{Start: chip.Core{X: r.x0, Y: r.y0}, End: chip.Core{X: r.x1, Y: r.y1}})[0]
			w.Rects = append(w.Rects, cq.Rect{NOC: cq.Wormhole.NOCRect(v.Start.X, v.Start.Y, v.End.X, v.End.Y), Dests: uint32(v.Cores)})
			w.Data = append(binary.LittleEndian.AppendUint32(w.Data, r.index), make([]byte, 12)...)
		}
		if len(all) > 0 {
			b.WritePacked(w)
		}
	})
}

func TestSubDevices(t *testing.T) {
	two := divide(t, 2, indices{{0, 0, 3, 3, 0}, {4, 0, 7, 1, 1}, {4, 2, 5, 2, 1}, {0, 4, 7, 8, 2}})
	whole := divide(t, 1, indices{{0, 0, 7, 8, 0}})
	for _, c := range []struct {
		name  string
		steps []libttsim.Step
		want  string
	}{
		{"never", nil, "[]"},
		{"whole", []libttsim.Step{divide(t, 1, nil)}, "[]"},
		{"two", []libttsim.Step{whole, two}, "[[(0,0)-(3,3)] [(4,0)-(7,1) (4,2)-(5,2)]]"},
		{"one", []libttsim.Step{divide(t, 1, indices{{0, 0, 3, 8, 0}, {4, 0, 7, 8, 1}})}, "[[(0,0)-(3,8)]]"},
		{"cleared", []libttsim.Step{two, whole}, "[]"},
		{"not said", []libttsim.Step{two, divide(t, 3, nil)}, "[]"},
	} {
		r := expect.Value(recording.Read(bytes.NewReader(model(t, 0, c.steps...)), nil))(t)
		expect.NoDiff(t, fmt.Sprint(r.Traces[0][0].SubDevices), c.want, "%s", c.name)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(written(f, "n150", step(f, write(0x20000, true)), step(f, replay)), "")
	f.Add(written(f, "p150", step(f, replay)), "")
	f.Add(model(f, 0), tensors)
	f.Add(sharded(f, 0), tensors)
	f.Add(model(f, 0, divide(f, 2, indices{{0, 0, 3, 3, 0}, {4, 0, 7, 8, 1}})), tensors)
	f.Add(pair(f), tensors)
	f.Fuzz(func(_ *testing.T, file []byte, tensors string) {
		r, err := recording.Read(bytes.NewReader(file), strings.NewReader(tensors))
		if err != nil {
			return
		}
		for i, c := range r.Chips {
			r.Setup(i, abi.Of("0.77.0", c.Arch()), c.All())
		}
	})
}
