//go:build long

package view

import (
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/ops/graph"
)

var shots = flag.String("shots", "", "a folder to which the test in a browser puts pictures of the pages, to be looked at")

// browser returns the path of Debian's Chromium, or skips the test.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium: apt-get install chromium")
	return ""
}

// shot returns a screenshot of a page in a headless browser that can only reach this machine.
func shot(t *testing.T, chromium, url string) image.Image {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	file := filepath.Join(dir, "page.png")
	c := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--window-size=1400,2200", "--screenshot="+file, url)
	c.WaitDelay = 10 * time.Second
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", url, err, out)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if *shots != "" {
		name := strings.NewReplacer("/", "", "?", "", "=", "-", ",", "-").Replace(strings.SplitN(url, "/", 4)[3])
		if err := os.Rename(file, filepath.Join(*shots, "page-"+name+".png")); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// area counts the pixels of a color.
func area(img image.Image, c color.RGBA) int {
	n := 0
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			if r, g, b, _ := img.At(x, y).RGBA(); uint8(r>>8) == c.R && uint8(g>>8) == c.G && uint8(b>>8) == c.B {
				n++
			}
		}
	}
	return n
}

// rgb parses a color such as #rrggbb.
func rgb(t *testing.T, s string) color.RGBA {
	t.Helper()
	c := color.RGBA{A: 255}
	if _, err := fmt.Sscanf(s, "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
		t.Fatal(err)
	}
	return c
}

// A browser shows the pictures without requests to other hosts: lines and circular buffers have their colors, those of other cores
// aren't on a core's page, and the data flow has its tensors.
func TestInABrowser(t *testing.T) {
	chromium := browser(t)
	r := graph.NewRecorder(graph.Config{BufferPages: true})
	b := &graph.Buffer{ID: 1, Type: graph.L1, Size: 4096, PageSize: 2048, Address: 1024, Pages: func() []graph.Page {
		return []graph.Page{{Address: 1024, PageAddr: 1024, PageSize: 2048, CoreX: 0}, {Address: 1024, PageAddr: 1024, PageSize: 2048, CoreX: 1}}
	}}
	x := &graph.Tensor{ID: 5, Shape: []int{32, 32}, Buffer: b}
	r.Begin("ttnn::to_device")
	r.Allocate(b)
	r.End(x)
	r.Begin("ttnn::add", graph.Arg{Text: "Tensor()", Tensors: []*graph.Tensor{x, x}})
	r.AllocateCircular(graph.CircularBuffer{Size: 1024, Address: 8192, Cores: []graph.CoreRange{{X0: 1, X1: 1}}})
	r.End()
	p, err := r.Finish()
	if err != nil {
		t.Fatal(err)
	}
	h := handler(t, p)
	var mu sync.Mutex
	var failed []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/favicon.ico" { // browsers ask for that by themselves
			http.NotFound(w, q)
			return
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, q)
		if answer.Code != http.StatusOK {
			mu.Lock()
			failed = append(failed, fmt.Sprintf("%s: %d", q.URL, answer.Code))
			mu.Unlock()
		}
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	defer s.Close()
	for path, want := range map[string]map[string]bool{
		"/?core=1,0": {circularFill: true, l1Color: true, circularColor: true},
		"/?core=0,0": {circularFill: false, l1Color: true},
		"/flow":      {tensorFill: true},
	} {
		img := shot(t, chromium, s.URL+path)
		for c, there := range want {
			if n := area(img, rgb(t, c)); (n > 50) != there {
				t.Errorf("%s: %d pixels of %s, want them: %v", path, n, c, there)
			}
		}
	}
	if len(failed) > 0 {
		t.Errorf("it asked for what isn't there: %q", failed)
	}
}
