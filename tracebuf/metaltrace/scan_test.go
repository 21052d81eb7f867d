package metaltrace_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

type sparse struct {
	banks int
	pages map[[2]uint64][]byte // by bank and address, of 64 B
	fail  error
}

func (s *sparse) ReadDRAM(bank int, addr uint64, b []byte) error {
	if s.fail != nil {
		return s.fail
	}
	for i := range b {
		b[i] = 0
		at := addr + uint64(i)
		if p := s.pages[[2]uint64{uint64(bank), at &^ 63}]; p != nil {
			b[i] = p[at&63]
		}
	}
	return nil
}

func (s *sparse) write(bank int, addr uint64, b []byte) {
	for i, v := range b {
		at := addr + uint64(i)
		key := [2]uint64{uint64(bank), at &^ 63}
		if s.pages[key] == nil {
			s.pages[key] = make([]byte, 64)
		}
		s.pages[key][at&63] = v
	}
}

func (s *sparse) trace(addr uint64, page int, b []byte) {
	for p := 0; len(b) > 0; p++ {
		n := min(page, len(b))
		s.write(p%s.banks, addr+uint64(p/s.banks*page), b[:n])
		b = b[n:]
	}
}

func metalCommands(t *testing.T, arch chip.Arch, programs int) []byte {
	m := newMetalStream(t, arch)
	for range programs {
		m.program()
	}
	b := m.bytes()
	return b[:len(b)-100]
}

func TestScanFindsTraces(t *testing.T) {
	const size, window = 1 << 30, 3 << 20
	for _, arch := range arches {
		t.Run(arch.String(), func(t *testing.T) {
			s := &sparse{banks: 8, pages: map[[2]uint64][]byte{}}
			top := uint64(size - window)
			one, many := metalCommands(t, arch, 1), metalCommands(t, arch, 40)
			s.trace(top+64, 2048, one)
			s.trace(top+1<<20+192, 1024, many)                 // over the end of a block
			s.trace(top+2<<20, 8192, many)                     // fewer pages than banks
			s.trace(top-1<<20, 2048, one)                      // below the window
			s.write(0, top+1<<19, many[:len(many)*3/4])        // without an end
			s.write(0, top+3<<18, append(bytes.Clone(one), 1)) // something follows
			s.write(1, top+4096, one)                          // a trace begins in bank 0
			got, _, err := metaltrace.Scan(t.Context(), s, s.banks, cq.Layout(arch), size, window)
			expect.Must(t, err)
			for i := range got {
				if len(got[i].Revisions) == 0 {
					t.Errorf("candidate %d is of no revision", i)
				}
				got[i].Revisions = nil
			}
			pages := func(n, page int) int { return (n + page - 1) / page }
			want := []metaltrace.Candidate{
				{Addr: top + 64, Pages: 1, PageSize: 1024, Size: len(one), Programs: 1},
				{Addr: top + 1<<20 + 192, Pages: pages(len(many), 1024), PageSize: 1024, Size: len(many), Programs: 40},
				{Addr: top + 2<<20, Pages: pages(len(many), 8192), PageSize: 8192, Size: len(many), Programs: 40},
			}
			if len(one) > 1024 {
				want[0].PageSize = 2048
			}
			noDiff(t, got, want, "candidates")
		})
	}
}

