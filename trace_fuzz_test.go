package reprise_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/tracebuf"
)

// fuzzCard is a device for changed trace files, opened anew after each that does harm.
type fuzzCard struct {
	arch    chip.Arch
	queues  int
	flow    bool
	timeout time.Duration
	started string
	card    *sim.Card
	dev     *reprise.Device
}

func (c *fuzzCard) open(t devtest.Fataler) *reprise.Device {
	t.Helper()
	if c.dev != nil {
		return c.dev
	}
	// The fewest cores that a chip can have.
	opts := []sim.Option{sim.Strict(1), sim.Harvesting(chip.Harvesting{Tensix: 0x3FC})}
	c.card = sim.Wormhole(opts...)
	if c.arch == chip.Blackhole {
		opts[1] = sim.Harvesting(chip.Harvesting{Tensix: 0x3FFC})
		c.card = sim.Blackhole(opts...)
	}
	own := []reprise.Option{reprise.WithHangTimeout(c.timeout)}
	if c.queues == 2 {
		own = append(own, reprise.WithQueues(2), reprise.WithQueueWorkers(0, c.cores(0, 1)), reprise.WithQueueWorkers(1, c.cores(2, 3)))
	}
	var err error
	c.dev, err = reprise.Open(context.Background(), c.card, own...)
	devtest.Must(t, err)
	return c.dev
}

func (c *fuzzCard) setTimeout(d time.Duration) {
	if c.timeout != d {
		c.close()
		c.timeout = d
	}
}

func (c *fuzzCard) cores(first, last int) chip.Range {
	if c.arch == chip.Blackhole {
		return chip.Range{Start: chip.Core{Y: first}, End: chip.Core{Y: last}}
	}
	return chip.Range{Start: chip.Core{X: first}, End: chip.Core{X: last}}
}

func (c *fuzzCard) close() {
	if c.dev != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.dev.Close(ctx)
		c.dev = nil
	}
}

type outcome struct {
	refused error  // by LoadTrace
	harm    string // by anything but kernels
}

func (c *fuzzCard) run(t devtest.Fataler, file []byte) (o outcome) {
	t.Helper()
	dev := c.open(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second+c.timeout)
	defer cancel()
	trace, err := dev.LoadTrace(ctx, bytes.NewReader(file))
	if err != nil {
		if fault := c.card.Chip().Fault(); fault != nil {
			o.harm = "while it was loaded: " + fault.Error()
			c.close()
		}
		o.refused = err
		return o
	}
	err = trace.Replay(ctx)
	for q := range c.queues {
		err = errors.Join(err, dev.Queue(q).Wait(ctx))
	}
	fault := c.card.Chip().Fault()
	o.harm = judge(fault, err)
	if o.harm != "" && c.started != kernelsIn(file) && c.byKernel(dev, fault) {
		o.harm = ""
	}
	if fault != nil || err != nil {
		c.close()
		return o
	}
	if err := trace.Release(ctx); err != nil {
		o.harm = "release: " + err.Error()
		c.close()
	}
	return o
}

// kernelsIn returns where a trace puts and starts kernels. Harm by code there is the kernels'
// fault.
func kernelsIn(file []byte) string {
	f, err := tracebuf.Decode(bytes.NewReader(file))
	if err != nil {
		return err.Error()
	}
	var s []byte
	launch := &abi.Own(f.Target.Arch).Launch
	for _, p := range f.Parts() {
		s = fmt.Append(s, p.Image.Relocs)
		for e := range cq.All(p.Image.Layout, p.Image.Bytes[:p.Image.Size]) {
			for r := range e.Relayed {
				switch c := r.Command.(type) {
				case cq.SetWriteOffset:
					s = fmt.Append(s, c.Offsets)
				case cq.WritePackedLarge:
					if c.OffsetIndex == 2 {
						s = fmt.Append(s, c.Subs)
					}
				case cq.WritePacked:
					if c.Type == cq.PackedLaunch && len(c.Data) >= int(c.Size) {
						s = fmt.Append(s, c.Data[launch.Enables:][:4], c.Data[launch.Text:][:4*chip.NumProcessors], c.Cores, c.Rects)
					}
				}
			}
		}
	}
	return string(s)
}

// byKernel reports whether harm is a kernel's: a hang, or what a worker did in kernel memory.
func (c *fuzzCard) byKernel(dev *reprise.Device, fault error) bool {
	var r *emu.Refusal
	if !errors.As(fault, &r) {
		return fault == nil
	}
	core, _, pc, ok := r.Culprit()
	layout := abi.Own(c.arch)
	inside := func(base, size uint32) bool { return pc >= base && pc-base < size }
	return ok && dev.Grid().Contains(core) && (inside(layout.L1.KernelConfig, layout.L1.KernelConfigSize) ||
		inside(layout.Boot.IRAM, layout.Boot.IRAMSize))
}

