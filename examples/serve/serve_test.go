package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends one request, which no later request helps along.
func ask(t *testing.T, url string, first float32) (status int, body string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(fmt.Sprintf("[%v, 2, 3]", first)))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer r.Body.Close()
	p, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return r.StatusCode, strings.TrimSpace(string(p))
}

func answers(t *testing.T, url string) {
	t.Helper()
	var g sync.WaitGroup
	for i := range 12 {
		g.Go(func() {
			if _, got := ask(t, url, float32(i)); got != fmt.Sprintf("[%v,0]", 8.25+float32(i)/2) {
				t.Errorf("input %d: %s", i, got)
			}
		})
	}
	g.Wait()
	if _, got := ask(t, url, 1); got != "[8.75,0]" {
		t.Errorf("alone: %s", got)
	}
}

func TestServesAgainAfterAFailure(t *testing.T) {
	ctx := t.Context()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	must(t, err)
	h, err := newServer(ctx, dev)
	must(t, err)
	s := httptest.NewServer(h)
	answers(t, s.URL)
	im, err := kernels.Prebuilt(dev.Arch(), kernels.Store)
	must(t, err)
	wild, err := dev.Load(ctx, &reprise.Program{Name: "wild", Kernels: []reprise.Kernel{{
		Name: "store", Image: im, Cores: []chip.Range{chip.Single(0, 0)}, Args: func(chip.Core) []uint32 { return []uint32{0x7FFF0000, 1, 1} },
	}}})
	must(t, err)
	must(t, dev.Queue(0).Run(ctx, wild)) // it stops the chip, whose memory the reset clears
	if status, text := ask(t, s.URL, 1); status != http.StatusServiceUnavailable {
		t.Errorf("of a chip that stopped: %d %s", status, text)
	}
	answers(t, s.URL)
	s.Close()
	must(t, dev.Close(ctx))
}

// The program builds and runs as a user's module, which has nothing of this repository but a
// replace.
func TestModuleOfItsOwn(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	root, err := filepath.Abs("../..")
	must(t, err)
	dir := t.TempDir()
	for to, from := range map[string]string{"main.go": "main.go", "go.sum": root + "/go.sum"} {
		p, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, to), p, 0o666))
	}
	const path = "github.com/reprise-tt/reprise"
	mod := fmt.Sprintf("module example.com/serve\n\ngo 1.26\n\nrequire %s v0.0.0\n\nreplace %[1]s => %q\n", path, root)
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666))
	build := exec.Command("go", "build", "-o", "serve", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	serve := exec.Command(filepath.Join(dir, "serve"))
	serve.Env, serve.Stderr = append(os.Environ(), "ADDR=127.0.0.1:0"), os.Stderr
	out, err := serve.StdoutPipe()
	must(t, err)
	must(t, serve.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "serving on ")
	if !ok {
		t.Fatalf("it says %q", line)
	}
	answers(t, "http://"+addr)
	must(t, serve.Process.Signal(os.Interrupt))
	must(t, serve.Wait())
}
