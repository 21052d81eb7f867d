package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/sim"
)

// The program has TT-NN's bits.
func TestDigits(t *testing.T) {
	python := os.Getenv("REPRISE_TTNN_PYTHON")
	if python == "" {
		t.Skip("REPRISE_TTNN_PYTHON names no Python with a ttnn wheel")
	}
	name := filepath.Join(t.TempDir(), "digits.reprise")
	record := exec.CommandContext(t.Context(), "go", "run", "../../cmd/reprise", "ttnn", "record", "--python", python, "-o", name,
		"digits.py", "../digits")
	record.Env = append(os.Environ(), "TT_METAL_LOGGER_LEVEL=Error")
	said, err := record.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	found := regexp.MustCompile(`(?s)\n(1795 of 1797 digits right, scores [0-9a-f]{16}\n).*base firmware of [^\n]*: (/[^\n]*)\n`).
		FindStringSubmatch("\n" + string(said))
	if found == nil {
		t.Fatalf("the script printed %s", said)
	}
	dev, err := reprise.Open(t.Context(), sim.Blackhole(), reprise.WithFirmware(found[2]))
	devtest.Must(t, err)
	t.Cleanup(func() { _ = dev.Close(context.WithoutCancel(t.Context())) })
	trace, err := os.Open(name)
	devtest.Must(t, err)
	defer trace.Close()
	var b bytes.Buffer
	devtest.Must(t, classify(t.Context(), &b, dev, trace))
	if got := b.String(); !strings.HasSuffix(got, "\n"+found[1]) || strings.Count(got, "  says ") != 2 {
		t.Errorf("printed %s\nTT-NN %s", got, found[1])
	}
}
