package allocator

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sample(t *testing.T) *Allocator {
	a := mustNew(t, Config{
		DRAMBanks: 2, DRAMBase: 64, DRAMEnd: 64 * kib, DRAMAlign: 64, L1Banks: 3, L1Base: 8 * kib, L1End: 32 * kib, L1Align: 16, L1Small: 4 * kib,
	})
	var pc [1]uintptr
	runtime.Callers(1, pc[:])
	mustAllocate(t, a, Request{Size: 8 * kib, PageSize: kib, Owner: "weights", Tag: "buffer", Site: pc[0]})
	gone := mustAllocate(t, a, Request{Size: 2 * kib, PageSize: kib})
	held := mustAllocate(t, a, Request{Size: 4 * kib, PageSize: kib, Owner: "in <\"&>"})
	mustAllocate(t, a, Request{Kind: Trace, Size: 2 * kib, PageSize: kib, Owner: "decode", Tag: "trace"})
	mustAllocate(t, a, Request{Kind: L1, Size: 3 * kib, PageSize: kib, Owner: "act"})
	mustAllocate(t, a, Request{Kind: L1Small, Size: 256, PageSize: 64, Shards: 2, Owner: "halo"})
	must(t, errors.Join(a.Hold(held), a.Free(held), a.Free(gone)))
	return a
}

