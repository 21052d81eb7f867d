package reprise

import "fmt"

// Arg names a runtime argument of a program: a word that a kernel reads with get_arg_val or get_common_arg_val.
type Arg struct {
	Kernel string  // name of the kernel in its Program, where no other kernel may have it
	Index  int     // from 0
	Common bool    // a common argument; otherwise a unique one
	Cores  []Range // whose unique argument; nil for those of all cores that have some
}

func (a *Arg) on(c Core) bool {
	if a.Cores == nil {
		return true
	}
	for _, r := range a.Cores {
		if r.Contains(c) {
			return true
		}
	}
	return false
}

// words returns where arguments lie in the commands of one run.
func (x *Executable) words(args []Arg) ([]int, error) {
	var at []int
	for i := range args {
		a := &args[i]
		var err error
		if a.Common {
			at, err = x.image.CommonArg(at, a.Kernel, a.Index)
		} else {
			at, err = x.image.UniqueArg(at, a.Kernel, a.Index, a.on)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("program %q: no argument is named", x.Name())
	}
	return at, nil
}

// SetArg gives a runtime argument another value for the runs and captures from now on. What is in a queue or a trace
// already keeps the value that it has; see [Recorder.Param] for arguments of traces. It writes nothing to the device.
func (x *Executable) SetArg(a Arg, v uint32) error { return x.setWords([]Arg{a}, v, nil) }

// SetBuffer makes arguments the address of another buffer, for the runs and captures from now on. The buffer is held
// until the executable is closed.
func (x *Executable) SetBuffer(b *Buffer, args ...Arg) error {
	if x != nil {
		if err := b.checkDevice(x.d); err != nil {
			return fmt.Errorf("reprise: set buffer of executable %q: %w", x.Name(), err)
		}
	}
	return x.setWords(args, 0, b)
}

func (x *Executable) setWords(args []Arg, v uint32, b *Buffer) error {
	if x == nil {
		return fmt.Errorf("reprise: set arguments: %w", x.checkDeviceLocked(nil))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.checkDeviceLocked(x.d)
	var at []int
	if err == nil {
		at, err = x.words(args)
	}
	if err == nil && b != nil {
		v = b.Addr()
		err = x.hold(b)
	}
	if err != nil {
		return fmt.Errorf("reprise: set arguments of executable %q: %w", x.Name(), err)
	}
	x.image.SetWords(at, v)
	return nil
}

// SetArgs gives all unique arguments of a kernel other values, for the runs and captures from now on: set is called with
// each core that has some, row by row, and with the arguments that it has, which it changes in place. It must not keep the
// slice, nor use the executable. What is in a queue or a trace already keeps the values that it has. SetArgs writes nothing
// to the device and costs little more than going through the arguments.
func (x *Executable) SetArgs(kernel string, set func(c Core, args []uint32)) error {
	if set == nil {
		return fmt.Errorf("reprise: set arguments: no function that sets them: it is nil")
	}
	return x.setAll(func() error { return x.image.SetArgs(kernel, set) })
}

// SetCommonArgs is SetArgs for all common arguments of a kernel, of which there must be as many as it was loaded with.
func (x *Executable) SetCommonArgs(kernel string, args []uint32) error {
	return x.setAll(func() error { return x.image.SetCommonArgs(kernel, args) })
}

func (x *Executable) setAll(set func() error) error {
	if x == nil {
		return fmt.Errorf("reprise: set arguments: %w", x.checkDeviceLocked(nil))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.checkDeviceLocked(x.d)
	if err == nil {
		err = set()
	}
	if err != nil {
		return fmt.Errorf("reprise: set arguments of executable %q: %w", x.Name(), err)
	}
	return nil
}

// hold keeps a buffer as long as the executable lives.
func (x *Executable) hold(b *Buffer) error {
	for _, have := range x.bufs {
		if have == b {
			return nil
		}
	}
	if err := x.d.mem.Hold(b.owned()); err != nil {
		return err
	}
	x.holds, x.bufs = append(x.holds, b.owned()), append(x.bufs, b)
	return nil
}
