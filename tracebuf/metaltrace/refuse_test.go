package metaltrace_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

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
	m.b.RelayRingbuffer(cq.RelayRingbuffer{Subs: []cq.RingSub{{Start: 0, Length: 4096}, {Start: 4096, Length: 2 * align}}})
}

func (m *metalStream) load() {
	m.b.PagedToRingbuffer(cq.PagedToRingbuffer{Reset: true, LogPageSize: 11, Advance: 6144, Base: kernelAddr, Length: 6144})
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
					m.b.SetRingbufferOffset(cq.SetRingbufferOffset{Offset: 0})
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
		if _, err := metaltrace.Write(f); err != nil {
			t.Fatal(err)
		}
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
			m.kernel(func() { m.load(); m.b.SetRingbufferOffset(cq.SetRingbufferOffset{Offset: 4096}) })
		}, metaltrace.ErrNotTrace, []string{"RELAY_RINGBUFFER"}},
		{"memory", func(m *metalStream) {
			m.b.PagedToRingbuffer(cq.PagedToRingbuffer{LogPageSize: 11, Advance: 2048, Base: 0x40, Length: 2048})
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
			devtest.Says(t, err, c.parts...)
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
		devtest.Says(t, trace.FindLaunches(m.layout), "WRITE_PACKED", "where the trace puts no kernel")
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
			if _, err := metaltrace.Write(file); err != nil {
				t.Fatal(err)
			}
		}
	})
}
