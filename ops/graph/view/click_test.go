//go:build long || hours

package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops/graph"
)

func TestClickThroughAReport(t *testing.T) {
	b := openReport(t, transformer(t, 24))
	rows := "document.querySelectorAll('#main tbody tr').length"

	// Operations: 24 layers of nine, 23 that nothing takes, an embedding, the last product and the
	// loop.
	b.wait("document.querySelector('#ops')")
	b.is(rows, fmt.Sprint(24*9+23+3))
	b.shot("app-ops")
	b.eval("(() => { const s = document.getElementById('search'); s.value = 'gelu 4096'; s.dispatchEvent(new Event('input')); })()")
	b.is(rows, "24")
	b.is("document.getElementById('count').textContent.startsWith('24 of ')", "true")
	b.eval("(() => { const s = document.getElementById('search'); s.value = ''; s.dispatchEvent(new Event('input')); document.getElementById('nested').click(); })()")
	b.is(rows, b.eval("JSON.parse(document.getElementById('report').textContent).ops.length"))
	b.click("#ops th:nth-child(6)") // by the peak of L1, the largest first
	b.is("(() => { const v = [...document.querySelectorAll('#ops tbody tr td:nth-child(6)')].map(c => parseFloat(c.textContent)); return v.every((x, i) => i === 0 || v[i - 1] >= x); })()", "true")
	b.eval("document.getElementById('nested').click()")

	// An operation, its tensor, and back to who made it.
	b.eval("[...document.querySelectorAll('#ops a')].find(a => a.textContent === 'ttnn::add').click()")
	b.wait("document.body.dataset.page === 'op'")
	b.is("document.querySelector('h2').textContent", "ttnn::add")
	b.is("document.getElementById('stack').textContent.includes('view_test.go')", "true")
	b.is("document.getElementById('args').textContent.startsWith('0: Tensor(')", "true")
	b.is("document.querySelector('#source .this').textContent.includes('r.Begin(')", "true")
	// It keeps its result, 16 KiB of each core; the circular buffers are those of the program
	// before.
	b.is("[...document.querySelectorAll('.tile')].map(e => e.innerText.replace('\\n', ' ')).slice(1).join(', ')",
		"L1 before 608 KiB, L1 at its peak 624 KiB, L1 after 624 KiB")
	b.shot("app-op")
	b.click("table.plain a")
	b.wait("document.body.dataset.page === 'tensor'")
	const under = "(h => [...[...document.querySelectorAll('h3')].find(e => e.textContent === h).nextElementSibling.querySelectorAll('a')].map(a => a.textContent).join(' '))"
	b.is(under+"('Made by')", "ttnn::add ttnn::prim::add tt::tt_metal::create_device_tensor")
	b.is(under+"('Taken by')", "ttnn::layer_norm ttnn::prim::layer_norm ttnn::add ttnn::prim::add")
	b.is("document.getElementById('main').innerText.includes('1×1×512×1024')", "true")
	b.shot("app-tensor")

	b.visit("#/tensors")
	b.is("document.querySelectorAll('#tensors tbody tr').length > 300", "true")
	b.visit("#/tensor/99999")
	b.is("document.getElementById('main').innerText", "There is no tensor 99999 in this report.")

	// Over time: functions, memory in use and addresses, late deallocations in a list. The axis has
	// units, and what is zoomed by dragging in one plot is so in all.
	b.visit("#/memory")
	b.wait("document.querySelectorAll('.uplot canvas').length === 5")
	b.is("document.getElementById('l1').getAttribute('aria-description')", "capacity 1.33 MiB")
	b.is("document.getElementById('dram').getAttribute('aria-description')", "capacity 12 GiB, off the scale")
	b.is("document.querySelectorAll('#late tbody tr').length", "24")
	const label = "document.getElementById('l1-addresses').getAttribute('aria-label')"
	b.is("/ from 0 ms to [0-9.]+ ms$/.test("+label+")", "true")
	b.mouse("mouseMoved", "#l1-addresses .u-over", .5, .93)
	b.shot("app-memory")
	whole := b.eval(label)
	b.mouse("mousePressed", "#functions .u-over", .4, .5)
	b.mouse("mouseMoved", "#functions .u-over", .45, .5)
	b.mouse("mouseReleased", "#functions .u-over", .45, .5)
	b.wait(label + " !== " + quoted(whole))
	b.is("document.body.dataset.page", "memory")
	b.shot("app-memory-zoomed")
	b.mouse("mouseMoved", "#functions .u-over", .5, .05)
	b.is("/^[0-9.]+ ms \\(event \\d+\\)|^ttnn::|^loop/.test(document.getElementById('where').textContent)", "true")
	b.mouse("mouseMoved", "#l1-addresses .u-over", .12, .93)
	b.is("/^CB [0-9.]+ KiB at 0x/.test(document.getElementById('where').textContent)", "true")
	b.mouse("mousePressed", "#l1-addresses .u-over", .12, .93)
	b.mouse("mouseReleased", "#l1-addresses .u-over", .12, .93)
	b.wait("['op', 'tensor'].includes(document.body.dataset.page)")
	b.visit("#/memory")
	b.eval("(() => { const s = document.getElementById('axis'); s.value = 'events'; s.dispatchEvent(new Event('change')); })()")
	b.wait(label + " && !/ms/.test(" + label + ")")

	// Cores: all of them, and what is on one.
	b.visit("#/cores")
	b.is("document.querySelectorAll('#grid rect.core').length", "64")
	b.click("#grid [data-core='1,0']")
	b.is("document.querySelector('#core h3').textContent.startsWith('Core 1,0: ')", "true")
	b.is("document.querySelectorAll('#oncore tbody tr').length > 100", "true")
	b.wait("document.querySelectorAll('#oncore-addresses canvas').length === 1")
	b.shot("app-cores")
	b.visit("#/core/99,99")
	b.is("document.getElementById('main').innerText", "There is no core 99,99 (the grid has 8 by 8) in this report.")

	// Data flow: a loop around it, edges that skip operations, an operation that opens, and levels.
	b.visit("#/flow")
	b.wait("document.querySelectorAll('#flow .op').length === 218")
	b.is("document.querySelectorAll('#flow .group.loop').length", "1")
	b.is("document.querySelectorAll('#flow .edge.skip').length >= 47", "true")
	b.is(`(() => { // no edge crosses the box of an operation that it doesn't join
		const boxes = [...document.querySelectorAll('#flow .op rect')].map(r => r.getBoundingClientRect());
		let hits = 0;
		for (const p of document.querySelectorAll('#flow .edge.skip path')) {
			const m = p.getScreenCTM(), n = p.getTotalLength();
			for (let k = .15; k < .85; k += .05) {
				const q = p.getPointAtLength(n * k).matrixTransform(m);
				if (boxes.some(b => b.left + 2 < q.x && q.x < b.right - 2 && b.top + 2 < q.y && q.y < b.bottom - 2)) hits++;
			}
		}
		return hits;
	})()`, "0")
	// A model is a column, not a diagonal, and begins where the page begins.
	b.is("document.querySelector('#flow svg > g').getBBox().width < 1400", "true")
	b.is("(() => { const v = document.getElementById('flow').getBoundingClientRect(), r = document.querySelector('#flow .op').getBoundingClientRect(); return v.left < r.left && r.right < v.right && v.top < r.top && r.bottom < v.bottom; })()", "true")
	b.shot("app-flow")
	// What is before a loop or after it is drawn outside of it.
	b.is(`(() => {
		const f = document.querySelector('#flow .group.loop rect').getBoundingClientRect(), ops = [...document.querySelectorAll('#flow .op rect')].map(e => e.getBoundingClientRect());
		return ops.filter(o => o.bottom < f.top || o.top > f.bottom).length;
	})()`, "2")
	// Edges between operations have shapes.
	b.is("(() => { const shapes = [...document.querySelectorAll('#flow .edge text')].map(e => e.textContent); return [shapes.length, shapes.every(s => /^\\d+(×\\d+)+$/.test(s)), shapes.filter(s => s === '1×1×512×3072').length, shapes.filter(s => s === '1×1×512×4096').length].join(); })()", "265,true,24,24") // eleven in each layer, and the last product's
	// A source is right above what takes it.
	b.is(`(() => {
		const r = JSON.parse(document.getElementById('report').textContent), far = [0, 0];
		for (const s of document.querySelectorAll('#flow .src')) {
			const at = s.querySelector('rect').getBoundingClientRect(), k = at.height / 24;
			const near = r.tensors[s.dataset.tensor].takers.map(o => document.querySelector('#flow .op[data-op="' + o + '"] rect')).filter(Boolean).map(e => e.getBoundingClientRect()).map(o => [(o.top - at.bottom) / k, Math.abs(o.left + o.width / 2 - at.left - at.width / 2) / k]);
			if (near.length !== 1) return 'a source of ' + near.length + ' operations';
			if (near[0][0] <= 0) return 'a source below its operation';
			near[0].forEach((d, i) => { far[i] = Math.max(far[i], d); });
		}
		return far[0] < 80 && far[1] < 168 ? 'beside' : far.join(); // less than a rank and the loop's title, less than a box
	})()`, "beside")
	// The wheel zooms around the mouse, and dragging moves.
	const place = "(() => { const m = document.querySelector('#flow svg > g').transform.baseVal.consolidate().matrix, v = document.getElementById('flow'); return JSON.stringify([m.a, m.e, m.f, v.clientWidth, v.clientHeight]); })()"
	moved := func(do func()) (before, after [5]float64) {
		old := b.eval(place)
		do()
		b.wait(place + " !== " + quoted(old))
		devtest.Must(t, errors.Join(json.Unmarshal([]byte(old), &before), json.Unmarshal([]byte(b.eval(place)), &after)))
		return before, after
	}
	was, is := moved(func() { b.wheel("#flow", -200) })
	for i, side := range was[3:] { // what is in the middle stays there
		if d := (side/2-was[1+i])/was[0] - (side/2-is[1+i])/is[0]; is[0] < 1.2*was[0] || math.Abs(d) > 2 {
			t.Errorf("the wheel: %v, then %v", was, is)
		}
	}
	was, is = moved(func() {
		b.mouse("mousePressed", "#flow", .5, .5)
		b.mouse("mouseMoved", "#flow", .6, .7)
		b.mouse("mouseReleased", "#flow", .6, .7)
	})
	if is[0] != was[0] || math.Abs(is[1]-was[1]-.1*was[3]) > 2 || math.Abs(is[2]-was[2]-.2*was[4]) > 2 {
		t.Errorf("dragged: %v, then %v", was, is)
	}
	b.shot("app-flow-zoomed")
	b.click("#fit")
	b.click("#flow .op.inner text.more")
	b.wait("document.querySelectorAll('#flow .group').length === 2")
	b.shot("app-flow-open")
	b.eval("(() => { const s = document.getElementById('level'); s.value = '2'; s.dispatchEvent(new Event('change')); })()")
	b.wait("document.querySelectorAll('#flow .group').length > 200")
	b.shot("app-flow-level-2")
}