func TestScanNearest(t *testing.T) {
	const size, window = 1 << 30, 1 << 20
	commands := metalCommands(t, chip.Blackhole, 40)
	for _, c := range []struct {
		name  string
		bytes []byte
		want  int // bytes that are read at least
	}{
		{"nothing", nil, 0},
		{"no end", commands[:len(commands)*3/4], len(commands) / 2},
		{"bytes after the end", append(bytes.Clone(commands), 1), len(commands) - 64},
	} {
		s := &sparse{banks: 8, pages: map[[2]uint64][]byte{}}
		s.trace(size-window, 4096, c.bytes)
		found, nearest, err := metaltrace.Scan(t.Context(), s, s.banks, cq.Blackhole, size, window)
		if err != nil || len(found) > 0 {
			t.Fatalf("%s: %v, %v", c.name, found, err)
		}
		switch {
		case c.bytes == nil && nearest != nil:
			t.Errorf("%s: %+v is near", c.name, nearest)
		case c.bytes != nil && (nearest == nil || nearest.Addr != size-window || nearest.Size < c.want || nearest.Err == nil):
			t.Errorf("%s: %+v", c.name, nearest)
		}
	}
}

func TestScanEnds(t *testing.T) {
	s := &sparse{banks: 8}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := metaltrace.Scan(ctx, s, s.banks, cq.Blackhole, 1<<30, 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("with its context ended: %v", err)
	}
	s.fail = errFar
	if _, _, err := metaltrace.Scan(t.Context(), s, s.banks, cq.Blackhole, 1<<30, 1<<20); !errors.Is(err, errFar) {
		t.Errorf("of memory that can't be read: %v", err)
	}
}

// bankBytes is DRAM whose banks hold one after the other the pages of some bytes at an address, and
// are zero elsewhere.
type bankBytes struct {
	addr  uint64
	page  int
	banks int
	b     []byte
}

func (m *bankBytes) ReadDRAM(bank int, addr uint64, b []byte) error {
	clear(b)
	for at := bank * m.page; at < len(m.b); at += m.banks * m.page {
		// A page, from where b begins or where it begins in b.
		page, to := m.b[at:min(at+m.page, len(m.b))], int(m.addr)+at/m.banks/m.page*m.page-int(addr)
		if to < 0 {
			page, to = page[min(-to, len(page)):], 0
		}
		if to < len(b) {
			copy(b[to:], page)
		}
	}
	return nil
}

func FuzzScan(f *testing.F) {
	for _, arch := range arches {
		m := newMetalStream(f, arch)
		m.program()
		m.program()
		b := m.bytes()
		f.Add(uint8(arch), uint8(0), b)
		f.Add(uint8(arch), uint8(2), append(append(make([]byte, 64), b[:len(b)/2]...), b...))
	}
	f.Fuzz(func(t *testing.T, arch, page uint8, b []byte) {
		const size, window, banks = 1 << 20, 64 << 10, 3
		if !chip.Arch(arch).Valid() || len(b) > window {
			return
		}
		layout := cq.Layout(chip.Arch(arch))
		align := uint64(layout.DRAMAlign())
		m := &bankBytes{addr: size - window + align, page: 1024 << (page % 4), banks: banks, b: b}
		found, _, err := metaltrace.Scan(t.Context(), m, banks, layout, size, window)
		expect.Must(t, err)
		for _, c := range found {
			rows := uint64((c.Pages+banks-1)/banks) * uint64(c.PageSize)
			if c.Addr < size-window || c.Addr%align != 0 || c.Size > c.Pages*c.PageSize || c.Pages < 1 || rows > size-c.Addr ||
				len(c.Revisions) == 0 {
				t.Fatalf("found %+v", c)
			}
			commands := make([]byte, c.Pages*c.PageSize)
			expect.Must(t, metaltrace.ReadInterleaved(m, banks, c.Addr, c.PageSize, 0, commands))
			for _, name := range c.Revisions {
				readings, err := cq.RevisionByName(name).Read(layout, commands)
				if err != nil {
					t.Fatalf("%+v is no trace of %s: %v", c, name, err)
				}
				programs := 0
				for i := range readings {
					if readings[i].Name == "SEND_GO_SIGNAL" {
						programs++
					}
				}
				if last := &readings[len(readings)-1]; programs != c.Programs || last.Name != "EXEC_BUF_END" ||
					last.Offset+last.Size != c.Size {
					t.Fatalf("%+v: %s reads %d programs, and %s at +%#x", c, name, programs, last.Name, last.Offset)
				}
			}
		}
	})
}

