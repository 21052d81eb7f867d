package program

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/internal/expect"
	"pgregory.net/rapid"
)

func target(tb testing.TB) *Target {
	tb.Helper()
	ch, err := chip.New(chip.Blackhole, chip.Harvesting{})
	must(tb, err)
	t := NewTarget(ch, abi.Own(chip.Blackhole), chip.Grid(13, 10))
	t.PackedCores = memmap.Own(t.Workers).PackedCores
	return t
}

func TestLaunchMessageFollowsTheLayout(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		for _, name := range []string{"reprise", "0.65.1", "0.67.0", "0.72.0", "0.77.0", "0.81.1"} {
			d := target(t)
			d.Chip, _ = chip.New(arch, chip.Harvesting{})
			d.Workers = abi.Of(name, arch)
			on := []chip.Range{chip.Single(0, 0)}
			last := d.Workers.Launch.CircularBuffers - 1
			p := &Program{
				Name: "p", Kernels: []Kernel{
					{Name: "b", Processor: chip.BRISC, Cores: on, Text: make([]byte, 64), NOC: chip.NOC1,
						Args: []CoreArgs{{Args: []uint32{1, 2, 3}}}},
					{Name: "n", Processor: chip.NCRISC, Cores: on, Text: make([]byte, 160), Common: []uint32{7}},
				},
				CircularBuffers: []CircularBuffer{
					{Index: 0, Cores: on, Addr: d.Workers.L1.Unreserved + 64, PageSize: 16, Pages: 1}, {Index: last, Cores: on, Addr: d.Workers.L1.Unreserved + 128, PageSize: 16, Pages: 1},
				},
				Semaphores: []Semaphore{{ID: 1, Cores: on, Initial: 5}},
			}
			im, err := d.Compile(p)
			must(t, err)
			var msg []byte
			for e := range cq.All(d.layout(), im.main.bytes) {
				for r := range e.Relayed {
					if w, ok := r.Command.(cq.WritePacked); ok && w.Type == cq.PackedLaunch && w.Addr == d.Workers.L1.Launch &&
						uint32(w.Size) == d.Workers.L1.LaunchSize {
						msg = w.Data
					}
				}
			}
			l, le := &d.Workers.Launch, binary.LittleEndian
			mask := make([]byte, (last+8)/8)
			mask[0], mask[last/8] = mask[0]|1, mask[last/8]|1<<(last%8)
			ncrisc := uint16(0)
			if d.Workers.Boot.IRAMSize > 0 {
				ncrisc = 160 / 16
			}
			if len(msg) < int(d.Workers.L1.LaunchSize) || !bytes.Equal(msg[l.CBMask:][:len(mask)], mask) || msg[l.NOC] != 1 ||
				int(msg[l.FirstRemote]) != last+1 || le.Uint32(msg[l.Enables:]) != 3 ||
				msg[l.Preload] != 0x80 || le.Uint16(msg[l.NCRISCSize:]) != ncrisc || le.Uint16(msg[l.Args+4+2:]) != 16 ||
				le.Uint16(msg[l.Semaphores:]) != 32 || le.Uint16(msg[l.Circular:]) != 64 {
				t.Errorf("%s on %v: launch message % x", name, arch, msg)
			}
			p.CircularBuffers[1].Index = last + 1
			var refused *ProgramError
			if _, err = d.Compile(p); !errors.As(err, &refused) {
				t.Errorf("%s on %v: circular buffer %d: %v", name, arch, last+1, err)
			}
		}
	}
}

