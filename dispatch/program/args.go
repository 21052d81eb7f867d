package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

type kernelArgs struct {
	name   string
	unique []coreArgs // by core, row by row
	common []int32    // by rectangle of cores
	n      int        // common arguments

	// Addresses in a program's slot.
	uniqueAddr, commonAddr uint16
	rects                  []cq.Rect
}

type coreArgs struct {
	core chip.Core
	noc  uint32
	at   int32 // of the first
	n    int32
}

// ArgError: a runtime argument can't be named.
type ArgError struct {
	Program, Kernel string
	Common          bool
	Index           int
	Why             string
}

func (e *ArgError) Error() string {
	kind := "unique"
	if e.Common {
		kind = "common"
	}
	return fmt.Sprintf("dispatch: program %q: %s argument %d of kernel %q: %s", e.Program, kind, e.Index, e.Kernel, e.Why)
}

// UniqueArg appends to dst the offsets of a kernel's unique argument in the commands of one run, as
// CommandBytes counts: one for each core that on is true of. [Image.MainOffset] converts them for a
// recorded run. The error is an *ArgError.
func (im *Image) UniqueArg(dst []int, kernel string, arg int, on func(chip.Core) bool) ([]int, error) {
	k, err := im.kernel(kernel, arg, false)
	if err != nil {
		return dst, err
	}
	n := len(dst)
	for _, c := range k.unique {
		if !on(c.core) {
			continue
		}
		if arg < 0 || arg >= int(c.n) {
			return dst[:n], im.noArg(kernel, arg, false, "core %v has %d", c.core, c.n)
		}
		dst = append(dst, int(c.at)+4*arg)
	}
	if len(dst) == n {
		return dst, im.noArg(kernel, arg, false, "none of the cores has unique arguments")
	}
	return dst, nil
}

// CommonArg is UniqueArg for a common argument.
func (im *Image) CommonArg(dst []int, kernel string, arg int) ([]int, error) {
	k, err := im.kernel(kernel, arg, true)
	if err != nil {
		return dst, err
	}
	if arg < 0 || arg >= k.n {
		return dst, im.noArg(kernel, arg, true, "it has %d", k.n)
	}
	for _, at := range k.common {
		dst = append(dst, int(at)+4*arg)
	}
	return dst, nil
}

func (im *Image) kernel(name string, arg int, common bool) (*kernelArgs, error) {
	var found *kernelArgs
	for i := range im.args {
		if im.args[i].name != name {
			continue
		}
		if found != nil {
			return nil, im.noArg(name, arg, common, "the program has several kernels of that name: give them different ones")
		}
		found = &im.args[i]
	}
	if found == nil {
		var names []string
		for i := range im.args {
			names = append(names, fmt.Sprintf("%q", im.args[i].name))
		}
		slices.Sort(names)
		return nil, im.noArg(name, arg, common, "the program has no such kernel, it has %s", strings.Join(names, ", "))
	}
	return found, nil
}

func (im *Image) noArg(kernel string, arg int, common bool, why string, a ...any) error {
	return &ArgError{Program: im.name, Kernel: kernel, Common: common, Index: arg, Why: fmt.Sprintf(why, a...)}
}

// SetWords changes the words at offsets of UniqueArg or CommonArg for later runs, but not during
// AppendRun.
func (im *Image) SetWords(at []int, v uint32) {
	im.change()
	for _, o := range at {
		cq.Put32(im.main.bytes, o, v)
	}
}

// SetArgs changes all unique arguments of a kernel for later runs, but not during AppendRun. It
// calls set for each core that has some, row by row; set changes them in place during the call. The
// error is an *ArgError.
func (im *Image) SetArgs(kernel string, set func(c chip.Core, args []uint32)) error {
	k, err := im.kernel(kernel, 0, false)
	if err != nil {
		return err
	}
	if len(k.unique) == 0 {
		return im.noArg(kernel, 0, false, "none of the cores has unique arguments")
	}
	im.change()
	if im.words == nil {
		im.words = make([]uint32, MaxArgs)
	}
	for i := range k.unique {
		c := &k.unique[i]
		args := im.words[:c.n:c.n]
		raw := im.main.bytes[c.at : int(c.at)+4*len(args)]
		for j := range args {
			args[j] = cq.Get32(raw, 4*j)
		}
		set(c.core, args)
		for j, v := range args {
			cq.Put32(raw, 4*j, v)
		}
	}
	return nil
}