// asMetal writes the commands of a trace as tt-metal assembles them: kernels go through the
// prefetcher's ring, where a second run finds them; there are four write offsets; waits stall the
// prefetcher; go signals name another dispatch core. Source: tt-metal impl/program/dispatch.cpp.
func asMetal(t *testing.T, l cq.Layout, commands []byte) []byte {
	t.Helper()
	b := cq.NewBuilder(l, nil)
	loaded := map[cq.PagedSub]uint32{} // where in the ring
	ring := uint32(0)
	var header cq.PrefetchCommand
	for e, err := range cq.All(l, commands) {
		devtest.Must(t, err)
		switch c := e.Command.(type) {
		case cq.RelayInlineNoFlush:
			header = c
			continue
		case cq.RelayPagedPacked:
			var relay cq.RelayRingbuffer
			for _, s := range c.Subs {
				at, ok := loaded[s]
				if !ok {
					at = ring
					loaded[s] = at
					pages := (s.Length + 2047) &^ 2047
					b.Append(cq.PagedToRingbuffer{Reset: ring == 0, LogPageSize: uint8(s.LogPageSize), StartPage: uint8(s.StartPage),
						Advance: pages, Base: s.Base, Length: s.Length})
					ring += pages
				}
				relay.Subs = append(relay.Subs, cq.RingSub{Start: at - loaded[c.Subs[0]], Length: s.Length})
			}
			b.Append(cq.SetRingbufferOffset{Offset: loaded[c.Subs[0]]})
			b.Append(header)
			b.Append(relay)
			continue
		case cq.RelayInline:
			switch d := c.Command.(type) {
			case cq.SetWriteOffset:
				d.Count, d.Offsets[3] = 4, 0x1234
				b.SetWriteOffset(d)
				continue
			case cq.Wait:
				if d.Flags != 0 {
					b.WaitStall(d)
				}
				continue
			case cq.SendGoSignal:
				d.Go = cq.NewGoWord(0, 7, 7, cq.SignalGo)
				b.SendGoSignal(c.To, d)
				continue
			}
		}
		b.Append(e.Command)
	}
	out, err := b.Finish()
	devtest.Must(t, err)
	return out
}

func inRevision(t *testing.T, l cq.Layout, commands []byte, change func(r *cq.Reading, command []byte)) []byte {
	t.Helper()
	out := bytes.Clone(commands)
	readings := expect.Value(cq.RevisionByName(cq.Pinned).Read(l, commands))(t)
	for i := range readings {
		change(&readings[i], out[readings[i].At:])
	}
	return out
}

func lengthsAsTheyAre(r *cq.Reading, command []byte) {
	if n, _ := r.Value("count"); r.Name == "WRITE_PACKED_LARGE" {
		for i := range int(n) {
			at := command[cq.AtLargeSub(i)+8:]
			binary.LittleEndian.PutUint16(at, binary.LittleEndian.Uint16(at)+1)
		}
	}
}

func laterWaits(r *cq.Reading, command []byte) {
	if r.Name == "WAIT" {
		command[cq.AtWaitFlags] = command[cq.AtWaitFlags]&7 | command[cq.AtWaitFlags]&0x18<<1
	}
}

func laterWaitsAndGo(r *cq.Reading, command []byte) {
	laterWaits(r, command)
	switch r.Name {
	case "SEND_GO_SIGNAL":
		copy(command[1:], append([]byte{command[cq.AtGoMulticast], 0, 0}, command[cq.AtGoWord:cq.AtGoWord+4]...))
	case "SET_RINGBUFFER_OFFSET":
		offset, _ := r.Value("offset")
		write, _ := r.Value("write")
		clear(command[1:16])
		command[1] = byte(write)
		binary.LittleEndian.PutUint32(command[4:], uint32(offset))
	}
}