func TestCountedArgs(t *testing.T) {
	p := &Program{Kernels: []Kernel{
		{Processor: chip.BRISC, Args: []CoreArgs{{Args: []uint32{7, 8, 9, 10}}, {Args: []uint32{11}}}},
		{Processor: chip.NCRISC, Common: []uint32{12}},
	}}
	for _, c := range []struct {
		fw       ArgFormat
		bytes    uint32 // of BRISC's arguments
		common   uint32 // offset of NCRISC's
		none     uint16 // offset of NCRISC's unique arguments
		contents []byte
	}{
		{0, 16, 16, 16, []byte{11, 0, 0, 0, 0, 0, 0, 0}},
		{Counted, 20, 32, 0xFFFF, []byte{1, 0, 0, 0, 11, 0, 0, 0}},
	} {
		lay := layoutSlot(p, nil, c.fw)
		if lay.argBytes[chip.BRISC] != c.bytes || lay.common[chip.NCRISC] != c.common {
			t.Errorf("%d: %+v", c.fw, lay)
		}
		expect.Equal(t, lay.Offset(lay.args[chip.NCRISC], lay.argBytes[chip.NCRISC]), c.none, "%d: no arguments at", c.fw)
		if at := lay.Offset(lay.common[chip.NCRISC], lay.commonSize[chip.NCRISC]); uint32(at) != c.common {
			t.Errorf("%d: common arguments at %#x", c.fw, at)
		}
		b := make([]byte, 8)
		lay.Put(b, p.Kernels[0].Args[1].Args)
		lay.Put(b[8:], nil)
		if !slices.Equal(b, c.contents) {
			t.Errorf("%d: % x", c.fw, b)
		}
	}
}

func TestArgumentsOfSeveralProcessors(t *testing.T) {
	d := target(t)
	d.Stock = true
	part := chip.Range{Start: d.Grid.Start, End: chip.Core{X: d.Grid.End.X, Y: d.Grid.Start.Y}}
	for _, c := range []struct {
		name   string
		procs  []chip.Processor
		cores  []chip.Range // of each
		words  []int
		writes int
	}{
		{"all", []chip.Processor{0, 1, 2, 3, 4}, []chip.Range{d.Grid, d.Grid, d.Grid, d.Grid, d.Grid}, []int{2, 3, 4, 5, 6}, 1},
		{"a gap", []chip.Processor{0, 3}, []chip.Range{d.Grid, d.Grid}, []int{5, 1}, 1},
		{"other cores", []chip.Processor{0, 1, 2}, []chip.Range{d.Grid, part, part}, []int{2, 2, 2}, 2},
		{"long ones", []chip.Processor{0, 1, 2}, []chip.Range{d.Grid, d.Grid, d.Grid}, []int{200, 100, 4}, 2},
	} {
		p := &Program{Name: "p"}
		for i, proc := range c.procs {
			k := Kernel{Name: proc.String(), Processor: proc, Cores: []chip.Range{c.cores[i]}, Text: make([]byte, 16)}
			for core := range c.cores[i].Cores() {
				args := make([]uint32, c.words[i])
				for n := range args {
					args[n] = uint32(core.X<<24 | core.Y<<16 | i<<12 | n)
				}
				k.Args = append(k.Args, CoreArgs{Core: core, Args: args})
			}
			p.Kernels = append(p.Kernels, k)
		}
		im, err := d.Compile(p)
		must(t, err)
		writes := map[uint32]bool{} // by their addresses: cores may be in several
		for e, err := range cq.All(d.layout(), im.main.bytes) {
			must(t, err)
			if r, ok := e.Command.(cq.RelayInline); ok {
				if w, ok := r.Command.(cq.WritePacked); ok && w.Type == cq.PackedRuntimeArgs {
					writes[w.Addr] = true
				}
			}
		}
		expect.Equal(t, len(writes), c.writes, "%s: writes for a core", c.name)
		for i, proc := range c.procs {
			for core := range c.cores[i].Cores() {
				for n := range c.words[i] {
					at, err := im.UniqueArg(nil, proc.String(), n, func(x chip.Core) bool { return x == core })
					must(t, err)
					if got, want := cq.Get32(im.main.bytes, at[0]), uint32(core.X<<24|core.Y<<16|i<<12|n); got != want {
						t.Fatalf("%s: argument %d of %v on %v is %#x, want %#x", c.name, n, proc, core, got, want)
					}
				}
			}
		}
	}
}

