package graph

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/expect"
)

// Captures of TT-NN are kept by a round trip, and give what TT-NN's own functions do.
func TestCaptures(t *testing.T) {
	for _, dir := range []string{"testdata", "testdata/tt-metal", "testdata/ttnn/*"} {
		captures(t, dir)
	}
}

func TestTTNNCaptures(t *testing.T) {
	python := os.Getenv("REPRISE_TTNN_PYTHON")
	if python == "" {
		t.Skip("REPRISE_TTNN_PYTHON names no Python with a ttnn wheel")
	}
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), "go", "run", "../../cmd/reprise", "ttnn", "run", "--chip", "wormhole", "--python", python,
		"testdata/ttnn/captures.py", dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	captures(t, dir)
}

func captures(t *testing.T, dir string) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*.answers.json"))
	if len(paths) == 0 {
		t.Fatal("none:", dir)
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			answers := expect.Value(os.ReadFile(path))(t)
			text := expect.Value(os.ReadFile(strings.Replace(path, ".answers", "", 1)))(t)
			r := expect.Value(Decode(bytes.NewReader(text), Limits{}))(t)
			got := plain(t, r)
			if text[0] == '[' {
				got = got.(map[string]any)["graph"]
			}
			kept(t, "", plain(t, json.RawMessage(text)), got, r.Dropped)
			kept(t, "", plain(t, json.RawMessage(answers)), plain(t, figures(r.Graph)), nil)
		})
	}
}

// figures has the keys of captures.py.
func figures(g *Graph) any {
	mid, out, _ := CountTensors(g)
	outputs, _ := OutputTensors(g)
	slices.Sort(outputs)
	info, _ := Outputs(g, 64)
	operations, levels := []string{}, map[int][]Vertex{}
	for i := range 10 {
		levels[i] = Levelized(g, i)
	}
	for _, c := range g.Calls() {
		if c.Depth == 0 && inPython(&g.Nodes[c.Start]) {
			operations = append(operations, c.Name)
		}
	}
	return map[string]any{"calltrace": CallTrace(g), "peak_l1": PeakL1(g), "tensors": []int{mid, out}, "outputs": outputs, "output_info": info,
		"per_core": PerCore(g, 64), "levels": levels, "durations": Durations(g),
		"total": g.Nodes[len(g.Nodes)-1].Duration, "operations": operations}
}

func plain(t *testing.T, v any) (out any) {
	expect.Must(t, json.Unmarshal(expect.Value(json.Marshal(v))(t), &out))
	return out
}

// kept wants what want has in got, or its key in dropped.
func kept(t *testing.T, key string, want, got any, dropped map[string]int) {
	switch want := want.(type) {
	case map[string]any:
		got, _ := got.(map[string]any)
		for k, v := range want {
			if dropped[key+k] == 0 {
				kept(t, key+k+".", v, got[k], dropped)
			}
		}
	case []any:
		got, _ := got.([]any)
		if len(got) != len(want) {
			t.Fatalf("%s: %v, want %v", key, got, want)
		}
		for i, v := range want {
			kept(t, key, v, got[i], dropped)
		}
	default:
		if want != nil && !cmp.Equal(got, want) {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}