func TestImportFromTheRing(t *testing.T) {
	for _, card := range cards() {
		t.Run(card.String(), func(t *testing.T) {
			b := newChain(t, card)
			im := &b.saved.Image
			l := im.Layout
			commands := asMetal(t, l, im.Bytes[:im.Size])
			var first []byte
			for _, c := range []struct {
				revision string
				bytes    []byte
			}{
				{cq.Pinned, commands},
				{"0.64.0", inRevision(t, l, commands, lengthsAsTheyAre)},
				{"0.74.0", inRevision(t, l, commands, laterWaits)},
				{"0.81.1", inRevision(t, l, commands, laterWaitsAndGo)},
			} {
				read, err := metaltrace.Read(b.memory, len(b.memory.ch.DRAMBanks()), l, append(c.bytes, make([]byte, 4096)...), c.revision)
				b.Must(err)
				b.Must(read.FindLaunches(abi.Own(b.Dev.Arch())))
				f, err := read.File(metaltrace.FileOptions{Name: "ring", Target: b.saved.Target, Buffers: im.Buffers})
				b.Must(err)
				file, err := metaltrace.Write(f)
				b.Must(err)
				expect.Equal(t, len(f.Image.Programs), 2, "%s: programs", c.revision)
				if first == nil {
					first = file
				} else if diff := cmp.Diff(first, file); diff != "" {
					t.Errorf("%s gives another file than %s", c.revision, cq.Pinned)
				}
			}
			b.replays(t, first)
		})
	}
}

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

const kernelAddr = 0x8000

type pattern struct{}

var errFar = errors.New("nothing is there")

func (pattern) ReadDRAM(bank int, addr uint64, b []byte) error {
	if addr < kernelAddr || addr > kernelAddr+1<<16 {
		return errFar
	}
	for i := range b {
		b[i] = byte(bank) + byte((addr-kernelAddr+uint64(i))>>11)<<4 + 1
	}
	return nil
}

type metalStream struct {
	t      testing.TB
	layout *abi.Layout
	ch     *chip.Chip
	cores  chip.Range
	b      cq.Builder
	runs   uint32
}

func newMetalStream(t testing.TB, arch chip.Arch) *metalStream {
	ch, err := chip.New(arch, chip.Harvesting{})
	devtest.Must(t, err)
	return &metalStream{t: t, layout: abi.Own(arch), ch: ch, cores: chip.Range{End: chip.Core{X: 1, Y: 1}},
		b: cq.NewBuilder(cq.Layout(arch), nil)}
}

func (m *metalStream) rect() uint32 {
	r := m.ch.Rects(m.cores)[0]
	return m.ch.Arch().NOCMulticast(r.Start, r.End)
}

func (m *metalStream) target() tracebuf.Target {
	xy, err := m.ch.Virtual(chip.Core{X: 5, Y: 5})
	devtest.Must(m.t, err)
	return tracebuf.Target{Arch: m.ch.Arch(), Workers: m.cores, Banks: len(m.ch.DRAMBanks()), Dispatch: xy, Revision: cq.Pinned}
}

