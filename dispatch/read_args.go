package dispatch

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Arguments that the device computes: cq.ReadArg commands before a run name words of memory and where in the program's slot they
// go, and the run's go signal has the dispatcher read and write them (Image.ReadArgs).

// ErrWireFormat is returned for what the stock wire format has no command for.
var ErrWireFormat = errors.New("the stock wire format, with which the device was opened, has no command for it")

// DeviceArgs returns nil if programs in traces of the queue may have arguments that the device computes, otherwise
// [ErrQueueFirmware] or [ErrWireFormat].
func (q *Queue) DeviceArgs() error {
	var err error
	switch {
	case q.d.ctl.argWords == 0:
		err = ErrQueueFirmware
	case q.d.PackedPage() == 0:
		err = ErrWireFormat
	default:
		return nil
	}
	return fmt.Errorf("dispatch: queue %d: arguments that the device computes: %w", q.id, err)
}

// UniqueArgTargets appends to dst where a unique argument of a kernel lies in L1, for each core that on is true of, relative to
// the write offset ArgOffset. The error is an *ArgError.
func (im *Image) UniqueArgTargets(dst []cq.ArgTarget, kernel string, arg int, on func(chip.Core) bool) ([]cq.ArgTarget, error) {
	if _, err := im.UniqueArg(nil, kernel, arg, on); err != nil {
		return dst, err
	}
	k, err := im.kernel(kernel, arg, false)
	if err != nil {
		return dst, err
	}
	for _, c := range k.unique {
		if on(c.core) {
			dst = append(dst, cq.ArgTarget{NOC: c.noc, Addr: k.uniqueAddr + uint16(4*arg)})
		}
	}
	return dst, nil
}

// CommonArgTargets is UniqueArgTargets for a common argument: one target for each rectangle of cores that gets it.
func (im *Image) CommonArgTargets(dst []cq.ArgTarget, kernel string, arg int) ([]cq.ArgTarget, error) {
	if _, err := im.CommonArg(nil, kernel, arg); err != nil {
		return dst, err
	}
	k, err := im.kernel(kernel, arg, true)
	if err != nil {
		return dst, err
	}
	for _, r := range k.rects {
		dst = append(dst, cq.ArgTarget{NOC: r.NOC, Addr: k.commonAddr + uint16(4*arg), Dests: uint8(r.Dests)})
	}
	return dst, nil
}

// ArgOffset is the write offset that targets of arguments are relative to: a run sets it to the address of its slot.
const ArgOffset = offsetConfig

// ReadArgs changes the commands of a run so that it takes the arguments which cq.ReadArg commands before it name. The run must be
// [Variant.Inline]. [Image.AppendAgain] keeps the change.
func (im *Image) ReadArgs(run []byte, v Variant) error {
	at := im.MainOffset(v) + im.form(v).main.goWord - cq.AtGoWord - cq.AtForwarded
	if !v.Inline() || len(run) != im.runBytes(v) || at < 0 || !forwards(run[at]) {
		return fmt.Errorf("dispatch: program %q: its run of %d B takes no arguments that the device computes", im.name, len(run))
	}
	cq.Put8(run, at, uint8(cq.DispatchForwardWithArgs))
	return nil
}

func forwards(id byte) bool {
	return cq.DispatchID(id) == cq.DispatchForwardSubordinate || cq.DispatchID(id) == cq.DispatchForwardWithArgs
}