func TestMapText(t *testing.T) {
	got := sample(t).Map().String()
	got = got[:strings.Index(got, "map_test.go:")+len("map_test.go:")] + got[strings.Index(got, "map_test.go:")+len("map_test.go:")+2:]
	const want = `DRAM: 2 banks of [0x40,0x10000): 6.0 KiB of 64 KiB allocated in 2 extents (peak 7.0 KiB), 57 KiB free in 2 holes, largest 56 KiB, fragmentation 2%
trace: 2 banks of [0xfc00,0x10000): 1.0 KiB of 64 KiB allocated in 1 extents (peak 1.0 KiB), 57 KiB free in 2 holes, largest 56 KiB, fragmentation 2%
  0x00000040 0x00001040    4.0 KiB  DRAM weights (buffer) at allocator/map_test.go:
  0x00001040 0x00001440    1.0 KiB  free
  0x00001440 0x00001c40    2.0 KiB  DRAM in <"&> freed, held 1 times
  0x00001c40 0x0000fc00     56 KiB  free
  0x0000fc00 0x00010000    1.0 KiB  trace decode (trace)

L1: 3 banks of [0x2000,0x7000): 1.0 KiB of 20 KiB allocated in 1 extents (peak 1.0 KiB), 19 KiB free in 1 holes, largest 19 KiB, fragmentation 0%
  0x00002000 0x00006c00     19 KiB  free
  0x00006c00 0x00007000    1.0 KiB  L1 act

L1 small: 3 banks of [0x7000,0x8000): 128 B of 4.0 KiB allocated in 1 extents (peak 128 B), 3.9 KiB free in 1 holes, largest 3.9 KiB, fragmentation 0%
  0x00007000 0x00007f80    3.9 KiB  free
  0x00007f80 0x00008000      128 B  L1 small halo
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var b bytes.Buffer
	if err := sample(t).Map().WriteText(&b); err != nil || b.Len() < len(want) {
		t.Errorf("%d B, %v", b.Len(), err)
	}
}

func TestMapJSON(t *testing.T) {
	var b bytes.Buffer
	must(t, sample(t).Map().WriteJSON(&b))
	var got struct {
		Regions []struct {
			Name    string
			Stats   []map[string]any
			Entries []map[string]any
		}
	}
	must(t, json.Unmarshal(b.Bytes(), &got))
	if len(got.Regions) != 3 || got.Regions[0].Name != "DRAM and trace" || got.Regions[2].Stats[0]["kind"] != "L1_SMALL" {
		t.Fatalf("%s", b.String())
	}
	first := got.Regions[0].Entries[0]
	if site, _ := first["site"].(string); !strings.Contains(site, "map_test.go:") {
		t.Errorf("call site %v", first["site"])
	}
	delete(first, "site")
	want := map[string]any{"start": 64.0, "end": 4160.0, "kind": "DRAM", "owner": "weights", "tag": "buffer", "size": 8192.0,
		"page_size": 1024.0, "banks": 2.0}
	noDiff(t, first, want, "first")
	if free := got.Regions[0].Entries[1]; free["free"] != true {
		t.Errorf("%v", free)
	}
}

func TestMapCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := mustNew(t, drawSmall(t))
		churn(t, a, "before", 60)
		m := a.Map()
		sum := uint64(0)
		for _, r := range m.Regions {
			addr := r.Stats[0].Low
			for i, e := range r.Entries {
				if e.Start != addr || e.End <= e.Start || i > 0 && e.Free && r.Entries[i-1].Free {
					t.Fatalf("%s: range %d is [%#x,%#x), after %#x", r.Name, i, e.Start, e.End, addr)
				}
				addr = e.End
			}
			if high := r.Stats[0].High; addr != high {
				t.Fatalf("%s ends at %#x, want %#x", r.Name, addr, high)
			}
			for _, s := range r.Stats {
				sum += uint64(s.Extents)
			}
		}
		if sum != uint64(len(a.all())) {
			t.Fatalf("%d extents, want %d", sum, len(a.all()))
		}
		var b bytes.Buffer
		must(t, m.WriteSVG(&b))
		wellFormed(t, b.Bytes())
	})
}

func wellFormed(t fataler, b []byte) (rects int) {
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return rects
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "rect" {
			rects++
		}
	}
}

func TestMapSVG(t *testing.T) {
	var b bytes.Buffer
	must(t, sample(t).Map().WriteSVG(&b))
	if n := wellFormed(t, b.Bytes()); n != 9 || !strings.Contains(b.String(), "DRAM in &lt;&#34;&amp;&gt; freed") {
		t.Errorf("%d ranges in\n%s", n, b.String())
	}
	a := mustNew(t, Config{DRAMBanks: 1, DRAMEnd: gib, DRAMAlign: 64})
	for i := range 20_000 {
		e := mustAllocate(t, a, Request{Size: 64, Owner: fmt.Sprint(i)})
		if i%2 == 0 {
			mustFree(t, a, e)
			mustAllocate(t, a, Request{Size: 128})
		}
	}
	b.Reset()
	must(t, a.Map().WriteSVG(&b))
	if n := wellFormed(t, b.Bytes()); n > 2*svgWidth {
		t.Errorf("%d ranges are drawn", n)
	}
}

func TestReports(t *testing.T) {
	m := sample(t).Map()
	write := func(f func(io.Writer) error) string {
		var b strings.Builder
		must(t, f(&b))
		return b.String()
	}
	const l1 = "This report indicates available space for interleaving L1 buffers\n" +
		", Largest Contiguous Free Block (KB), Total Free L1 Space (KB)\n" +
		",19,57\n"
	noDiff(t, write(m.WriteL1Summary), l1, "l1_usage_summary")
	const summary = ", Total Allocatable Size (KB), Total Allocated (KB), Total Free (KB), Largest Free Block (KB)\n" +
		"DRAM,63,6,56,55\n" +
		"L1,20,1,19,19\n" +
		"L1_SMALL,4,0,3,3\n" +
		"TRACE,63,1,56,55\n"
	noDiff(t, write(m.WriteSummary), summary, "memory_usage_summary")
	r := csv.NewReader(strings.NewReader(write(m.WriteDetailed)))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	must(t, err)
	var got []string
	for _, row := range rows[:16] {
		if len(row) > 13 {
			row[13] = ""
		}
		got = append(got, strings.Join(row, ","))
	}
	want := []string{
		",DRAM and trace", ",Total allocatable (KB):,127", ",Total allocated (KB):,14", ",Total free (KB):,113",
		"Bank ID:,0", ",,Total allocatable (KB):,63", ",,Total free (KB):,56", ",,Total allocated (KB):,7", ",,Largest free block (KB):,55",
		",,,blockID,address,size,prevID,nextID,allocated,kind,owner,tag,call site",
		",,,0,64,4096,none,1,yes,DRAM,weights,buffer,", ",,,1,4160,1024,0,2,no,,,,", `,,,2,5184,2048,1,3,yes,DRAM,in <"&>,,`,
		",,,3,7232,57280,2,4,no,,,,", ",,,4,64512,1024,3,none,yes,trace,decode,trace,", "Bank ID:,1",
	}
	for i := range got {
		if cut := strings.Index(got[i], "buffer,"); cut >= 0 {
			got[i] = got[i][:cut+len("buffer,")]
		}
	}
	noDiff(t, got, want, "detailed_memory_usage")
	if n := strings.Count(write(m.WriteDetailed), "Bank ID:"); n != 2+3+3 {
		t.Errorf("%d banks", n)
	}
}