func (m *metalStream) config() {
	l1 := &m.layout.L1
	m.b.SetWriteOffset(cq.SetWriteOffset{HostID: 9, Count: 4, Offsets: [4]uint32{0, l1.KernelConfig, l1.KernelConfig + 4096, 0x100}})
	if m.runs > 0 {
		m.b.WaitStall(cq.Wait{Flags: cq.WaitStream, Stream: 48, Count: m.runs * uint32(m.cores.Size())})
	}
	var cores []uint32
	for c := range m.cores.Cores() {
		xy, err := m.ch.Virtual(c)
		devtest.Must(m.t, err)
		cores = append(cores, m.ch.Arch().NOCXY(xy))
	}
	m.b.WritePacked(cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: 1, Size: 12, Addr: 0, Cores: cores,
		Data: bytes.Repeat([]byte{1}, 16*len(cores))})
	m.b.WritePacked(cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: 1, NoStride: true, Size: 8, Addr: 16,
		Rects: []cq.Rect{{NOC: m.rect(), Dests: uint32(m.cores.Size())}}, Data: []byte{2, 2, 2, 2, 2, 2, 2, 2, 15: 0}})
	m.b.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16, OffsetIndex: 1, Subs: []cq.LargeSub{
		{NOC: m.rect(), Addr: 32, Length: 4, Dests: uint8(m.cores.Size())}, {NOC: m.rect(), Addr: 64, Length: 20, Dests: uint8(m.cores.Size()), Unlink: true}},
		Data: append(append([]byte{3, 3, 3, 3}, make([]byte, 12)...), append(bytes.Repeat([]byte{4}, 20), make([]byte, 12)...)...)})
}

func (m *metalStream) kernel(before func()) {
	align := uint32(m.b.Layout().DRAMAlign())
	before()
	m.b.WritePackedLargeHeader(cq.WritePackedLarge{Type: cq.LargeBinaries, Alignment: uint16(align), OffsetIndex: 2, Subs: []cq.LargeSub{
		{NOC: m.rect(), Addr: 0, Length: 4096, Dests: uint8(m.cores.Size())}, {NOC: m.rect(), Addr: 4096, Length: 2*align - 12, Dests: uint8(m.cores.Size()), Unlink: true}}})
	m.b.Append(cq.RelayRingbuffer{Subs: []cq.RingSub{{Start: 0, Length: 4096}, {Start: 4096, Length: 2 * align}}})
}

func (m *metalStream) load() {
	m.b.Append(cq.PagedToRingbuffer{Reset: true, LogPageSize: 11, Advance: 6144, Base: kernelAddr, Length: 6144})
}

func (m *metalStream) launch() {
	l1, at := &m.layout.L1, &m.layout.Launch
	msg := make([]byte, cq.SlotStride(int(l1.LaunchSize)))
	le := binary.LittleEndian
	le.PutUint32(msg[at.ConfigBase:], l1.KernelConfig)
	le.PutUint16(msg[at.Args+2:], 16) // common arguments; unique ones are first
	le.PutUint16(msg[at.Semaphores:], 32)
	le.PutUint16(msg[at.Circular:], 64)
	le.PutUint32(msg[at.Text:], 4096)
	le.PutUint32(msg[at.Enables:], 1)
	msg[at.FirstRemote] = uint8(at.CircularBuffers)
	m.b.WritePacked(cq.WritePacked{Type: cq.PackedLaunch, Size: uint16(l1.LaunchSize), Addr: l1.Launch + m.runs%l1.LaunchEntries*l1.LaunchSize,
		Rects: []cq.Rect{{NOC: m.rect(), Dests: uint32(m.cores.Size())}}, Data: msg})
}

func (m *metalStream) start() {
	m.b.NotifySubordinate(cq.NotifySubordinate{Wait: true, Mask: 1})
	m.signal(cq.SendGoSignal{})
}

func (m *metalStream) signal(g cq.SendGoSignal) {
	g.Go, g.WaitCount, g.WaitStream = cq.NewGoWord(g.Go.Offset(), 3, 3, cq.SignalGo), m.runs*uint32(m.cores.Size()), 48
	m.b.SendGoSignal(cq.Subordinate, g)
	m.runs++
}

func (m *metalStream) program() {
	m.config()
	m.kernel(m.load)
	m.launch()
	m.start()
}

func (m *metalStream) bytes() []byte {
	m.b.ExecBufEnd()
	b, err := m.b.Finish()
	devtest.Must(m.t, err)
	return append(b, make([]byte, 100)...)
}

func (m *metalStream) read(b []byte) (*metaltrace.Trace, error) {
	return metaltrace.Read(pattern{}, len(m.ch.DRAMBanks()), m.b.Layout(), b, cq.Pinned)
}

