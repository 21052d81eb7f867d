package stream

import (
	"errors"
	"fmt"
)

// ErrDirection: the host read a stream that it writes, or the reverse.
var ErrDirection = errors.New("it goes the other way")

// ErrStale is wrapped by a *StaleError.
var ErrStale = errors.New("the device was recovered: call Reset")

// KernelError is a kernel's own error: stream_fail of a stream that the host reads, or stream_stop
// of one that it writes.
type KernelError struct {
	Stream  string
	Code    uint32
	Stopped bool // it reads no more
}

func (e *KernelError) Error() string {
	what := "the kernel failed"
	if e.Stopped {
		what = "the kernel reads no more"
	}
	return fmt.Sprintf("stream %q: %s: code %d", e.Stream, what, e.Code)
}

// SizeError is returned for a message that doesn't fit.
type SizeError struct {
	Stream string
	Size   int // of the message, in bytes
	Most   int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("stream %q: a message of %d B, at most %d B fit", e.Stream, e.Size, e.Most)
}

// DamagedError: the ring holds no message, because two kernels use one end, or something else has
// written to the memory. Reset makes the stream usable again.
type DamagedError struct {
	Stream   string
	Position uint32
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("stream %q: no message at position %#x: each end is for one kernel at a time", e.Stream, e.Position)
}

// StaleError is returned after [reprise.Device.Recover], which cut the kernels off. Reset makes the
// stream usable again.
type StaleError struct{ Stream string }

func (e *StaleError) Error() string { return fmt.Sprintf("stream %q: %v", e.Stream, ErrStale) }

func (e *StaleError) Unwrap() error { return ErrStale }

// MovedError: the recovery has pinned the stream's memory at another address. The stream is usable.
// Programs need the new [Stream.Args]; traces with them must be captured again.
type MovedError struct {
	Stream   string
	Was, Now uint64
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("stream %q: it was at NoC address %#x and is at %#x now: give its arguments to programs again", e.Stream, e.Was, e.Now)
}

// ConfigError says why a stream can't have a configuration.
type ConfigError struct {
	Stream string
	Why    string
}

func (e *ConfigError) Error() string { return fmt.Sprintf("stream: new %q: %s", e.Stream, e.Why) }

func (s *Stream) named(op string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *KernelError:
		e.Stream = s.name
	case *SizeError:
		e.Stream = s.name
	case *DamagedError:
		e.Stream = s.name
	case *StaleError:
	default:
		return fmt.Errorf("stream: %s %q: %w", op, s.name, err)
	}
	return err
}
