package graph_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops/graph"
)

// levels.json has what TT-NN's extract_levelized_graph makes of the graphs beside it.
func TestLevelized(t *testing.T) {
	text, err := os.ReadFile("testdata/levels.json")
	devtest.Must(t, err)
	var files map[string]map[string][]graph.Vertex
	devtest.Must(t, json.Unmarshal(text, &files))
	for name, levels := range files {
		f, err := os.Open(filepath.Join("testdata", name))
		devtest.Must(t, err)
		r, err := graph.Decode(f, graph.Limits{})
		f.Close()
		devtest.Must(t, err)
		for level, want := range levels {
			n, err := strconv.Atoi(level)
			devtest.Must(t, err)
			graph.Equal(t, want, graph.Levelized(r.Graph, n), "%s, level %d", name, n)
		}
	}
}