// SetCommonArgs is SetArgs for the common arguments; the number of arguments can't change.
func (im *Image) SetCommonArgs(kernel string, args []uint32) error {
	k, err := im.kernel(kernel, 0, true)
	if err != nil {
		return err
	}
	if len(args) != k.n {
		return im.noArg(kernel, len(args)-1, true, "it has %d, not %d", k.n, len(args))
	}
	im.change()
	for _, at := range k.common {
		for j, v := range args {
			cq.Put32(im.main.bytes, int(at)+4*j, v)
		}
	}
	return nil
}

// CircularAddr appends to dst the offsets, as those of CommonArg, of the words with the address of
// a circular buffer of p, the image's program. Each core with the buffer must have a kernel with
// common arguments: the configuration of circular buffers follows them. The error is a
// *ProgramError.
func (im *Image) CircularAddr(dst []int, p *Program, index int) ([]int, error) {
	lay := layoutSlot(p, nil, ArgFormat(im.argCount))
	n := len(dst)
	for i := range p.CircularBuffers {
		b := &p.CircularBuffers[i]
		if b.Index != index {
			continue
		}
		for _, r := range b.Cores {
			for c := range r.Cores() {
				if !slices.ContainsFunc(p.Kernels, func(k Kernel) bool { return len(k.Common) > 0 && c.In(k.Cores) }) {
					return dst[:n], p.fail("circular buffer", "buffer %d can't be moved: core %v has no kernel with common arguments", index, c)
				}
			}
		}
		for k := range p.Kernels {
			// Common arguments of a core begin at those of its first processor.
			after := lay.cbs + 16*uint32(index) - lay.common[p.Kernels[k].Processor] - uint32(lay.ArgFormat)
			for _, at := range im.args[k].common {
				if word := int(at) + int(after); !slices.Contains(dst[n:], word) {
					dst = append(dst, word)
				}
			}
		}
	}
	if len(dst) == n {
		return dst, p.fail("circular buffer", "there is no buffer %d", index)
	}
	return dst, nil
}

// Arguments that the device computes: before a run, cq.ReadArg commands name words of memory and
// their targets in the program's slot. The run's go signal has the dispatcher read and write them
// (Image.ReadArgs).

// UniqueArgTargets appends to dst the L1 addresses of a kernel's unique argument, for each core
// that on is true of, relative to the write offset ArgOffset. The error is an *ArgError.
func (im *Image) UniqueArgTargets(dst []cq.ArgTarget, kernel string, arg int, on func(chip.Core) bool) ([]cq.ArgTarget, error) {
	if _, err := im.UniqueArg(nil, kernel, arg, on); err != nil {
		return dst, err
	}
	k, _ := im.kernel(kernel, arg, false)
	for _, c := range k.unique {
		if on(c.core) {
			dst = append(dst, cq.ArgTarget{NOC: c.noc, Addr: k.uniqueAddr + uint16(4*arg)})
		}
	}
	return dst, nil
}

// CommonArgTargets is UniqueArgTargets for a common argument.
func (im *Image) CommonArgTargets(dst []cq.ArgTarget, kernel string, arg int) ([]cq.ArgTarget, error) {
	if _, err := im.CommonArg(nil, kernel, arg); err != nil {
		return dst, err
	}
	k, _ := im.kernel(kernel, arg, true)
	for _, r := range k.rects {
		dst = append(dst, cq.ArgTarget{NOC: r.NOC, Addr: k.commonAddr + uint16(4*arg), Dests: uint8(r.Dests)})
	}
	return dst, nil
}

// ArgOffset is the write offset of the run's slot.
const ArgOffset = offsetConfig

// ReadArgs makes a run, which is [Variant.Inline], take the arguments of the cq.ReadArg commands
// before it. [Image.AppendAgain] keeps the change.
func (im *Image) ReadArgs(run []byte, v Variant) error {
	at := im.MainOffset(v) + im.form(v).main.goWord - cq.AtGoWord - cq.AtForwarded
	forwards := []cq.DispatchID{cq.DispatchForwardSubordinate, cq.DispatchForwardWithArgs}
	if !v.Inline() || len(run) != im.runBytes(v) || at < 0 || !slices.Contains(forwards, cq.DispatchID(run[at])) {
		return fmt.Errorf("dispatch: program %q: its run of %d B takes no arguments that the device computes", im.name, len(run))
	}
	cq.Put8(run, at, uint8(cq.DispatchForwardWithArgs))
	return nil
}