func TestMetalFormsAreRewritten(t *testing.T) {
	for _, arch := range arches {
		m := newMetalStream(t, arch)
		for range 9 {
			m.config()
			m.kernel(func() {
				if m.runs == 0 {
					m.load()
				} else {
					m.b.Append(cq.SetRingbufferOffset{Offset: 0})
				}
			})
			m.launch()
			m.start()
		}
		trace, err := m.read(m.bytes())
		devtest.Must(t, err)
		devtest.Must(t, trace.FindLaunches(m.layout))
		f, err := trace.File(metaltrace.FileOptions{Name: "forms", Target: m.target()})
		devtest.Must(t, err)
		expect.Value(metaltrace.Write(f))(t)
		if len(f.Image.Steps) != 9 || len(f.Image.Programs) != 1 || len(f.Image.Programs[0].Binary) != 3*2048 {
			t.Fatalf("%d steps, %d programs, want 9 of one program with 3 pages", len(f.Image.Steps), len(f.Image.Programs))
		}
		if k := trace.Steps[8].Launches[0].Kernels; len(k) != 1 || k[0].Processor != chip.BRISC ||
			k[0].Addr != m.layout.L1.KernelConfig+4096 ||
			k[0].Text[0] != 1 || k[0].Text[2048] != 2 {
			t.Errorf("the kernels are %v", k)
		}
		var text strings.Builder
		devtest.Must(t, f.Image.Print(&text))
		for _, want := range []string{"length[0]=16", "length[1]=32", "addr[0]=0x10 length[0]=16", "RELAY_PAGED_PACKED count=2"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %s in\n%s", want, text.String())
			}
		}
		for _, gone := range []string{"RINGBUFFER", "STALL", "notify", "(3,3)"} {
			if strings.Contains(text.String(), gone) {
				t.Errorf("%s is left in\n%s", gone, text.String())
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(m *metalStream)
		want  error
		parts []string
	}{
		{"nothing", func(*metalStream) {}, metaltrace.ErrNotTrace, []string{"EXEC_BUF_END at +0x0", "no programs"}},
		{"no go signal", func(m *metalStream) { m.program(); m.config() }, metaltrace.ErrNotTrace, []string{"after the last go signal"}},
		{"no notification", func(m *metalStream) { m.config(); m.signal(cq.SendGoSignal{}) }, metaltrace.ErrNotTrace, []string{"SEND_GO_SIGNAL", "hang"}},
		{"ring", func(m *metalStream) { m.config(); m.kernel(func() {}) }, metaltrace.ErrNotTrace, []string{"RELAY_RINGBUFFER", "no command before it loaded"}},
		{"end of the ring", func(m *metalStream) {
			m.kernel(func() { m.load(); m.b.Append(cq.SetRingbufferOffset{Offset: 4096}) })
		}, metaltrace.ErrNotTrace, []string{"RELAY_RINGBUFFER"}},
		{"memory", func(m *metalStream) {
			m.b.Append(cq.PagedToRingbuffer{LogPageSize: 11, Advance: 2048, Base: 0x40, Length: 2048})
		}, errFar, []string{"PAGED_TO_RINGBUFFER", "0x40"}},
		{"Ethernet", func(m *metalStream) {
			m.b.WriteLinear(cq.WriteLinear{NOC: 5, Addr: 0x40, Data: make([]byte, 16)})
		}, metaltrace.ErrUnsupported, []string{"WRITE_LINEAR", "Ethernet"}},
		{"Ethernet arguments", func(m *metalStream) {
			m.b.WritePacked(cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: 3, Size: 4, Cores: []uint32{5}})
		}, metaltrace.ErrUnsupported, []string{"WRITE_PACKED", "Ethernet"}},
		{"unicast signal", func(m *metalStream) {
			m.b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
			m.signal(cq.SendGoSignal{NumUnicast: 2})
		}, metaltrace.ErrUnsupported, []string{"SEND_GO_SIGNAL", "Ethernet"}},
		{"sub-device", func(m *metalStream) {
			m.b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
			m.signal(cq.SendGoSignal{Multicast: 1})
		}, metaltrace.ErrUnsupported, []string{"SEND_GO_SIGNAL", "sub-device"}},
		{"host", func(m *metalStream) { m.b.WriteHost(cq.WriteHost{Data: make([]byte, 16)}) }, metaltrace.ErrUnsupported, []string{"WRITE_LINEAR_H_HOST"}},
		{"memory wait", func(m *metalStream) { m.b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: 64, Count: 1}) }, metaltrace.ErrUnsupported, []string{"WAIT", `"memory"`}},
		{"own commands", func(m *metalStream) {
			m.b.ForwardSubordinateGo(true, cq.SendGoSignal{Go: cq.NewGoWord(0, 1, 2, cq.SignalGo), WaitStream: 48})
		}, metaltrace.ErrUnsupported, []string{"SEND_GO_SIGNAL", "own firmware"}},
		{"odd place", func(m *metalStream) {
			m.b.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16, OffsetIndex: 1,
				Subs: []cq.LargeSub{{NOC: m.rect(), Addr: 4, Length: 4, Dests: 4, Unlink: true}}, Data: make([]byte, 16)})
		}, metaltrace.ErrUnsupported, []string{"WRITE_PACKED_LARGE", "rounded up"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMetalStream(t, chip.Blackhole)
			c.build(m)
			_, err := m.read(m.bytes())
			var e *metaltrace.ImportError
			if !errors.Is(err, c.want) || !errors.As(err, &e) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			expect.Says(t, err, nil, c.parts...)
		})
	}
	t.Run("launch", func(t *testing.T) {
		m := newMetalStream(t, chip.Blackhole)
		m.program()
		trace, err := m.read(m.bytes())
		devtest.Must(t, err)
		fails(t, trace.FindLaunches(abi.Of("0.67.0", chip.Blackhole)), metaltrace.ErrUnsupported, "launch messages of another revision")
		m = newMetalStream(t, chip.Blackhole)
		m.config()
		m.launch()
		m.start()
		trace, err = m.read(m.bytes())
		devtest.Must(t, err)
		expect.Says(t, trace.FindLaunches(m.layout), nil, "WRITE_PACKED", "where the trace puts no kernel")
	})
	t.Run("target", func(t *testing.T) {
		m := newMetalStream(t, chip.Blackhole)
		m.program()
		m.program()
		trace, err := m.read(m.bytes())
		devtest.Must(t, err)
		devtest.Must(t, trace.FindLaunches(m.layout))
		target := m.target()
		target.Workers.End.X++ // more completions than the trace counts
		fails(t, second(trace.File(metaltrace.FileOptions{Name: "x", Target: target})), tracebuf.ErrInvalid, "another number of workers")
	})
}

func FuzzImport(f *testing.F) {
	for _, arch := range arches {
		m := newMetalStream(f, arch)
		m.program()
		m.program()
		f.Add(uint8(arch), m.bytes())
	}
	f.Fuzz(func(t *testing.T, arch uint8, b []byte) {
		if !chip.Arch(arch).Valid() {
			return
		}
		m := newMetalStream(t, chip.Arch(arch))
		for _, v := range cq.Revisions() {
			trace, err := metaltrace.Read(pattern{}, len(m.ch.DRAMBanks()), m.b.Layout(), b, v.Name)
			if err != nil || trace.FindLaunches(m.layout) != nil {
				continue
			}
			file, err := trace.File(metaltrace.FileOptions{Name: "fuzz", Target: m.target()})
			if err != nil {
				continue
			}
			expect.Value(metaltrace.Write(file))(t)
		}
	})
}
