package debug

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/tracebuf"
)

// ErrNoResults is returned by CheckResults for a trace without results in a file.
var ErrNoResults = errors.New("there are no results in its file to compare with")

// VerifyError says where device memory has changed.
type VerifyError struct {
	Trace  string
	What   string
	Offset int
	Differ int // bytes that differ
	Size   int
	Want   byte
	Got    byte
}

func (e *VerifyError) Error() string {
	return fmt.Sprintf("debug: trace %q: %d of %d B of %s differ in device memory, from byte %#x on: it holds 0x%02x, want 0x%02x",
		e.Trace, e.Differ, e.Size, e.What, e.Offset, e.Got, e.Want)
}

// Verify compares the commands and the kernels of replays in device memory with the host's copy.
// The error is a *VerifyError if they differ.
func (d *Debugger) Verify(ctx context.Context) error {
	return d.t.Inside(ctx, "verify", func(m Memory) error { return Compare(ctx, d.t.Name(), m.Regions()) })
}

// CheckResults waits for the queues and compares the buffers of a loaded trace with the results in
// its file, of a replay on the file's data. The error is a *VerifyError if they differ.
func (d *Debugger) CheckResults(ctx context.Context) error {
	const op = "check results of"
	return d.t.Inside(ctx, op, func(m Memory) error {
		results := m.Results()
		if len(results) == 0 {
			return ErrNoResults
		}
		return Compare(ctx, d.t.Name(), results)
	})
}

// Inspect waits for the queues and reads back each part from DRAM. It fails if these are no longer
// commands; Verify says what differs.
func (d *Debugger) Inspect(ctx context.Context) ([]*tracebuf.Contents, error) {
	var out []*tracebuf.Contents
	err := d.t.Inside(ctx, "inspect", func(m Memory) error {
		for i := range d.parts {
			im, err := m.Image(ctx, i)
			if err != nil {
				return err
			}
			c, err := tracebuf.Inspect(im)
			if err != nil {
				return err
			}
			out = append(out, c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Compare compares device memory with its expected contents. The error is a *VerifyError for the
// first region that differs.
func Compare(ctx context.Context, trace string, regions []Region) error {
	for i := range regions {
		r := &regions[i]
		got := make([]byte, len(r.Want))
		if err := r.Read(ctx, got); err != nil {
			return err
		}
		if bytes.Equal(got, r.Want) {
			continue
		}
		first, n := differ(r.Want, got)
		return &VerifyError{Trace: trace, What: r.What, Offset: r.Offset + first, Differ: n, Size: len(r.Want), Want: r.Want[first],
			Got: got[first]}
	}
	return nil
}
