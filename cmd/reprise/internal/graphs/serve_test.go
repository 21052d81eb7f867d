package graphs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
)

// The printed address serves the report until the context ends.
func TestGraphServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(path, []byte(`{"version":1,"graph":[{"counter":0,"node_type":"function_start","params":{"name":"ttnn::add"}}]}`),
		0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	c := graphServeCmd{describedArg: describedArg{reportArg: reportArg{path}}, Listen: "127.0.0.1:0"}
	go func() { ended <- c.Run(ctx, cli.Streams{Out: w, Err: io.Discard}) }()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "serving "))
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "ttnn::add") {
		t.Errorf("%s: %v, %v", url, resp.Status, err)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's end", err)
	}
	c.Report += "x"
	if err := c.Run(t.Context(), cli.Streams{Out: io.Discard}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a report that isn't there: %v", err)
	}
}