func TestClickShowsWhatLiesInBuffers(t *testing.T) {
	r := read(t, "tt-metal/sharded_add_in_place.json")
	b := openReport(t, r)
	b.is("document.querySelector('.tile b').textContent", "96 KiB")
	b.is("document.getElementById('twice').textContent", "96 KiB of it are circular buffers in buffers, counted twice")
	b.shot("in-place-ops")
}

func TestClickThroughTheDemo(t *testing.T) {
	browser(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	file, digits := filepath.Join(dir, "demo.json"), filepath.Join(dir, "digits.csv") // few, because a capture takes long
	devtest.Must(t, os.WriteFile(digits, []byte(strings.Repeat(strings.Repeat("0,5,16,3,", 16)+"0\n", 128)), 0o666))
	if out, err := exec.CommandContext(ctx, "go", "run", "../../../cmd/reprise", "demo", "--input", digits, "--batch", "32", "--graph",
		file).CombinedOutput(); err != nil {
		t.Fatalf("reprise demo: %v\n%s", err, out)
	}
	f, err := os.Open(file)
	devtest.Must(t, err)
	defer f.Close()
	r, err := graph.Decode(f, graph.Limits{})
	devtest.Must(t, err)
	b := openReport(t, r)
	b.is("[...document.querySelectorAll('#ops th')].map(h => h.textContent).includes('on the device')", "true")
	b.is("[...document.querySelectorAll('#ops tbody tr td:nth-child(6)')].filter(c => / (µs|ms)$/.test(c.textContent)).length > 3", "true")
	b.is("document.getElementById('chip')", "<nil>")
	b.shot("demo-ops")
	b.visit("#/memory")
	b.wait("document.querySelectorAll('.uplot canvas').length === 5")
	for _, id := range []string{"functions", "l1", "l1-addresses", "dram", "dram-addresses"} {
		b.is("/ from [0-9.]+ (ms|s) to [0-9.]+ (ms|s)$/.test(document.getElementById("+quoted(id)+").getAttribute('aria-label'))", "true")
	}
	b.shot("demo-memory")
	b.visit("#/flow")
	b.wait("document.querySelectorAll('#flow .op').length > 3")
	b.shot("demo-flow")
}

func TestClickThroughAMesh(t *testing.T) {
	r := graph.NewRecorder(graph.Config{})
	for d := range 4 {
		r.Device(graph.Device{ID: int64(d), Arch: "wormhole_b0", GridX: 8, GridY: 8, WorkerL1Size: 1499136, FirstCircularBuffer: 103712,
			DRAMChannels: 12, DRAMSizePerChannel: 1 << 30})
	}
	r.Begin("ttnn::all_gather")
	for d := range 4 {
		size := int64(d+1) << 16
		r.Allocate(&graph.Buffer{ID: uint64(d + 1), Device: d, Type: graph.L1, Size: 64 * size, MaxPerBank: size, PageSize: 2048,
			Address: 0x100000})
		r.AllocateCircular(graph.CircularBuffer{Device: d, Size: 4096, Address: 103712, Cores: []graph.CoreRange{{X1: d}}})
	}
	r.End()
	p := finish(t, r)
	b := openReport(t, p)
	choose := func(chip string) {
		b.eval("(() => { const s = document.getElementById('chip'); s.value = " + quoted(chip) + "; s.dispatchEvent(new Event('change')); })()")
	}
	b.visit("#/cores")
	b.is("document.querySelectorAll('#chip option').length", "4")
	b.is("document.getElementById('chip').value", "3") // its L1 is the fullest
	b.is("document.querySelector('#grid [data-core=\"3,0\"] title').textContent", "core 3,0\n260 KiB")
	choose("1")
	b.is("document.querySelector('#grid [data-core=\"1,0\"] title').textContent", "core 1,0\n132 KiB")
	b.is("document.querySelector('#grid [data-core=\"2,0\"] title').textContent", "core 2,0\n128 KiB")
	b.shot("mesh-cores")
	b.visit("#/memory")
	b.wait("document.querySelectorAll('.uplot canvas').length === 3")
	b.is("document.getElementById('chip').value", "1")
	b.shot("mesh-memory")
}
