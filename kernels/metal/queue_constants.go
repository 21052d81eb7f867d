package metal

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/abi"
)

// values reads constants, and keeps the first one missing or longer than 32 bits.
type values struct {
	k   *QueueKernel
	err error
}

func (v *values) wide(name string) uint64 {
	n, ok := v.k.Constants[name]
	if !ok && v.err == nil {
		v.err = &ConstantError{File: v.k.File, Name: name}
	}
	return n
}

func (v *values) get(name string) uint32 { return uint32(v.wide(name)) }

func (v *values) size(name string) uint32 { return 1 << v.get(name) }

// read checks that the three kernels agree.
func (q *QueueKernels) read() error {
	p, d, s := values{k: &q.Prefetch}, values{k: &q.Dispatch}, values{k: &q.Subordinate}
	both := func(v *values) bool { return v.get("is_d_variant") == 1 && v.get("is_h_variant") == 1 }
	if !both(&p) || !both(&d) || d.get("split_prefetch") != 0 || d.get("distributed_dispatcher") != 0 ||
		s.get("distributed_dispatcher") != 0 {
		if err := errors.Join(p.err, d.err, s.err); err != nil {
			return err
		}
		return ErrSplitQueue
	}
	c := abi.Queue{
		PrefetchCore: p.get("my_noc_xy"), DispatchCore: d.get("my_noc_xy"),

		FetchQueue: p.get("prefetch_q_base"), FetchQueueSize: p.get("prefetch_q_size"), FetchEntry: p.get(fetchEntryType),
		FetchRead: p.get("prefetch_q_rd_ptr_addr"), IssueRead: p.get("prefetch_q_pcie_rd_ptr_addr"),
		Commands: p.get("cmddat_q_base"), CommandsSize: p.get("cmddat_q_size"),
		Scratch: p.get("scratch_db_base"), ScratchSize: p.get("scratch_db_size"), BinaryRingSize: p.get("ringbuffer_size"),
		DispatchCredits: p.get("my_downstream_cb_sem_id"), SubordinateCredits: p.get("my_dispatch_s_cb_sem_id"),
		Sync: p.get("my_downstream_sync_sem_id"),

		DispatchRing: d.get("dispatch_cb_base"), DispatchPageSize: d.size("dispatch_cb_log_page_size"),
		DispatchPages: d.get("dispatch_cb_pages"), DispatchBlocks: d.get("dispatch_cb_blocks"),
		SubordinateRing: s.get("cb_base"), SubordinatePageSize: s.size("cb_log_page_size"),
		DispatchPublished: d.get("my_dispatch_cb_sem_id"), SubordinatePublished: s.get("my_dispatch_cb_sem_id"),
		CompletionWrite: d.get("dev_completion_q_wr_ptr"), CompletionRead: d.get("dev_completion_q_rd_ptr"),
		SyncWords: d.get("dispatch_s_sync_sem_base_addr"),

		Base: d.get("command_queue_base_addr"), Issue: p.get("pcie_base"), IssueSize: p.get("pcie_size"),
		Completion: d.get("completion_queue_base_addr"), CompletionSize: d.get("completion_queue_size"),
		CompletionWriteWords: d.get("host_completion_q_wr_ptr"),

		Go: d.get("mcast_go_signal_addr"), FirstStream: d.get("first_stream_used"), SubDevices: d.get("max_num_worker_sems"),
		Workers: d.get("worker_mcast_grid"), NumWorkers: d.get("num_worker_cores_to_mcast"),
		PackedCores: d.get("packed_write_max_unicast_sub_cmds"),

		WaitStream: d.get("CQ_DISPATCH_CMD_WAIT_FLAG_WAIT_STREAM"), ClearStream: d.get("CQ_DISPATCH_CMD_WAIT_FLAG_CLEAR_STREAM"),
	}
	if c.SubordinatePageSize != 0 {
		c.SubordinatePages = s.get("cb_size") / c.SubordinatePageSize
	}
	// The host chooses where events are recorded: tt-metal's follow the host's pointer.
	for i := range c.LastEvent {
		c.LastEvent[i] = c.CompletionRead + 16*uint32(i+1)
	}
	tile := d.wide("pcie_noc_xy")
	c.HostTile, c.HostMemory = uint32(tile>>36&0xFFF), tile
	agree := []struct {
		what string
		a, b uint32
	}{
		{"the prefetcher's core", c.PrefetchCore, d.get("upstream_noc_xy")},
		{"the prefetcher's core", c.PrefetchCore, s.get("upstream_noc_xy")},
		{"the dispatcher's core", c.DispatchCore, p.get("downstream_noc_xy")},
		{"the dispatcher's core", c.DispatchCore, p.get("dispatch_s_noc_xy")},
		{"the dispatcher's core", c.DispatchCore, s.get("my_noc_xy")},
		{"the dispatch ring", c.DispatchRing, p.get("downstream_cb_base")},
		{"the dispatch ring's pages", c.DispatchPages, p.get("downstream_cb_pages")},
		{"the size of the dispatch ring's pages", c.DispatchPageSize, p.size("downstream_cb_log_page_size")},
		{"the subordinate's ring", c.SubordinateRing, p.get("dispatch_s_buffer_base")},
		{"the size of the subordinate's ring", s.get("cb_size"), p.get("dispatch_s_buffer_size")},
		{"the size of the subordinate's pages", c.SubordinatePageSize, p.size("dispatch_s_cb_log_page_size")},
		{"the semaphore of the dispatch ring's credits", c.DispatchCredits, d.get("upstream_dispatch_cb_sem_id")},
		{"the semaphore of the subordinate's credits", c.SubordinateCredits, s.get("upstream_dispatch_cb_sem_id")},
		{"the semaphore of the sync", c.Sync, d.get("upstream_sync_sem")},
		{"the semaphore of the dispatch ring", c.DispatchPublished, p.get("downstream_cb_sem_id")},
		{"the semaphore of the subordinate's ring", c.SubordinatePublished, p.get("downstream_dispatch_s_cb_sem_id")},
		{"the sync words", c.SyncWords, s.get("dispatch_s_sync_sem_base_addr")},
		{"the go messages", c.Go, s.get("mcast_go_signal_addr")},
		{"the first stream", c.FirstStream, s.get("first_stream_used")},
		{"the number of workers", c.NumWorkers, s.get("num_worker_cores_to_mcast")},
		{"host memory: the end of the issue queue", c.Issue + c.IssueSize, c.Completion},
	}
	if err := errors.Join(p.err, d.err, s.err); err != nil {
		return err
	}
	for _, v := range agree {
		if v.a != v.b {
			return fmt.Errorf("%s, %s and %s: they don't belong together: %s is %#x to one and %#x to another", q.Prefetch.File, q.Dispatch.File,
				q.Subordinate.File, v.what, v.a, v.b)
		}
	}
	q.Constants = c
	return nil
}
