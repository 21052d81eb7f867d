package mesh

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/mesh/topology"
)

var updatePicture = flag.Bool("update-picture", false, "write the golden picture")

func graphOf(t *testing.T, m chip.Machine) *topology.Graph {
	t.Helper()
	g := &topology.Graph{Arch: m.Arch}
	for i := range m.Chips {
		c := &m.Chips[i]
		top := expect.Value(chip.New(m.Arch, c.Harvesting))(t)
		out := topology.Chip{Name: fmt.Sprintf("0000:%02x:00.0", i+1), Serial: fmt.Sprintf("%016X", c.Serial())}
		for xy := range top.Tiles(chip.Ethernet) {
			if !top.Tile(xy).Harvested {
				out.Ports = append(out.Ports, topology.Port{Channel: len(out.Ports), Tile: xy})
			}
		}
		g.Chips = append(g.Chips, out)
	}
	for _, l := range m.Links {
		a, b := topology.End{Chip: l.Chip, Channel: l.Channel}, topology.End{Chip: l.PeerChip, Channel: l.PeerChannel}
		for _, e := range [][2]topology.End{{a, b}, {b, a}} {
			p := &g.Chips[e[0].Chip].Ports[e[0].Channel]
			p.State, p.Peer = topology.Up, &e[1]
		}
	}
	g.Join()
	return g
}

func drawn(t *testing.T, g *topology.Graph) string {
	t.Helper()
	var b bytes.Buffer
	devtest.Must(t, Draw(&b, g))
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatalf("the picture isn't XML: %v", err)
		}
	}
}

func TestDrawMachines(t *testing.T) {
	for _, m := range chip.Machines() {
		g := graphOf(t, m)
		svg := drawn(t, g)
		ports, harvested := 0, 0
		for i, c := range g.Chips {
			ports += len(c.Ports)
			harvested += ethernetTiles(g.Arch) - len(c.Ports)
			if !strings.Contains(svg, fmt.Sprintf(`font-weight="bold">%d</text>`, i)) || !strings.Contains(svg, ">"+c.Name+"<") {
				t.Errorf("%s: no chip %d", m.Name, i)
			}
		}
		want := map[string]int{`class="chip"`: len(g.Chips), `class="port"`: ports, `class="harvested"`: harvested}
		for what, n := range want {
			expect.Equal(t, strings.Count(svg, what), n, "%s: of %s", m.Name, what)
		}
		var links []string
		for _, l := range g.Links {
			links = append(links, fmt.Sprintf("%d eth%d - %d eth%d: up", l.A.Chip, l.A.Channel, l.B.Chip, l.B.Channel))
		}
		got := regexp.MustCompile(`\d+ eth\d+ - \d+ eth\d+: up`).FindAllString(svg, -1)
		slices.Sort(links)
		slices.Sort(got)
		d := cmp.Diff(links, got)
		expect.Equal(t, d, "", "%s", m.Name)
		expect.Equal(t, len(got), len(m.Links), "%s", m.Name)
		apart(t, m.Name, svg)
	}
}

func apart(t *testing.T, name, svg string) {
	t.Helper()
	type label struct {
		x0, x1, y0, y1 float64
		text           string
	}
	var all []label
	number := func(s string) float64 {
		return expect.Value(strconv.ParseFloat(s, 64))(t)
	}
	box := regexp.MustCompile(`viewBox="0 0 (\d+) (\d+)"`).FindStringSubmatch(svg)
	for _, m := range regexp.MustCompile(`<text[^>]*? x="(\d+)" y="(\d+)"([^>]*)>([^<]+)</text>`).FindAllStringSubmatch(svg, -1) {
		size := 11.
		if strings.Contains(m[3], `font-size="15"`) {
			size = 15
		}
		wide := size * 0.55 * float64(len(m[4]))
		x := number(m[1])
		switch {
		case strings.Contains(m[3], "middle"):
			x -= wide / 2
		case strings.Contains(m[3], `"end"`):
			x -= wide
		}
		y := number(m[2])
		l := label{x, x + wide, y - size*0.75, y + 2, m[4]}
		if l.x0 < 0 || l.x1 > number(box[1]) || l.y0 < 0 || l.y1 > number(box[2]) {
			t.Errorf("%s: %q leaves the picture", name, l.text)
		}
		for _, o := range all {
			if l.x0 < o.x1 && o.x0 < l.x1 && l.y0 < o.y1 && o.y0 < l.y1 {
				t.Errorf("%s: %q lies on %q", name, l.text, o.text)
			}
		}
		all = append(all, l)
	}
	if len(all) < 4 {
		t.Errorf("%s: %d labels", name, len(all))
	}
}

func TestDrawFaults(t *testing.T) {
	g := graphOf(t, chip.N300())
	g.Links[0].State = topology.Down
	g.Chips[0].Ports[g.Links[0].A.Channel].State = topology.Down
	g.Chips[1].Problem = fmt.Errorf("<no answer>")
	svg := drawn(t, g)
	apart(t, "n300", svg)
	for _, want := range []string{">1 of 2<", `stroke-dasharray`, "can't be read", ": down", "&lt;no answer&gt;"} {
		if !strings.Contains(svg, want) {
			t.Errorf("it doesn't say %q", want)
		}
	}
	const golden = "testdata/n300.svg"
	if *updatePicture {
		devtest.Must(t, os.WriteFile(golden, []byte(svg), 0o666))
	}
	want := expect.Value(os.ReadFile(golden))(t)
	expect.NoDiff(t, svg, string(want), "the picture, -update-picture renews it")

	star := &topology.Graph{Arch: chip.Blackhole} // five chips around one, one with a link to itself: no grid
	for i := range 6 {
		star.Chips = append(star.Chips, topology.Chip{Name: fmt.Sprint("chip ", i)})
		if i > 0 {
			star.Links = append(star.Links, topology.Link{A: topology.End{Chip: i, Channel: 1}, B: topology.End{Channel: i},
				State: topology.Up})
		}
	}
	star.Links = append(star.Links, topology.Link{A: topology.End{Chip: 5, Channel: 2}, B: topology.End{Chip: 5, Channel: 3},
		State: topology.Training})
	svg = drawn(t, star)
	apart(t, "star", svg)
	expect.Equal(t, strings.Count(svg, `class="link"`), 6, "lines")
	drawn(t, &topology.Graph{})
}