func judge(fault, err error) string {
	var h *dispatch.HangError
	switch {
	case fault != nil:
		return fault.Error()
	case errors.As(err, &h):
		for _, s := range h.Cores {
			if s.Kind == "prefetch" && s.Processors[chip.BRISC].Waypoint == "LOOP" {
				return ""
			}
		}
		return h.Detail()
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return err.Error()
	}
	return ""
}

// fuzzProgram has everything that launch messages tell the firmware. Its kernels do nothing.
func fuzzProgram(t devtest.Fataler, dev *reprise.Device, name string, size int, at chip.Range, procs ...chip.Processor) *reprise.Program {
	t.Helper()
	blank, err := kernels.Prebuilt(dev.Arch(), kernels.Blank)
	devtest.Must(t, err)
	cores := []chip.Range{at}
	p := &reprise.Program{
		Name: name,
		CircularBuffers: []reprise.CircularBuffer{{Index: 1, Cores: cores, PageSize: 64, Pages: 2},
			{Index: 4, Cores: cores, PageSize: 32, Pages: 1}},
		Semaphores: []reprise.Semaphore{{ID: 1, Cores: cores, Initial: 3}},
	}
	for _, proc := range procs {
		im := *blank
		im.Text = append(bytes.Clone(im.Text), make([]byte, size)...)
		p.Kernels = append(p.Kernels, reprise.Kernel{
			Name: proc.String(), Image: &im, Processor: proc, Cores: cores, Common: []uint32{1, 2, 3},
			Args: func(at chip.Core) []uint32 { return []uint32{uint32(at.X), uint32(at.Y), 7} },
		})
	}
	return p
}

func (c *fuzzCard) fuzzFile(t devtest.Fataler) []byte {
	t.Helper()
	ctx := context.Background()
	dev := c.open(t)
	defer c.close()
	pages := func(name string) *reprise.Buffer {
		b, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 128, PageSize: 64, Name: name})
		devtest.Must(t, err)
		devtest.Must(t, dev.Queue(0).Write(ctx, b, 0, devtest.Words(128, 1)))
		return b
	}
	in, out := pages("in"), pages("out")
	load := func(p *reprise.Program) *reprise.Executable {
		x, err := dev.Load(ctx, p)
		devtest.Must(t, err)
		return x
	}
	one := load(fuzzProgram(t, dev, "one", 0, c.cores(1, 1), chip.BRISC, chip.TRISC0, chip.TRISC2))
	two := load(fuzzProgram(t, dev, "two", 1600, c.cores(0, 1), chip.BRISC, chip.NCRISC))
	var trace *reprise.Trace
	var err error
	switch {
	case c.flow:
		called, failed := dev.Queue(0).Capture(ctx, "called", func(_ context.Context, r *reprise.Recorder) error {
			return r.Loop(2, func() error { return r.If(reprise.Cond{Iteration: 1, Is: cq.Equal, Value: 1}, runs(r, two), nil) })
		})
		devtest.Must(t, failed)
		trace, err = dev.Queue(0).Capture(ctx, "flow", func(_ context.Context, r *reprise.Recorder) error {
			less := reprise.Cond{Buffer: out, Offset: 4, Is: cq.Less, Value: 30}
			return errors.Join(
				r.Loop(2, runs(r, one, two)),
				r.Call(called),
				r.Switch(in, 0, runs(r, two), func() error { return r.Call(called) }, runs(r, one)),
				r.While(reprise.Cond{Buffer: in, Offset: 8, Is: cq.Less, Value: 3}, 4, runs(r, one)),
				r.While(reprise.Cond{Iteration: 1, Is: cq.Less, Value: 3}, 4,
					func() error { return r.Run(one, from(reprise.Arg{Kernel: chip.BRISC.String(), Index: 1}, in, 4)) }),
				r.If(less, runs(r, two), runs(r, one)),
			)
		})
	case c.queues == 2:
		other := load(fuzzProgram(t, dev, "other", 0, c.cores(2, 3), chip.NCRISC, chip.TRISC1))
		done := dev.NewEvent("done")
		trace, err = captureQueues(ctx, "queues", []*reprise.Queue{dev.Queue(0), dev.Queue(1)}, func(rs []*reprise.Recorder) error {
			return errors.Join(rs[0].Run(one), rs[0].Record(done), rs[1].WaitEvent(done), rs[1].Run(other), rs[0].Run(two))
		})
	default:
		trace, err = dev.Queue(0).Capture(ctx, "programs", record(one, two, one, two, one, two, one, two, one, two))
	}
	devtest.Must(t, err)
	var b bytes.Buffer
	devtest.Must(t, trace.Save(ctx, &b, reprise.WithData()))
	return b.Bytes()
}

