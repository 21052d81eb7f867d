package reprise

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/allocator"
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
func (t *Trace) Verify(ctx context.Context) error { return t.verify(ctx) }

func (t *Trace) verify(ctx context.Context) error {
	const op = "verify"
	leave, err := t.enter(op)
	if err != nil {
		return err
	}
	defer leave()
	for _, t := range t.parts {
		if err := t.flush(ctx); err != nil {
			return t.q.d.failed(fmt.Sprintf("%s trace %q", op, t.name), err)
		}
		if err := t.compareCommands(ctx, op, t.commands()); err != nil {
			return err
		}
		for _, x := range t.programs {
			if err := t.compare(op, t.label(fmt.Sprintf("the kernels of %q", x.Name())), 0, x.image.Binary(), t.reads(ctx, x.bin)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Inspect waits for the queues and reads back what lies in DRAM of each part now, as commands with the names of their
// programs. It fails if these are no longer commands; Verify says what is different.
func (t *Trace) Inspect(ctx context.Context) ([]*tracebuf.Contents, error) {
	const op = "inspect"
	leave, err := t.enter(op)
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []*tracebuf.Contents
	for _, p := range t.parts {
		c, err := p.inspect(ctx, op)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (t *part) inspect(ctx context.Context, op string) (*tracebuf.Contents, error) {
	err := t.flush(ctx)
	im := *t.image
	if err == nil {
		im.Bytes = make([]byte, len(t.image.Bytes))
		err = t.reads(ctx, t.ext)(0, im.Bytes)
	}
	if err != nil {
		return nil, t.q.d.failed(fmt.Sprintf("%s trace %q", op, t.name), err)
	}
	c, err := tracebuf.Inspect(&im)
	if err != nil {
		return nil, fmt.Errorf("reprise: %s trace %q: %w", op, t.name, err)
	}
	return c, nil
}

// CheckResults waits for the queues and compares what the buffers of a loaded trace hold with the results that are in its
// file, which a replay on the file's data gives. The error is a *VerifyError if they differ.
func (t *Trace) CheckResults(ctx context.Context) error {
	const op = "check results of"
	leave, err := t.enter(op)
	if err != nil {
		return err
	}
	defer leave()
	none := true
	for i := range t.calls {
		parts := t.partsOn(t.calls[i].d)
		none = none && len(parts[0].results) == 0
		if err := checkResults(ctx, op, parts); err != nil {
			return err
		}
	}
	if none {
		return fmt.Errorf("reprise: %s trace %q: %w", op, t.name, ErrNoResults)
	}
	return nil
}

// checkResults compares the results on a device.
func checkResults(ctx context.Context, op string, parts []*part) error {
	first := parts[0]
	for _, p := range parts[1:] { // the reads wait for the first part's queue
		if err := p.q.await(ctx); err != nil {
			return p.q.d.failed(fmt.Sprintf("%s trace %q", op, p.name), err)
		}
	}
	for i := range first.results {
		r := &first.results[i]
		b := first.fileBuffers[r.Buffer]
		read := func(off int, dst []byte) error { return b.read(ctx, first.q.q, off, dst) }
		if err := first.compare(op, fmt.Sprintf("the results in %q", b.name), r.Offset, r.Bytes, read); err != nil {
			return err
		}
	}
	return nil
}

// reads reads an interleaved extent.
func (t *part) reads(ctx context.Context, e allocator.Extent) func(off int, dst []byte) error {
	iv := interleaved(e)
	return func(off int, dst []byte) error { return t.q.q.Read(ctx, &iv, off, dst) }
}

// compareCommands compares the commands in DRAM.
func (t *part) compareCommands(ctx context.Context, op string, want []byte) error {
	return t.compare(op, t.label("the commands"), 0, want, t.reads(ctx, t.ext))
}

// compare reads device memory from byte off on and compares it.
func (t *part) compare(op, what string, off int, want []byte, read func(off int, dst []byte) error) error {
	got := make([]byte, len(want))
	if err := read(off, got); err != nil {
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
