package dispatch

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"weak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/stack"
)

// KernelError is the cause of a *HangError where a kernel made the device stop, and the queue knows which: Err says what
// the kernel did.
type KernelError struct {
	Core            chip.Core
	Processor       chip.Processor
	Program, Kernel string
	Offset          uint32 // of the instruction in the kernel's text, in bytes
	// Frames are the function that the instruction is in, after those that are inlined there, where the kernel's file tells.
	Frames []stack.Frame
	Err    error
}

// Error implements error.
func (e *KernelError) Error() string {
	where := ""
	if len(e.Frames) > 0 && e.Frames[0].Function != "" {
		where = ", " + e.Frames[0].Function
		if f := e.Frames[0]; f.File != "" {
			where += fmt.Sprintf(" at %s:%d", f.File, f.Line)
		}
		if f := e.Frames[len(e.Frames)-1]; len(e.Frames) > 1 && f.File != "" { // where the others are inlined
			where += fmt.Sprintf(", in %s at %s:%d", f.Function, f.File, f.Line)
		}
	}
	return fmt.Sprintf("kernel %q of program %q on %v of core %v, at +%#x of its text%s: %v", e.Kernel, e.Program, e.Processor, e.Core,
		e.Offset, where, e.Err)
}

// Unwrap returns Err.
func (e *KernelError) Unwrap() error { return e.Err }

// culprit is an error of a device that knows which worker it is about: of an emulator.
type culprit interface {
	Culprit() (core chip.Core, p chip.Processor, pc uint32, ok bool)
}

// kernelTexts are the kernels of a program.
type kernelTexts struct {
	program string
	list    []kernelText
}

// kernelText is a kernel on some cores.
type kernelText struct {
	kernel     string
	processor  chip.Processor
	cores      []chip.Core
	start, end uint32 // in the program's text, in bytes
	text, file []byte // as in Kernel
}

// noteKernels remembers the kernels of a program as long as its Image is used.
func (d *Device) noteKernels(im *Image, groups []*group) {
	im.kernels = &kernelTexts{program: im.name}
	for _, g := range groups {
		for p, k := range g.kernels {
			if k != nil {
				im.kernels.list = append(im.kernels.list, kernelText{k.Name, chip.Processor(p), g.cores, g.textOff[p],
					g.textOff[p] + uint32(len(k.Text)), k.Text, k.File})
			}
		}
	}
	all := d.kernels
	all.Store(im.id, weak.Make(im.kernels))
	runtime.AddCleanup(im.kernels, func(id textID) { all.Delete(id) }, im.id)
}

// blame names in an error of the device the kernel that it is about, if the queues know it.
func (q *Queue) blame(cause error, locked bool) error {
	var c culprit
	if !errors.As(cause, &c) {
		return cause
	}
	core, p, pc, ok := c.Culprit()
	if !ok {
		return cause
	}
	for _, o := range q.d.queues {
		if !o.set.cores.Contains(core) {
			continue
		}
		own := locked && o == q
		if !own && !o.mu.TryLock() {
			continue
		}
		e := o.kernelAtLocked(core, p, pc)
		if !own {
			o.mu.Unlock()
		}
		if e != nil {
			e.Err = cause
			return e
		}
	}
	return cause
}

// kernelAtLocked returns the kernel whose text a worker's program counter is in, according to what the queue sent last.
func (q *Queue) kernelAtLocked(core chip.Core, p chip.Processor, pc uint32) *KernelError {
	off := pc - q.d.worker.L1.KernelConfig
	for _, t := range q.stream.state.config.texts.list {
		if t.id == 0 || off-t.off >= t.size {
			continue
		}
		v, _ := q.d.kernels.Load(t.id)
		ref, _ := v.(weak.Pointer[kernelTexts])
		known := ref.Value()
		if known == nil {
			continue
		}
		for _, k := range known.list {
			if at := off - t.off; k.processor == p && at >= k.start && at < k.end && slices.Contains(k.cores, core) {
				e := &KernelError{Core: core, Processor: p, Program: known.program, Kernel: k.kernel, Offset: at - k.start}
				if m, err := stack.Load(k.kernel, k.file, pc-e.Offset); err == nil {
					e.Frames = stack.Space{m}.Unwind(stack.Registers{PC: pc}, nil)
				}
				return e
			}
		}
	}
	return nil
}
