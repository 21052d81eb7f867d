package graphs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/ops/graph/view"
)

type graphServeCmd struct {
	describedArg
	Listen string `help:"Address to serve on." default:"127.0.0.1:8710" placeholder:"HOST:PORT"`
}

// Run serves a report until ctx ends.
func (c *graphServeCmd) Run(ctx context.Context, s cli.Streams) error {
	r, err := cli.Until(ctx, c.read)
	if err != nil {
		return err
	}
	h, err := view.New(filepath.Base(c.Report), r)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("graph: serve: %w", err)
	}
	fmt.Fprintf(s.Out, "serving http://%s/\n", l.Addr())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("graph: serve: %w", err)
	case <-ctx.Done():
	}
	err = srv.Close() // pages are whole or come again
	if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return errors.Join(ctx.Err(), err)
}
