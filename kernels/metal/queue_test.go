package metal

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/reprise-tt/reprise/dispatch/abi"
)

func compiled(t *testing.T, source string, flags ...string) []byte {
	t.Helper()
	gcc, err := exec.LookPath("riscv64-unknown-elf-gcc")
	if err != nil {
		t.Skip("no cross compiler: install gcc-riscv64-unknown-elf")
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.c"), filepath.Join(dir, "out.elf")
	must(t, os.WriteFile(in, []byte(source), 0o600))
	args := append([]string{"-O2", "-march=rv32im", "-mabi=ilp32", "-nostdlib", "-Wl,--emit-relocs", in, "-o", out}, flags...)
	if text, err := exec.CommandContext(t.Context(), gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	file, err := os.ReadFile(out)
	must(t, err)
	return file
}

const constantsSource = `
typedef unsigned short prefetch_q_entry_type;
static const unsigned prefetch_q_base = 104512;
static const unsigned long long pcie_noc_xy = 0x1000613000000000ull;
static const unsigned mask = 0xFFFFFFFFu;
static const _Bool both = 1;
volatile unsigned out;
static prefetch_q_entry_type entry;
void _start(void) {
	static const unsigned inside = 7;
	out = prefetch_q_base + (unsigned)(pcie_noc_xy >> 36) + mask + inside + both + entry;
}`

func TestReadConstants(t *testing.T) {
	got, err := ReadConstants(bytes.NewReader(compiled(t, constantsSource, "-g")))
	want := Constants{"prefetch_q_base": 104512, "pcie_noc_xy": 0x1000613000000000, "mask": 0xFFFFFFFF, "both": 1, fetchEntryType: 2}
	must(t, err)
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s is %#x, want %#x", name, got[name], v)
		}
	}
	if _, ok := got["inside"]; ok {
		t.Error("a constant of a function is among those of the file")
	}
	fails(t, second(ReadConstants(bytes.NewReader(compiled(t, constantsSource)))), ErrNoDebugInfo, "without -g")
}

func FuzzReadConstants(f *testing.F) {
	for _, file := range [][]byte{nil, []byte("\x7fELF"), bytes.Repeat([]byte{0xFF}, 200)} {
		if _, err := ReadConstants(bytes.NewReader(file)); err == nil {
			f.Errorf("% x: no error", file)
		}
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) { _, _ = ReadConstants(bytes.NewReader(file)) })
}

func queue(base uint64) QueueKernels {
	hd := Constants{"is_d_variant": 1, "is_h_variant": 1}
	p := maps.Clone(hd)
	maps.Copy(p, Constants{
		"my_noc_xy": 142, "downstream_noc_xy": 206, "dispatch_s_noc_xy": 206,
		"prefetch_q_base": 104512, "prefetch_q_size": 3068, fetchEntryType: 2, "prefetch_q_rd_ptr_addr": 104128,
		"prefetch_q_pcie_rd_ptr_addr": 104132,
		"cmddat_q_base":               107584, "cmddat_q_size": 262144, "scratch_db_base": 369728, "scratch_db_size": 131072,
		"ringbuffer_size":         1 << 20,
		"my_downstream_cb_sem_id": 0, "my_dispatch_s_cb_sem_id": 2, "my_downstream_sync_sem_id": 1, "downstream_cb_sem_id": 0,
		"downstream_dispatch_s_cb_sem_id": 1,
		"downstream_cb_base":              106496, "downstream_cb_log_page_size": 12, "downstream_cb_pages": 128,
		"dispatch_s_buffer_base": 630784, "dispatch_s_buffer_size": 32768, "dispatch_s_cb_log_page_size": 8,
		"pcie_base": base + 256, "pcie_size": 805310208,
	})
	d := maps.Clone(hd)
	maps.Copy(d, Constants{
		"my_noc_xy": 206, "upstream_noc_xy": 142, "split_prefetch": 0, "distributed_dispatcher": 0, "pcie_noc_xy": 0x1000613000000000,
		"dispatch_cb_base": 106496, "dispatch_cb_log_page_size": 12, "dispatch_cb_pages": 128, "dispatch_cb_blocks": 4,
		"my_dispatch_cb_sem_id": 0, "upstream_dispatch_cb_sem_id": 0, "upstream_sync_sem": 1,
		"dev_completion_q_wr_ptr": 104144, "dev_completion_q_rd_ptr": 104160, "dispatch_s_sync_sem_base_addr": 104208,
		"command_queue_base_addr": base, "completion_queue_base_addr": base + 805310464, "completion_queue_size": 268431360,
		"host_completion_q_wr_ptr": 128,
		"mcast_go_signal_addr":     880, "first_stream_used": 48, "max_num_worker_sems": 8, "worker_mcast_grid": 529101,
		"num_worker_cores_to_mcast":         110,
		"packed_write_max_unicast_sub_cmds": 110, "CQ_DISPATCH_CMD_WAIT_FLAG_WAIT_STREAM": 8, "CQ_DISPATCH_CMD_WAIT_FLAG_CLEAR_STREAM": 16,
	})
	s := Constants{
		"my_noc_xy": 206, "upstream_noc_xy": 142, "distributed_dispatcher": 0, "cb_base": 630784, "cb_log_page_size": 8, "cb_size": 32768,
		"my_dispatch_cb_sem_id": 1, "upstream_dispatch_cb_sem_id": 2, "dispatch_s_sync_sem_base_addr": 104208, "mcast_go_signal_addr": 880,
		"first_stream_used": 48, "num_worker_cores_to_mcast": 110,
	}
	return QueueKernels{Prefetch: QueueKernel{File: "p", Constants: p}, Dispatch: QueueKernel{File: "d", Constants: d},
		Subordinate: QueueKernel{File: "s", Constants: s}}
}

