package graph_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/ops/graph"
)

// levels.json has what TT-NN's extract_levelized_graph makes of the graphs beside it.
func TestLevelized(t *testing.T) {
	text, err := os.ReadFile("testdata/levels.json")
	if err != nil {
		t.Fatal(err)
	}
	var files map[string]map[string][]graph.Vertex
	if err := json.Unmarshal(text, &files); err != nil {
		t.Fatal(err)
	}
	for name, levels := range files {
		f, err := os.Open(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		r, err := graph.Decode(f, graph.Limits{})
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for level, want := range levels {
			n, err := strconv.Atoi(level)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, graph.Levelized(r.Graph, n)); diff != "" {
				t.Errorf("%s, level %d (-TT-NN +ours):\n%s", name, n, diff)
			}
		}
	}
}
