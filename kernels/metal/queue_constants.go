package metal

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"

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

// fetchEntryType is the type of the prefetch queue's entries in tt-metal's cq_prefetch.cpp.
const fetchEntryType = "prefetch_q_entry_type"

// Constants are a kernel's global constexpr variables by name, from its debug information, and the
// size in bytes of type prefetch_q_entry_type.
type Constants map[string]uint64

// ErrNoDebugInfo is returned for a file without debug information, which has the constants.
var ErrNoDebugInfo = errors.New("the file has no debug information: build it with -g, as tt-metal does, and don't strip it")

// ReadConstants reads a kernel's ELF file. The error wraps ErrNoDebugInfo without debug
// information.
func ReadConstants(r io.ReaderAt) (Constants, error) {
	all, err := readConstants(r)
	if err != nil {
		return nil, fmt.Errorf("metal: read constants: %w", err)
	}
	return all, nil
}

func readConstants(r io.ReaderAt) (Constants, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	if f.Section(".debug_info") == nil {
		return nil, ErrNoDebugInfo
	}
	d, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	all := Constants{}
	entries := d.Reader()
	for {
		unit, err := entries.Next()
		if err != nil {
			return nil, err
		}
		if unit == nil {
			return all, nil
		}
		if unit.Tag != dwarf.TagCompileUnit {
			entries.SkipChildren()
			continue
		}
		of, err := unitConstants(d, entries, unit)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, of)
	}
}

// unitConstants advances r past the unit's children.
func unitConstants(d *dwarf.Data, r *dwarf.Reader, unit *dwarf.Entry) (Constants, error) {
	all := Constants{}
	if !unit.Children {
		return all, nil
	}
	for {
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil || e.Tag == 0 {
			return all, nil
		}
		switch name, _ := e.Val(dwarf.AttrName).(string); e.Tag {
		case dwarf.TagVariable:
			if v, ok := constant(e.Val(dwarf.AttrConstValue)); ok && name != "" {
				all[name] = v
			}
		case dwarf.TagTypedef:
			if name == fetchEntryType {
				t, err := d.Type(e.Offset)
				if err != nil {
					return nil, err
				}
				all[fetchEntryType] = uint64(max(t.Size(), 0))
			}
		}
		r.SkipChildren()
	}
}

// TypeFacts returns, by name, the bytes of structures, the offsets of their fields
// ("go_msg_t.signal") and the values of enumerators that debug information has.
func TypeFacts(d *dwarf.Data) (map[string]uint64, error) {
	facts := map[string]uint64{}
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			return facts, err
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if e.Tag != dwarf.TagStructType && e.Tag != dwarf.TagTypedef && e.Tag != dwarf.TagEnumerationType || name == "" {
			continue
		}
		t, err := d.Type(e.Offset)
		if err != nil {
			continue // package dwarf has no char16_t
		}
		if def, ok := t.(*dwarf.TypedefType); ok {
			t = def.Type
		}
		switch t := t.(type) {
		case *dwarf.StructType:
			if t.Incomplete {
				continue
			}
			facts[name] = uint64(max(t.ByteSize, 0))
			for _, field := range t.Field {
				facts[name+"."+field.Name] = uint64(max(field.ByteOffset, 0))
			}
		case *dwarf.EnumType:
			for _, v := range t.Val {
				facts[v.Name] = uint64(v.Val)
			}
		}
	}
}

func constant(v any) (n uint64, ok bool) {
	switch v := v.(type) {
	case int64:
		return uint64(v), true
	case uint64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case []byte:
		if len(v) > 8 {
			return 0, false
		}
		for i, b := range v {
			n |= uint64(b) << (8 * i)
		}
		return n, len(v) > 0
	}
	return 0, false
}

// codeConstants returns the numbers that a kernel's instructions make or address, by LUI with
// additions and by immediates. It reads the text in order, without branches, so some may occur on
// no path.
func codeConstants(text []byte) map[uint32]bool {
	c := codeReader{found: map[uint32]bool{}}
	c.known[0] = true
	for ; len(text) >= 4; text = text[4:] {
		c.step(binary.LittleEndian.Uint32(text))
	}
	return c.found
}

type codeReader struct {
	reg   [32]uint32
	known [32]bool
	found map[uint32]bool
}

const (
	opLoad   = 0x03
	opImm    = 0x13
	opStore  = 0x23
	opReg    = 0x33
	opLUI    = 0x37
	opBranch = 0x63
)

func (c *codeReader) step(w uint32) {
	rd, rs1, rs2 := w>>7&31, w>>15&31, w>>20&31
	imm := uint32(int32(w) >> 20)
	a, b := c.reg[rs1], c.reg[rs2]
	switch w & 0x7F {
	case opLUI:
		c.set(rd, w&0xFFFFF000, true)
	case opImm:
		if !c.known[rs1] {
			c.found[imm] = true
		}
		v, ok := immediate(w, a, imm)
		c.set(rd, v, ok && c.known[rs1])
	case opReg:
		v, ok := combine(w, a, b)
		c.set(rd, v, ok && c.known[rs1] && c.known[rs2])
	case opLoad:
		if c.known[rs1] {
			c.found[a+imm] = true
		}
		c.set(rd, 0, false)
	case opStore:
		if c.known[rs1] {
			c.found[a+(uint32(int32(w)>>25<<5)|rd)] = true
		}
	case opBranch:
	default:
		c.set(rd, 0, false)
	}
}

func (c *codeReader) set(rd, v uint32, known bool) {
	if known {
		c.found[v] = true
	}
	if rd != 0 {
		c.reg[rd], c.known[rd] = v, known
	}
}

// immediate is false for instructions without one.
func immediate(w, a, imm uint32) (uint32, bool) {
	shift := imm & 31
	switch w >> 12 & 7 {
	case 0:
		return a + imm, true
	case 1:
		switch imm >> 5 {
		case 0:
			return a << shift, true
		case 0x14: // BSETI
			return a | 1<<shift, true
		}
	case 4:
		return a ^ imm, true
	case 5:
		if imm>>5 == 0 {
			return a >> shift, true
		}
	case 6:
		return a | imm, true
	case 7:
		return a & imm, true
	}
	return 0, false
}

// combine is false for instructions other than of two registers.
func combine(w, a, b uint32) (uint32, bool) {
	switch f := w >> 12 & 7; w >> 25 {
	case 0:
		switch f {
		case 0:
			return a + b, true
		case 6:
			return a | b, true
		}
	case 0x10: // SH1ADD, SH2ADD, SH3ADD
		if f == 2 || f == 4 || f == 6 {
			return a<<(f/2) + b, true
		}
	case 0x20:
		if f == 0 {
			return a - b, true
		}
	}
	return 0, false
}