func TestQueueConstants(t *testing.T) {
	q := queue(0)
	must(t, q.read())
	want := abi.Queue{
		PrefetchCore: 142, DispatchCore: 206,
		FetchQueue: 104512, FetchQueueSize: 3068, FetchEntry: 2, FetchRead: 104128, IssueRead: 104132,
		Commands: 107584, CommandsSize: 262144, Scratch: 369728, ScratchSize: 131072, BinaryRingSize: 1 << 20,
		SubordinateCredits: 2, Sync: 1,
		DispatchRing: 106496, DispatchPageSize: 4096, DispatchPages: 128, DispatchBlocks: 4,
		SubordinateRing: 630784, SubordinatePageSize: 256, SubordinatePages: 128, SubordinatePublished: 1,
		CompletionWrite: 104144, CompletionRead: 104160, LastEvent: [2]uint32{104176, 104192}, SyncWords: 104208,
		HostMemory: 0x1000613000000000, HostTile: 0x613, Issue: 256, IssueSize: 805310208, Completion: 805310464, CompletionSize: 268431360,
		CompletionWriteWords: 128,
		Go:                   880, FirstStream: 48, SubDevices: 8, Workers: 529101, NumWorkers: 110, PackedCores: 110, WaitStream: 8,
		ClearStream: 16,
	}
	if q.Constants != want {
		t.Errorf("%+v, want %+v", q.Constants, want)
	}
}

func TestQueueKernelsDisagree(t *testing.T) {
	constants := func(q *QueueKernels, i int) Constants {
		return []QueueKernel{q.Prefetch, q.Dispatch, q.Subordinate}[i].Constants
	}
	for i, names := range [][]string{
		{"my_noc_xy", "downstream_noc_xy", "dispatch_s_noc_xy", "downstream_cb_base", "downstream_cb_pages", "downstream_cb_log_page_size",
			"dispatch_s_buffer_base", "dispatch_s_buffer_size", "dispatch_s_cb_log_page_size", "my_downstream_cb_sem_id",
			"my_dispatch_s_cb_sem_id", "my_downstream_sync_sem_id", "downstream_cb_sem_id", "downstream_dispatch_s_cb_sem_id", "pcie_base",
			"pcie_size"},
		{"my_noc_xy", "upstream_noc_xy", "mcast_go_signal_addr", "first_stream_used", "completion_queue_base_addr"},
		{"my_noc_xy", "num_worker_cores_to_mcast", "dispatch_s_sync_sem_base_addr", "cb_size"},
	} {
		for _, name := range names {
			q := queue(0)
			constants(&q, i)[name]++
			if err := q.read(); err == nil {
				t.Errorf("%s changed: accepted", name)
			}
			q = queue(0)
			delete(constants(&q, i), name)
			var missing *ConstantError
			if err := q.read(); !errors.As(err, &missing) || missing.Name != name {
				t.Errorf("%s missing: %v", name, err)
			}
		}
	}
	q := queue(0)
	q.Dispatch.Constants["is_d_variant"] = 0
	fails(t, q.read(), ErrSplitQueue, "half of a split queue")
}

func TestMatchQueues(t *testing.T) {
	found := func(qs ...QueueKernels) (out [3][]QueueKernel) {
		for _, q := range qs {
			out[prefetch] = append(out[prefetch], q.Prefetch)
			out[dispatch] = append(out[dispatch], q.Dispatch)
			out[subordinate] = append(out[subordinate], q.Subordinate)
		}
		return out
	}
	two := queue(1 << 30)
	for _, k := range []QueueKernel{two.Prefetch, two.Dispatch, two.Subordinate} {
		for _, name := range []string{"my_noc_xy", "upstream_noc_xy", "downstream_noc_xy", "dispatch_s_noc_xy"} {
			if _, ok := k.Constants[name]; ok {
				k.Constants[name] += 128
			}
		}
	}
	queues, err := matchQueues(found(two, queue(0), queue(0)))
	if err == nil {
		queues, err = inOrder(queues)
	}
	if err != nil || len(queues) != 2 || queues[0].Constants.Base != 0 || queues[1].Constants.Base != 1<<30 ||
		queues[1].Constants.PrefetchCore != 270 {
		t.Errorf("two queues, one of them twice: %d, %v", len(queues), err)
	}
	apart, err := matchQueues(found(queue(0), queue(1<<20)))
	if err == nil {
		_, err = inOrder(apart)
	}
	fails(t, err, ErrSeveralQueues, "overlapping shares of host memory")
	fails(t, second(matchQueues(found())), ErrNoQueueFirmware, "nothing")
	other := queue(0)
	other.Dispatch.Constants["upstream_noc_xy"] = 0
	fails(t, second(matchQueues(found(other))), ErrNoQueueFirmware, "no set")
}

func TestOpenNoQueueFirmware(t *testing.T) {
	fails(t, second(OpenQueueFirmware(t.Context(), t.TempDir())), ErrNoQueueFirmware, "empty folder")
	fails(t, second(OpenQueueFirmware(t.Context(), filepath.Join(t.TempDir(), "none"))), os.ErrNotExist, "no folder")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fails(t, second(OpenQueueFirmware(ctx, t.TempDir())), context.Canceled, "context that has ended")
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "cq_prefetch_brisc.elf"), []byte("\x7fELF"), 0o600))
	if _, err := OpenQueueFirmware(t.Context(), dir); err == nil {
		t.Error("a file that is no ELF file: no error")
	}
}
