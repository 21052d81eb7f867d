package pipeline

import (
	"errors"
	"fmt"
)

var (
	// ErrNotCompiled is returned before Compile, or after a Compile that failed.
	ErrNotCompiled = errors.New("it is not compiled: call Compile first")
	// ErrAlreadyCompiled is returned when a pipeline is compiled again.
	ErrAlreadyCompiled = errors.New("it is compiled already")
	// ErrBusy is returned when a pipeline is used inside its own Run, or by two goroutines at once.
	ErrBusy = errors.New("it is in use: let Run end first")
	// ErrTooManyInputs is returned when more inputs are enqueued than outputs were preallocated.
	ErrTooManyInputs = errors.New("more inputs than preallocated outputs: call PopAll in between, or preallocate more")
)

// ConfigError says why a device can't run a pipeline's configuration.
type ConfigError struct {
	Config Config
	Why    string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("pipeline: new %q (%s): %s", e.Config.Name, e.Config.summary(), e.Why)
}

// MovedError is returned if L1Input could not be allocated again at the address in the model's
// programs.
type MovedError struct {
	Buffer    string
	Want, Got uint32 // Got is 0 without room
	Err       error
}

func (e *MovedError) Error() string {
	why := fmt.Sprintf("now it would be at %#x", e.Got)
	if e.Err != nil {
		why = e.Err.Error()
	}
	return fmt.Sprintf("L1 input %q was at %#x when the programs were loaded: %s: release everything that was taken from the scratch area after it before the model returns", e.Buffer, e.Want, why)
}

func (e *MovedError) Unwrap() error { return e.Err }

func (p *Pipeline) wrap(op string, err error) error {
	return fmt.Errorf("pipeline: %s %q: %w", op, p.config.Name, err)
}
