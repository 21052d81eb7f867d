package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every figure and the ratios are drawn, as pictures that decode and aren't blank.
func TestPlot(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	s := newSeries()
	for range 2000 {
		s.add(30 + rnd.ExpFloat64()*10)
	}
	s.end()
	f := &Figure{
		Family: "replay", Name: "submit", Params: []Param{param("programs", 1)}, Peers: replayPeers(),
		Ratios: []Ratio{{To: MemcpySame, Ns: 10, Value: 3.1}, {To: NonTemporal, Ns: 4, Value: 8}},
	}
	s.figure(f)
	same := newSeries() // a distribution of one value
	same.add(5)
	same.end()
	g := &Figure{Family: "baseline", Name: "timer"}
	same.figure(g)
	dir := filepath.Join(t.TempDir(), "new")
	if err := (&Report{Baselines: []*Figure{g}, Figures: []*Figure{f}}).Plot(dir); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, file.Name())
		b, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(file.Name()) == ".svg" {
			if n := elements(t, b); n < 10 {
				t.Errorf("%s has %d elements", file.Name(), n)
			}
			continue
		}
		img, err := png.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", file.Name(), err)
		}
		blue := 0
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				r, _, bl, _ := img.At(x, y).RGBA()
				if r>>8 < 0x40 && bl>>8 > 0xA0 {
					blue++
				}
			}
		}
		if blue < 100 {
			t.Errorf("%s: %d pixels have the colour of what is drawn", file.Name(), blue)
		}
	}
	want := []string{
		"baseline_timer.png", "baseline_timer.svg", "ratios.png", "ratios.svg",
		"replay_submit_programs=1.png", "replay_submit_programs=1.svg",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// elements parses XML and counts its elements.
func elements(t *testing.T, b []byte) int {
	t.Helper()
	n := 0
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := tok.(xml.StartElement); ok {
			n++
		}
	}
}
