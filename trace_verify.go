package reprise

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/tracebuf"
)

// ErrNoResults is returned by Trace.CheckResults for a trace that was recorded here, or whose file has no results.
var ErrNoResults = errors.New("there are no results in its file to compare with")

// VerifyError says where the device's memory isn't what it should be.
type VerifyError struct {
	Trace  string
	What   string // "the commands", "the kernels of \"dense\"", "the results in \"scores\""
	Offset int    // of the first byte that differs, in bytes
	Differ int    // bytes that differ
	Size   int    // bytes that were compared
	Want   byte
	Got    byte
}

// Error implements error.
func (e *VerifyError) Error() string {
	return fmt.Sprintf("reprise: trace %q: %d of %d B of %s differ in device memory, from byte %#x on: it holds 0x%02x, want 0x%02x",
		e.Trace, e.Differ, e.Size, e.What, e.Offset, e.Got, e.Want)
}

// Verify reads back the commands and the kernels that replays use, and compares them with the host's copy. The error is
// a *VerifyError if they differ: something has written to the trace's memory.
func (t *Trace) Verify(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	const op = "verify"
	if err := t.readable(op); err != nil {
		return err
	}
	if err := t.flush(ctx); err != nil {
		return t.q.d.failed(fmt.Sprintf("%s trace %q", op, t.name), err)
	}
	if err := t.compare(ctx, op, "the commands", interleaved(t.ext), 0, t.commands()); err != nil {
		return err
	}
	for _, x := range t.progs {
		if err := t.compare(ctx, op, fmt.Sprintf("the kernels of %q", x.Name()), interleaved(x.bin), 0, x.image.Binary()); err != nil {
			return err
		}
	}
	return nil
}

// Inspect waits for the queue and reads back what lies in DRAM of the trace now, as commands with the names of their
// programs. It fails if these are no longer commands; Verify says what is different.
func (t *Trace) Inspect(ctx context.Context) (*tracebuf.Contents, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const op = "inspect"
	err := t.readable(op)
	if err == nil {
		err = t.flush(ctx)
	}
	im := *t.image
	if err == nil {
		im.Bytes = make([]byte, len(t.image.Bytes))
		iv := interleaved(t.ext)
		err = t.q.q.Read(ctx, &iv, 0, im.Bytes)
	}
	if err != nil {
		return nil, t.q.d.failed(fmt.Sprintf("%s trace %q", op, t.name), err)
	}
	c, err := tracebuf.Inspect(&im)
	if err != nil {
		return nil, fmt.Errorf("reprise: inspect trace %q: %w", t.name, err)
	}
	return c, nil
}

// CheckResults waits for the queue and compares what the buffers of a loaded trace hold with the results that are in its
// file, which a replay on the file's data gives. The error is a *VerifyError if they differ.
func (t *Trace) CheckResults(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	const op = "check results of"
	if err := t.readable(op); err != nil {
		return err
	}
	if len(t.results) == 0 {
		return fmt.Errorf("reprise: %s trace %q: %w", op, t.name, ErrNoResults)
	}
	for i := range t.results {
		r := &t.results[i]
		b := t.made[r.Buffer]
		if err := t.compare(ctx, op, fmt.Sprintf("the results in %q", b.name), b.iv, r.Offset, r.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// readable says whether the trace's memory can be read. Called with mu held.
func (t *Trace) readable(op string) error {
	if err := t.q.d.usable(op + " trace"); err != nil {
		return err
	}
	if t.released {
		return fmt.Errorf("reprise: %s trace %q: %w", op, t.name, ErrReleased)
	}
	return nil
}

// compare reads device memory and compares it.
func (t *Trace) compare(ctx context.Context, op, what string, iv dispatch.Interleaved, off int, want []byte) error {
	got := make([]byte, len(want))
	if err := t.q.q.Read(ctx, &iv, off, got); err != nil {
		return t.q.d.failed(fmt.Sprintf("%s trace %q", op, t.name), err)
	}
	if bytes.Equal(got, want) {
		return nil
	}
	v := &VerifyError{Trace: t.name, What: what, Offset: -1, Size: len(want)}
	for i := range want {
		if got[i] == want[i] {
			continue
		}
		if v.Differ++; v.Offset < 0 {
			v.Offset, v.Want, v.Got = off+i, want[i], got[i]
		}
	}
	return v
}