func TestVariantsOfARun(t *testing.T) {
	d := target(t)
	k := Kernel{Name: "k", Cores: []chip.Range{d.Grid}, Text: make([]byte, 3*BinaryPageSize)}
	for c := range d.Grid.Cores() {
		k.Args = append(k.Args, CoreArgs{Core: c, Args: make([]uint32, 64)})
		k.Args[len(k.Args)-1].Args[5] = 0x1234
	}
	im, err := d.Compile(&Program{Name: "p", Kernels: []Kernel{k}})
	must(t, err)
	if im.resident == nil {
		t.Fatal("the arguments don't lie beside the kernels")
	}
	must(t, im.Place(1<<20, 8))
	at, err := im.UniqueArg(nil, "k", 5, func(chip.Core) bool { return true })
	must(t, err)
	dispatcher, st := Dispatcher{Workers: 1}, d.ReplayState()
	run := func() ([]byte, Variant) { return im.AppendRun(nil, &st, dispatcher, 0) }
	check := func(what string, p []byte, v, want Variant, arg uint32) {
		t.Helper()
		if v != want || len(p) != im.runBytes(v) {
			t.Errorf("%s: variant %b of %d B, want %b of %d B", what, v, len(p), want, im.runBytes(want))
		}
		if v.Inline() {
			expect.Equal(t, cq.Get32(p, im.MainOffset(v)+at[0]), arg, "%s: the argument", what)
		}
		subs := 0
		for e, err := range cq.All(d.layout(), p) {
			must(t, err)
			if r, ok := e.Command.(cq.RelayPagedPacked); ok {
				subs += len(r.Subs)
			}
		}
		expect.Equal(t, len(im.RelayedPages(v)), subs, "%s: pages that it reads by entries", what)
	}
	p, v := run()
	check("first run", p, v, residentArgs|withTexts, 0)
	prior := st
	p, v = run()
	check("next run", p, v, residentArgs, 0)
	im.SetWords(at, 0x5678)
	st = prior
	p, v = im.AppendInlineRun(nil, &st, dispatcher, 0)
	check("the next run with its arguments", p, v, 0, 0x1234)
	old := p
	p, v = run()
	check("run with other arguments", p, v, 0, 0x5678)
	st = d.ReplayState()
	p, _, err = im.AppendAgain(nil, old, 0, &st, dispatcher, 0)
	must(t, err)
	check("old run again", p, withTexts, withTexts, 0x1234)
	if _, _, err := im.AppendAgain(nil, old[1:], 0, &st, dispatcher, 0); err == nil {
		t.Error("a run that is too short was appended again")
	}
}

func TestKernelsAmongTheCommands(t *testing.T) {
	d := target(t)
	rows := func(i, n int) []chip.Range { // the i-th of n
		h := (d.Grid.End.Y + 1) / n
		return []chip.Range{{Start: chip.Core{Y: i * h}, End: chip.Core{X: d.Grid.End.X, Y: (i+1)*h - 1}}}
	}
	for _, c := range []struct {
		name   string
		texts  []int // bytes, of each group
		stock  bool
		inline bool
	}{
		{"one", []int{256}, false, true},
		{"as much as there may be", []int{maxInlineText}, false, true},
		{"more", []int{maxInlineText + SlotAlign}, false, false},
		{"several", []int{256, 64, 512}, false, true},
		{"too much of several", []int{2 << 10, 2 << 10, 64}, false, false},
		{"tt-metal's form", []int{256}, true, false},
	} {
		d.Stock = c.stock
		p := &Program{Name: "p", CircularBuffers: []CircularBuffer{{Cores: rows(len(c.texts), len(c.texts)+1), Addr: d.Workers.L1.Unreserved,
			PageSize: 64, Pages: 1}}}
		var want [][]byte
		for i, n := range c.texts {
			text := bytes.Repeat([]byte{byte(i + 1)}, n)
			p.Kernels = append(p.Kernels, Kernel{Name: string(rune('a' + i)), Cores: rows(i, len(c.texts)+1), Text: text})
			want = append(want, text)
		}
		im, err := d.Compile(p)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got [][]byte
		relays := 0
		for e, err := range cq.All(d.layout(), im.text.bytes) {
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if r, ok := e.Command.(cq.RelayPagedPacked); ok {
				relays += len(r.Subs)
			}
			for r := range e.Relayed {
				w, ok := r.Command.(cq.WritePackedLarge)
				if !ok || r.Header {
					continue
				}
				data := w.Data
				for _, s := range w.Subs {
					got, data = append(got, data[:s.Length]), data[s.Length:]
				}
			}
		}
		if !c.inline {
			want = nil
		}
		expect.NoDiff(t, got, want, "%s: kernels among the commands", c.name)
		n := len(im.text.relays)
		expect.Equal(t, n, relays, "%s", c.name)
		expect.Equal(t, c.inline, n == 0, "%s", c.name)
	}
}

