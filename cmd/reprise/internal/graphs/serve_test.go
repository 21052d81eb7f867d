package graphs

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
)

func TestGraphServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	devtest.Must(t, os.WriteFile(path, []byte(`{"version":1,"graph":[{"counter":0,"node_type":"function_start","params":{"name":"ttnn::add"}}]}`), 0o666))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	c := graphServeCmd{describedArg: describedArg{reportArg: reportArg{path}}, Listen: "127.0.0.1:0"}
	go func() { ended <- c.Run(ctx, cli.Streams{Out: w, Err: io.Discard}) }()
	line := make([]byte, 200)
	n, err := r.Read(line)
	devtest.Must(t, err)
	url := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "serving "))
	resp := expect.Value(http.Get(url))(t)
	page, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "ttnn::add") {
		t.Errorf("%s: %v, %v", url, resp.Status, err)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	expect.Fails(t, <-ended, context.Canceled, "the context's end")
	c.Report += "x"
	expect.Fails(t, c.Run(t.Context(), cli.Streams{Out: io.Discard}), os.ErrNotExist, "a report that isn't there")
}
