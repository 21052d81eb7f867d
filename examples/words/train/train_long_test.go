//go:build hours

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// The committed trainer makes the committed weights, on every architecture that runs this test.
func TestTrainingGivesTheCommittedWeights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights")
	if err := run(io.Discard, path, defaults()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("../../..", file))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes that differ from the %d of %s; run go run ./examples/words/train", len(got), len(want), file)
	}
}