var must = expect.Must

func isPast(c, other cq.Count) bool { return int32(other-c)<<15 < 0 }

func TestConfigRingNeverOverlapsRunningPrograms(t *testing.T) {
	type part struct{ off, size uint32 }
	meets := func(a, b part) bool { return a.off < b.off+b.size && b.off < a.off+a.size }
	type program struct {
		slot, text part
		launch     int
		done       cq.Count // count at which it is done
	}
	rapid.Check(t, func(t *rapid.T) {
		const size, workers = 0x11400, 130
		count := cq.Count(rapid.Uint32Range(0xFFFF0000, 0xFFFFFFFF).Draw(t, "count"))
		r := newRing(size)
		if rapid.Bool().Draw(t, "full") {
			r = fullRing(size, uint32(count))
		}
		type shape struct{ slot, text uint32 }
		var shapes []shape
		for range rapid.IntRange(1, 24).Draw(t, "shapes") {
			slot := rapid.SampledFrom([]uint32{0, 1, 64, 100, 4096, 20000, size/2 + 1, size - SlotAlign}).Draw(t, "slot")
			text := rapid.SampledFrom([]uint32{1, 300, 2048, 12 << 10, 40000, size}).Draw(t, "text")
			shapes = append(shapes, shape{slot, min(text, size-alignSlot(slot))})
		}
		var running []program
		there := map[int]part{} // texts that nothing was written over since they were sent
		reached := count        // what the device is known to have reached, by waits
		waits := func(w await) {
			if w.on && isPast(cq.Count(w.count), reached) {
				reached = cq.Count(w.count)
			}
		}
		write := func(p part, what string) {
			live := running[:0]
			for _, o := range running {
				if !isPast(o.done, reached) {
					continue
				}
				live = append(live, o)
				if meets(p, o.slot) || meets(p, o.text) {
					t.Fatalf("a %s at %#x+%#x overlaps %+v, which may still run", what, p.off, p.size, o)
				}
			}
			running = live
			for k, x := range there {
				if meets(p, x) {
					delete(there, k)
				}
			}
		}
		sent := 0
		programs := rapid.IntRange(1, 200).Draw(t, "programs")
		for i := range programs {
			n := rapid.IntRange(0, len(shapes)-1).Draw(t, "shape")
			s := shapes[n]
			count += workers
			p := program{launch: i % LaunchEntries, done: count, text: part{size: max(s.text, 1)}, slot: part{size: max(s.slot, 1)}}
			wait := r.makeRoom(s.slot)
			off, ok := r.find(textID(n+1), uint32(count))
			if p.text.off = off; ok {
				if x, is := there[n]; !is || x != p.text {
					t.Fatalf("the text of program %d is said to be at %#x, where %+v is", n, off, x)
				}
			} else {
				sent++
				var w await
				p.text.off, w = r.place(textID(n+1), s.text, s.slot, uint32(count))
				waits(later(wait, w))
				write(p.text, "text")
				there[n] = p.text
			}
			off, w := r.reserve(s.slot, uint32(count))
			waits(w)
			p.slot.off = off
			write(p.slot, "slot")
			if x, is := there[n]; !is || x != p.text {
				t.Fatalf("the slot of program %d at %+v is over its text at %+v", n, p.slot, p.text)
			}
			for _, x := range []part{p.slot, p.text} {
				if x.off%SlotAlign != 0 || x.off+x.size > size {
					t.Fatalf("program %d has %+v of a ring of %#x", n, x, size)
				}
			}
			for _, o := range running {
				if o.launch == p.launch {
					t.Fatalf("program %d has launch slot %d of one that may still run", n, p.launch)
				}
			}
			running = append(running, p)
		}
		sum := uint32(0)
		for _, s := range shapes {
			sum += alignSlot(s.text)
		}
		if len(shapes) <= maxTexts && slicesMax(shapes, func(s shape) uint32 { return s.slot }) <= size/4-SlotAlign && sum <= size/2 &&
			sent > len(shapes) {
			t.Fatalf("%d texts of %d B in all were sent %d times: they fit", len(shapes), sum, sent)
		}
	})
}

func slicesMax[T any](s []T, f func(T) uint32) (m uint32) {
	for _, x := range s {
		m = max(m, f(x))
	}
	return m
}
