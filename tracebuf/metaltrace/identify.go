package metaltrace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/metal"
)

// An UnknownKernelError names a kernel of a trace that the kernel cache lacks. It matches
// ErrUnknownKernel.
type UnknownKernelError struct {
	Firmware  string
	Step      int
	Processor chip.Processor
	Core      chip.XY // in virtual coordinates
	Unknown   int
}

func (e *UnknownKernelError) Error() string {
	return fmt.Sprintf("metaltrace: program %d starts %v on %v's %v, and %d more: none was linked with %s; give the cache in which tt-metal built them",
		e.Step, ErrUnknownKernel, e.Core, e.Processor, e.Unknown-1, e.Firmware)
}

func (e *UnknownKernelError) Unwrap() error { return ErrUnknownKernel }

// FindFirmware finds the base firmware of a library with which all kernels of the trace were
// linked, and names the kernels. The error wraps ErrUnknownKernel, for the firmware that has most
// of them, or ErrSeveral, or is that of [Trace.Identify].
func (t *Trace) FindFirmware(l *Library) (*metal.Firmware, error) {
	var found *metal.Firmware
	var best *UnknownKernelError
	var other error
	for _, f := range l.Firmware() {
		if cq.Layout(f.Layout.Arch) != t.Layout {
			continue
		}
		err := t.Identify(l, f)
		var unknown *UnknownKernelError
		switch {
		case err == nil && found != nil && same(found, f):
		case err == nil && found != nil:
			return nil, fmt.Errorf("metaltrace: %w: %s of %v and %s of %v: name one of them", ErrSeveral, found.Dir, found.Layout.Revision, f.Dir,
				f.Layout.Revision)
		case err == nil:
			found = f
		case errors.As(err, &unknown):
			if best == nil || unknown.Unknown < best.Unknown {
				best = unknown
			}
		case other == nil:
			other = err
		}
	}
	switch {
	case found != nil:
		return found, t.Identify(l, found)
	case best != nil:
		return nil, best
	case other != nil:
		return nil, other
	}
	return nil, fmt.Errorf("metaltrace: %w: the cache has no base firmware for a %v with a kernel", ErrUnknownKernel, t.Layout)
}

func same(a, b *metal.Firmware) bool {
	for p := range a.Base {
		if !slices.EqualFunc(a.Base[p].Segments, b.Base[p].Segments, func(x, y kernels.MetalSegment) bool {
			return x.Addr == y.Addr && bytes.Equal(x.Data, y.Data)
		}) {
			return false
		}
	}
	return a.Layout == b.Layout
}

// Identify finds the kernels of a library that the trace starts. All must have been linked with f:
// that proves that the workers need f. Of several layouts that f may have, only the one remains
// that the trace's launch messages have. The error wraps ErrUnknownKernel if another firmware has
// the kernels, or ErrSeveral, or is that of [Trace.FindLaunches].
func (t *Trace) Identify(l *Library, f *metal.Firmware) error {
	var fit []*abi.Layout
	var first error
	for _, layout := range append([]*abi.Layout{f.Layout}, f.Others...) {
		err := t.FindLaunches(layout)
		if err == nil {
			err = t.nameKernels(l, f)
		}
		if err == nil && (len(fit) == 0 || !layout.Same(fit[0])) {
			fit = append(fit, layout)
		} else if err != nil && first == nil {
			first = err
		}
	}
	switch len(fit) {
	case 0:
		return first
	case 1:
		f.Layout, f.Others = fit[0], nil
		return errors.Join(t.FindLaunches(f.Layout), t.nameKernels(l, f))
	}
	return fmt.Errorf("metaltrace: %w: %s may be of %s", ErrSeveral, f.Dir, f.Revisions())
}

func (t *Trace) nameKernels(l *Library, f *metal.Firmware) error {
	var unknown *UnknownKernelError
	for i := range t.Steps {
		for k := range t.Steps[i].Launches {
			launch := &t.Steps[i].Launches[k]
			for n := range launch.Kernels {
				kernel := &launch.Kernels[n]
				if found := l.find(f, kernel.Processor, kernel.Text); found != nil {
					kernel.Name, kernel.Text = found.name, kernel.Text[:len(found.image.Text)]
					continue
				}
				if unknown == nil {
					unknown = &UnknownKernelError{Firmware: f.Dir, Step: i, Processor: kernel.Processor, Core: launch.Start}
				}
				unknown.Unknown++
			}
		}
	}
	if unknown != nil {
		return unknown
	}
	return nil
}

