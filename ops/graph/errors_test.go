package graph_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/ops/graph"
)

func TestDecodeSaysWhere(t *testing.T) {
	head := "{\n  \"version\": 1,\n  \"devices\": [],\n"
	for name, tt := range map[string]struct {
		text         string
		line, column int
		says         []string
	}{
		"no value": {head + "  \"metadata\": {\"a\": ,},\n  \"graph\": []\n}\n", 4, 21,
			[]string{"decode: line 4, column 21: want", `\"a\": ,}`, "invalid character ','"}},
		"another type": {head + "  \"buffer_pages\": 7,\n  \"graph\": []\n}\n", 4, 19, []string{"line 4, column 19: want", "buffer_pages",
			"cannot unmarshal number"}},
		"a node":       {"[\n  {\"counter\": 0},\n  {\"counter\": x}\n]", 3, 15, []string{"line 3, column 15: ", "counter"}},
		"cut off":      {head, 3, 17, []string{"line 3, column 17: ", "unexpected end"}},
		"not a report": {"7", 1, 1, []string{"line 1, column 1: want a report's JSON object, found \"7\""}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := graph.Decode(strings.NewReader(tt.text), graph.Limits{})
			var f *graph.FormatError
			if !errors.As(err, &f) || f.Line != tt.line || f.Column != tt.column {
				t.Fatalf("%v, want one of line %d, column %d", err, tt.line, tt.column)
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v doesn't say %q", err, s)
				}
			}
			if tt.line > 1 && strings.Contains(err.Error(), "version") {
				t.Errorf("%v shows the beginning of the file", err)
			}
		})
	}
}

type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestErrorsNameThePackageOnce(t *testing.T) {
	for name, refuse := range map[string]func() error{
		"a graph alone": func() error { return new(graph.Graph).UnmarshalJSON([]byte("7")) },
		"reading": func() error {
			_, err := graph.Decode(io.MultiReader(strings.NewReader("["), failing{}), graph.Limits{})
			return err
		},
		"no outputs":  func() error { _, err := graph.OutputTensors(&graph.Graph{}); return err },
		"no level":    func() error { return sample().DotFlow(io.Discard, 0) },
		"report":      func() error { return timed().Encode(full{}) },
		"performance": func() error { return timed().WritePerformance(full{}) },
		"device log":  func() error { return timed().WriteDeviceLog(full{}) },
	} {
		switch err := refuse(); {
		case err == nil:
			t.Errorf("%s: no error", name)
		case strings.Count(err.Error(), "graph: ") != 1 || strings.Contains(err.Error(), ": :"):
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