const fuzzEdit = 10

// edited changes a file and its checksum. An edit is a kind, a place (4 B), a value (4 B) and a
// number (1 B). Kernels stay: they may do anything.
func edited(file, script []byte) []byte {
	le := binary.LittleEndian
	b := bytes.Clone(file)
	var at []int    // offsets of 32-bit words
	var whole []int // of commands
	for off := 24; off+16 < len(b)-32; {
		tag, n := string(b[off:off+4]), int(le.Uint64(b[off+8:]))
		end := off + 16 + n
		for i := off; i+4 <= end; i += 4 {
			switch {
			case tag == "PROG" && i > off+24:
			case tag == "CMDS":
				if i >= off+20 {
					whole = append(whole, i)
				}
			default:
				at = append(at, i)
			}
		}
		off = end
	}
	for ; len(script) >= fuzzEdit; script = script[fuzzEdit:] {
		kind, place, v, n := script[0], int(le.Uint32(script[1:])), le.Uint32(script[5:]), int(script[9])
		words := whole
		if kind&0xC0 == 0xC0 {
			words = at
		}
		i := words[place%len(words)]
		other := words[int(v)%len(words)]
		was := le.Uint32(b[i:])
		switch kind & 15 {
		case 0:
			le.PutUint32(b[i:], v)
		case 1:
			b[i+n%4] = byte(v)
		case 2:
			le.PutUint16(b[i+n%2*2:], uint16(v))
		case 3:
			le.PutUint32(b[i:], was^1<<(v%32))
		case 4:
			le.PutUint32(b[i:], was+uint32(int32(int8(v)))<<(n%8))
		case 5:
			copy(b[i:], b[other:][:4])
		case 6:
			copy(b[i:min(i+16, len(b)-32)], b[other:][:16])
		case 7:
			copy(b[i:min(i+n, len(b)-32)], b[other:])
		case 8: // the same change wherever the word is
			to := was + uint32(int32(int8(v)))<<(n%8)
			for _, k := range words {
				if le.Uint32(b[k:]) == was {
					le.PutUint32(b[k:], to)
				}
			}
		case 9:
			for _, k := range words {
				if le.Uint32(b[k:]) == was {
					le.PutUint32(b[k:], v)
				}
			}
		case 10:
			to := was + uint32(int32(int8(v)))<<(n%8)
			for _, k := range words {
				if k >= i && k < i+n*4 && le.Uint32(b[k:]) == was {
					le.PutUint32(b[k:], to)
				}
			}
		case 11:
			le.PutUint32(b[i:], []uint32{0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0xFFFF, 0x10000, 16, 8, 4, 2, 3, 0x100000, 0x19000, 0x7D80,
				0xFFB00000}[v%16])
		case 12: // two words change places
			le.PutUint32(b[i:], le.Uint32(b[other:]))
			le.PutUint32(b[other:], was)
		case 13:
			b[i+n%4] += byte(v)
		}
	}
	sum := sha256.Sum256(b[:len(b)-32])
	copy(b[len(b)-32:], sum[:])
	return b
}

// A changed file with the right checksum is refused, or does no harm: no firmware stops a chip,
// and every replay ends.
func FuzzTraceOnDevice(f *testing.F) {
	var cards []*fuzzCard
	var files [][]byte
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		for _, c := range []fuzzCard{{queues: 1}, {queues: 1, flow: true}, {queues: 2}} {
			c.arch, c.timeout = arch, 10*time.Second
			f.Cleanup(c.close)
			file := c.fuzzFile(f)
			c.started = kernelsIn(file)
			cards, files = append(cards, &c), append(files, file)
			f.Add(uint8(len(files)-1), []byte{})
			for _, kind := range []byte{0, 4, 8, 11} {
				f.Add(uint8(len(files)-1), []byte{kind, 40 * kind, kind, 0, 0, kind, 0, 0, 0, kind})
			}
		}
	}
	const soon, late = 300 * time.Millisecond, 10 * time.Second
	f.Fuzz(func(t *testing.T, which uint8, script []byte) {
		c, file := cards[int(which)%len(cards)], files[int(which)%len(cards)]
		file = edited(file, script)
		c.setTimeout(soon)
		o := c.run(t, file)
		if o.harm == "" {
			return
		}
		// A busy machine may look like a hang, and a kernel's harm may show late.
		c.setTimeout(late)
		if again := c.run(t, file); again.harm != "" {
			t.Error(again.harm)
		}
	})
}
