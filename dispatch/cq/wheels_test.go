package cq

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/dispatch/abi"
)

type metalStruct struct{ name, fields string }

// readStructs reads testdata/structs.txt.
func readStructs(t *testing.T) map[string]metalStruct {
	text, err := os.ReadFile("testdata/structs.txt")
	must(t, err)
	all := map[string]metalStruct{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] != "#" {
			all[f[0]] = metalStruct{f[1], strings.Join(f[2:], " ")}
		}
	}
	return all
}

// Each wheel has a revision whose ids, fields and flags are those of the wheel's header.
func TestWheels(t *testing.T) {
	text, err := os.ReadFile("testdata/wheels.json")
	must(t, err)
	table, err := abi.ReadTable(text)
	must(t, err)
	structs := readStructs(t)
	for arch, releases := range table {
		for _, r := range releases {
			for _, wheel := range r.Wheels {
				v := revisionOf(wheel)
				checkIDs(t, structs, arch+" "+wheel, &v.prefetch, r.Facts, "CQ_PREFETCH_CMD_")
				checkIDs(t, structs, arch+" "+wheel, &v.dispatch, r.Facts, "CQ_DISPATCH_CMD_", "CQ_DISPATCH_")
				for name, want := range map[string]uint64{"WAIT_MEMORY": v.wait.memory, "CLEAR_MEMORY": v.wait.clearMemory,
					"WAIT_STREAM": v.wait.stream, "CLEAR_STREAM": v.wait.clearStream} {
					if got := r.Facts["CQ_DISPATCH_CMD_WAIT_FLAG_"+name]; uint64(got) != want {
						t.Errorf("%s %s: flag %s of WAIT is %#x, want %#x", arch, wheel, name, want, got)
					}
				}
				length := v.dispatch[DispatchWritePackedLarge].list.fields[2]
				if _, less := r.Facts["CQDispatchWritePackedLargeSubCmd.length_minus1"]; less != (length.as == asLess1) {
					t.Errorf("%s %s: lengths less one: %v", arch, wheel, less)
				}
			}
		}
	}
}

func revisionOf(wheel string) *Revision {
	version := func(s string) (out []int) {
		for part := range strings.SplitSeq(s, ".") {
			n, _ := strconv.Atoi(part)
			out = append(out, n)
		}
		return out
	}
	all := Revisions()
	for _, v := range slices.Backward(all) {
		first := v.Name
		if first == Pinned {
			first = "0.65.0"
		}
		if slices.Compare(version(first), version(wheel)) <= 0 {
			return v
		}
	}
	return all[0]
}

func checkIDs(t *testing.T, structs map[string]metalStruct, wheel string, fs *forms, facts abi.Facts, prefixes ...string) {
	t.Helper()
	for id := range stockIDs {
		f := &fs[id]
		if f.name == "" || strings.HasSuffix(f.name, "_PACKED_H") {
			continue
		}
		known := false
		for _, prefix := range prefixes {
			if got, ok := facts[prefix+f.name]; ok {
				known = true
				if got != uint32(id) {
					t.Errorf("%s: %s is %d, want %d", wheel, f.name, id, got)
				}
			}
		}
		later := f.name == "SET_SUB_DEVICE_WORKER_COUNTS" || f.name == "RT_PROFILER_FLUSH" // came within a revision
		if !known && !later {
			t.Errorf("%s: %s isn't in the header", wheel, f.name)
		}
		s, ok := structs[f.name]
		if !ok || !known {
			continue
		}
		for _, pair := range strings.Fields(s.fields) {
			field, cField, _ := strings.Cut(pair, "=")
			want, has := facts[s.name+"."+cField]
			if slot := find(f.fields, field); has != (slot != nil) || has && slot.at != int(want)+1 {
				t.Errorf("%s: %s of %s: %+v, want an offset of %d (%v)", wheel, field, f.name, slot, want+1, has)
			}
		}
		if size, want := f.size(), 1+facts[s.name]; int(want) > size || want > HeaderSize && size == HeaderSize {
			t.Errorf("%s: %s has %d B, its metalStruct %d", wheel, f.name, size, want)
		}
	}
}
