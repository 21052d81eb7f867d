package cq

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/dispatch/abi"
)

// structs are tt-metal's structures of commands, and their fields by this package's names. Offsets
// there begin after the id, but for those of list entries.
var structs = map[string]struct {
	name   string
	fields string // ours=theirs; several of theirs where wheels differ
}{
	"RELAY_LINEAR":                 {"CQPrefetchRelayLinearCmd", "noc=noc_xy_addr addr=addr length=length length_hi=length_hi"},
	"RELAY_LINEAR_H":               {"CQPrefetchRelayLinearHCmd", "noc=noc_xy_addr addr=addr length=length"},
	"RELAY_PAGED":                  {"CQPrefetchRelayPagedCmd", "start=start_page base=base_addr page_size=page_size pages=pages"},
	"RELAY_PAGED_PACKED":           {"CQPrefetchRelayPagedPackedCmd", "count=count total=total_length stride=stride"},
	"RELAY_INLINE":                 {"CQPrefetchRelayInlineCmd", "to=dispatcher_type length=length stride=stride"},
	"EXEC_BUF":                     {"CQPrefetchExecBufCmd", "base=base_addr log2_page=log_page_size pages=pages"},
	"PAGED_TO_RINGBUFFER":          {"CQPrefetchPagedToRingbufferCmd", "log2_page=log2_page_size start=start_page advance=wp_offset_update base=base_addr length=length"},
	"SET_RINGBUFFER_OFFSET":        {"CQPrefetchSetRingbufferOffsetCmd", "offset=offset write=update_wp"},
	"RELAY_RINGBUFFER":             {"CQPrefetchRelayRingbufferCmd", "count=count stride=stride"},
	"RELAY_LINEAR_PACKED":          {"CQPrefetchRelayLinearPackedCmd", "count=count noc=noc_xy_addr total=total_length stride=stride"},
	"WRITE_LINEAR":                 {"CQDispatchWriteCmd", "mcast=num_mcast_dests offset_index=write_offset_index noc=noc_xy_addr addr=addr length=length"},
	"WRITE_LINEAR_H_HOST":          {"CQDispatchWriteHostCmd", "event=is_event length=length"},
	"WRITE_PAGED":                  {"CQDispatchWritePagedCmd", "memory=is_dram start=start_page base=base_addr page_size=page_size pages=pages"},
	"WRITE_PACKED":                 {"CQDispatchWritePackedCmd", "flags=flags count=count offset_index=write_offset_index size=size addr=addr"},
	"WRITE_PACKED_LARGE":           {"CQDispatchWritePackedLargeCmd", "type=type count=count alignment=alignment offset_index=write_offset_index"},
	"WRITE_PACKED_LARGE_UNICAST":   {"CQDispatchWritePackedLargeUnicastCmd", "type=type count=count alignment=alignment offset_index=write_offset_index"},
	"WAIT":                         {"CQDispatchWaitCmd", "flags=flags stream=stream addr=addr count=count"},
	"SET_WRITE_OFFSET":             {"CQDispatchSetWriteOffsetCmd", "count=offset_count host_id=program_host_id"},
	"SEND_GO_SIGNAL":               {"CQDispatchGoSignalMcastCmd", "go=go_signal multicast=multicast_go_offset multicasts=num_mcast_txns unicasts=num_unicast_txns noc_start=noc_data_start_index wait_count=wait_count wait_stream=wait_stream"},
	"NOTIFY_SUBORDINATE_GO_SIGNAL": {"CQDispatchNotifySubordinateGoSignalCmd", "wait=wait mask=index_bitmask"},
	"SET_NUM_WORKER_SEMS":          {"CQDispatchSetNumWorkerSemsCmd", "num=num_worker_sems"},
	"SET_GO_SIGNAL_NOC_DATA":       {"CQDispatchSetGoSignalNocDataCmd", "count=num_words"},
	"SET_SUB_DEVICE_WORKER_COUNTS": {"CQDispatchSetSubDeviceWorkerCountsCmd", "count=num_sub_devices"},
	"RT_PROFILER_FLUSH":            {"CQDispatchRtProfilerFlushCmd", "wait_count=wait_count wait_stream=wait_stream"},
}

// Each wheel has a revision whose ids, fields and flags are those of the wheel's header.
func TestWheels(t *testing.T) {
	text, err := os.ReadFile("testdata/wheels.json")
	must(t, err)
	table, err := abi.ReadTable(text)
	must(t, err)
	for arch, releases := range table {
		for _, r := range releases {
			for _, wheel := range r.Wheels {
				v := revisionOf(wheel)
				checkIDs(t, arch+" "+wheel, &v.prefetch, r.Facts, "CQ_PREFETCH_CMD_")
				checkIDs(t, arch+" "+wheel, &v.dispatch, r.Facts, "CQ_DISPATCH_CMD_", "CQ_DISPATCH_")
				for name, want := range map[string]uint64{"WAIT_MEMORY": v.wait.memory, "CLEAR_MEMORY": v.wait.clearMemory,
					"WAIT_STREAM": v.wait.stream, "CLEAR_STREAM": v.wait.clearStream} {
					if got := r.Facts["CQ_DISPATCH_CMD_WAIT_FLAG_"+name]; uint64(got) != want {
						t.Errorf("%s %s: flag %s of WAIT is %#x, want %#x", arch, wheel, name, want, got)
					}
				}
				if _, less := r.Facts["CQDispatchWritePackedLargeSubCmd.length_minus1"]; less != (v.dispatch[DispatchWritePackedLarge].list.fields[2].as == asLess1) {
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

func checkIDs(t *testing.T, wheel string, fs *forms, facts abi.Facts, prefixes ...string) {
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
			ours, theirs, _ := strings.Cut(pair, "=")
			want, has := facts[s.name+"."+theirs]
			if slot := find(f.fields, ours); has != (slot != nil) || has && slot.at != int(want)+1 {
				t.Errorf("%s: %s of %s: %+v, want an offset of %d (%v)", wheel, ours, f.name, slot, want+1, has)
			}
		}
		if size, want := f.size(), 1+facts[s.name]; int(want) > size || want > HeaderSize && size == HeaderSize {
			t.Errorf("%s: %s has %d B, its structure %d", wheel, f.name, size, want)
		}
	}
}