// FindLaunches reads the launch messages in the workers' layout, and finds the kernels' bytes,
// without their names. The error is an *ImportError.
func (t *Trace) FindLaunches(workers *abi.Layout) error {
	m := l1Memory{layout: t.Layout}
	var runs [cq.MaxSubDevices]uint32
	for i := range t.Steps {
		s := &t.Steps[i]
		s.Launches = nil
		var offsets [4]uint32
		var messages []message
		config := l1Memory{layout: t.Layout}
		for k := range s.commands {
			c := &s.commands[k]
			switch w := c.cmd.(type) {
			case cq.SetWriteOffset:
				offsets = w.Offsets
			case cq.WritePackedLarge:
				if err := m.command(c, &w, offsets); err != nil {
					return err
				}
			case cq.WritePacked:
				if w.OffsetIndex != 0 {
					break
				}
				found, err := messagesOf(c, &w, workers, t.Layout, runs[s.SubDevice])
				if err != nil {
					return err
				}
				messages = append(messages, found...)
			}
			if !c.header {
				_ = config.config(c.cmd, 0) // it fails only where m fails
			}
		}
		if len(messages) == 0 {
			return refuse(s.Offset, "SEND_GO_SIGNAL", ErrNotTrace, "program %d has no launch message", i)
		}
		runs[s.SubDevice]++
		for _, msg := range messages {
			launch, err := msg.launch(workers, &m, &config)
			if err != nil {
				return err
			}
			s.Launches = append(s.Launches, launch)
		}
	}
	return nil
}

type message struct {
	offset int
	area
	bytes []byte
}

func messagesOf(c *command, w *cq.WritePacked, workers *abi.Layout, l cq.Layout, run uint32) ([]message, error) {
	fail := func(err error, format string, args ...any) error {
		return refuse(c.offset, w.ID().String(), err, format, args...)
	}
	l1 := &workers.L1
	if slot := l1.Launch + run%l1.LaunchEntries*l1.LaunchSize; w.Addr != slot || uint32(w.Size) != l1.LaunchSize {
		return nil, fail(ErrUnsupported, "%d B at %#x of L1, the launch message after %d programs there has %d B at %#x "+
			"with base firmware of %v", w.Size, w.Addr, run, l1.LaunchSize, slot, workers.Revision)
	}
	if c.header {
		return nil, fail(ErrUnsupported, "launch messages lie in DRAM")
	}
	var out []message
	add := func(on area) { out = append(out, message{c.offset, on, w.Slot(len(out))[:w.Size]}) }
	for _, xy := range w.Cores {
		on, ok := coreOf(l, xy)
		if !ok {
			return nil, fail(ErrNotTrace, "%#x is no core", xy)
		}
		add(on)
	}
	for _, r := range w.Rects {
		on, ok := areaOf(l, r.NOC)
		if !ok {
			return nil, fail(ErrNotTrace, "%#x is no rectangle", r.NOC)
		}
		add(on)
	}
	return out, nil
}

// preload is the launch message's DISPATCH_ENABLE_FLAG_PRELOAD (tt-metal dev_msgs.h).
const preload = 0x80

func (msg *message) refuse(err error, format string, args ...any) error {
	return refuse(msg.offset, "WRITE_PACKED", err, format, args...)
}

