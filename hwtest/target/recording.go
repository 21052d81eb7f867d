package target

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/session"
)

// parseSession makes the device of session:FILE. The file is read now, and played from its start by
// each opening.
func parseSession(name, path string) (*Device, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{Value: name, Why: "the recording can't be read: " + inner(err).Error(), Hint: "reprise demo --record FILE makes one",
			Err: err}
	}
	s, err := session.Read(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, &Error{Value: name, Why: err.Error(), Hint: "reprise demo --record FILE makes one", Err: err}
	}
	return &Device{Name: "session_" + filepath.Base(path), Given: name, Kind: Recording, open: func() kmd.Target { return s.Player() }}, nil
}

// inner is an error of the system without the path, which is beside it.
func inner(err error) error {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