func (msg *message) launch(workers *abi.Layout, m, config *l1Memory) (Launch, error) {
	le, at, b := binary.LittleEndian, &workers.Launch, msg.bytes
	out := Launch{Start: msg.start, End: msg.end}
	base, enables := le.Uint32(b[at.ConfigBase:]), at.Enabled(b)
	l1 := &workers.L1
	for _, field := range append(workers.UnreadFields(), abi.LaunchField{Name: "mode", Offset: at.Mode, Size: 1},
		abi.LaunchField{Name: "preload", Offset: at.Preload, Size: 1, None: preload}) {
		v := uint64(0)
		for i, x := range b[field.Offset : field.Offset+field.Size] {
			v |= uint64(x) << (8 * min(i, 7))
		}
		if v != field.None && !(v == 0 && field.None == preload) {
			return out, msg.refuse(ErrUnsupported, "%s is %#x in the launch message of %v, which %v doesn't have", field.Name, v,
				msg.start, workers.Revision)
		}
	}
	if base < l1.KernelConfig || base >= l1.KernelEnd() || enables == 0 || enables >= 1<<chip.NumProcessors {
		return out, msg.refuse(ErrUnsupported, "the launch message of %v starts kernels %#x with configuration at %#x, which %v doesn't",
			msg.start, enables, base, workers.Revision)
	}
	for p := range chip.Processor(chip.NumProcessors) {
		if enables>>p&1 == 0 {
			continue
		}
		addr := base + le.Uint32(b[at.Text+4*uint32(p):])
		text := m.read(msg.start, addr)
		if len(text) == 0 {
			return out, msg.refuse(ErrNotTrace, "%v of %v starts at %#x of L1, where the trace puts no kernel", p, msg.start, addr)
		}
		k := Kernel{Processor: p, Addr: addr, Text: text}
		k.args, k.common = msg.arguments(workers, p)
		if k.Args = config.words(msg.start, k.args); k.common != k.args {
			k.Common = config.words(msg.start, k.common)
		}
		out.Kernels = append(out.Kernels, k)
	}
	mask := uint64(le.Uint32(b[at.CBMask:]))
	if at.CircularBuffers > 32 {
		mask = le.Uint64(b[at.CBMask:])
	}
	circular := base + uint32(le.Uint16(b[at.Circular:]))
	if mask != 0 {
		sizes := m.read(msg.start, circular)
		for i := range at.CircularBuffers {
			if mask>>i&1 != 0 && len(sizes) >= 16*i+8 {
				out.Circular = append(out.Circular, CircularBuffer{le.Uint32(sizes[16*i:]), le.Uint32(sizes[16*i+4:])})
			}
		}
	}
	return out, nil
}

// Name is like "reader on NCRISC, writer on BRISC".
func (s *Step) Name() string {
	var names []string
	for i := range s.Launches {
		for _, k := range s.Launches[i].Kernels {
			if name := cmp.Or(k.Name, "unknown") + " on " + k.Processor.String(); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("host id %d", s.HostID)
	}
	return strings.Join(names, ", ")
}

// Library finds the kernels of a kernel cache by base firmware, processor and bytes.
type Library struct {
	firmware []*metal.Firmware
	all      []known
	kernels  map[*metal.Firmware]*[chip.NumProcessors][]known
	problems []error
}

type known struct {
	name      string
	processor chip.Processor
	firmware  *metal.Firmware // of its build
	image     *kernels.Image
}

// NewLibrary reads the kernels of a cache for which the cache has base firmware. The error is the
// context's; unusable kernels are among Problems.
func NewLibrary(ctx context.Context, c *metal.Cache) (*Library, error) {
	l := &Library{kernels: map[*metal.Firmware]*[chip.NumProcessors][]known{}}
	for i := range c.Kernels {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		k := &c.Kernels[i]
		of := known{name: k.Name}
		var err error
		if of.image, err = k.Load(); err == nil {
			of.firmware, of.processor, err = c.FirmwareOf(k, of.image)
		}
		if err != nil {
			l.problems = append(l.problems, err)
			continue
		}
		l.all = append(l.all, of)
	}
	for _, f := range c.Firmware {
		if slices.ContainsFunc(l.all, func(k known) bool { return k.firmware == f }) {
			l.firmware = append(l.firmware, f)
			l.index(f, func(k *known) bool { return k.firmware == f })
		}
	}
	return l, nil
}

func (l *Library) index(f *metal.Firmware, is func(*known) bool) *[chip.NumProcessors][]known {
	of := new([chip.NumProcessors][]known)
	for i := range l.all {
		if k := &l.all[i]; is(k) {
			of[k.processor] = append(of[k.processor], *k)
		}
	}
	l.kernels[f] = of
	return of
}

// Firmware returns the base firmware of the cache that has kernels.
func (l *Library) Firmware() []*metal.Firmware { return slices.Clone(l.firmware) }

// find returns the longest kernel at the start of memory. For firmware outside of the library,
// symbols tell which kernels it runs.
func (l *Library) find(f *metal.Firmware, p chip.Processor, memory []byte) *known {
	of := l.kernels[f]
	if of == nil {
		of = l.index(f, func(k *known) bool { return f.CheckProcessor(k.image, k.processor) == nil })
	}
	var best *known
	for i := range of[p] {
		k := &of[p][i]
		if n := len(k.image.Text); n > 0 && (best == nil || n > len(best.image.Text)) && bytes.HasPrefix(memory, k.image.Text) {
			best = k
		}
	}
	return best
}

// Problems says which files of the cache are unusable, and why.
func (l *Library) Problems() []error { return l.problems }
