package abi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise/chip"
)

// Facts are numbers of tt-metal's headers by name: the bytes of a structure ("core_info_msg_t"),
// the offset of a field ("core_info_msg_t.noc_size_x"), a constant ("MEM_MAP_END"). Sources:
// dev_msgs.h, dev_mem_map.h, circular_buffer_constants.h, noc_parameters.h.
type Facts map[string]uint32

// IsFact reports whether layouts depend on a name of the headers.
func IsFact(name string) bool {
	kind, _, _ := strings.Cut(name, ".")
	switch kind {
	case "kernel_config_msg_t", "mailboxes_t", "core_info_msg_t", "watcher_msg_t", "debug_assert_msg_t", "debug_sanitize_addr_msg_t",
		"debug_sanitize_noc_addr_msg_t", "NUM_CIRCULAR_BUFFERS", "NOC_COORD_REG_OFFSET", "MEM_L1_SIZE", "MEM_L1_BARRIER",
		"MEM_NOC_ATOMIC_RET_VAL_ADDR", "MEM_L1_INLINE_BASE", "MEM_MAILBOX_BASE", "MEM_ZEROS_BASE", "MEM_ZEROS_SIZE", "MEM_MAP_END",
		"MEM_BANK_TO_NOC_SCRATCH", "MEM_BANK_TO_NOC_SIZE", "MEM_LOGICAL_TO_VIRTUAL_SCRATCH", "MEM_LOGICAL_TO_VIRTUAL_SIZE",
		"MEM_NCRISC_IRAM_BASE", "MEM_NCRISC_IRAM_SIZE":
		return true
	}
	for p := range chip.Processor(chip.NumProcessors) {
		if rest, ok := strings.CutPrefix(name, "MEM_"+p.String()+"_"); ok {
			return rest == "FIRMWARE_BASE" || rest == "FIRMWARE_SIZE" || rest == "INIT_LOCAL_L1_BASE_SCRATCH"
		}
	}
	return false
}

// Release is a row of a table of releases: wheels of ttnn with equal facts, oldest first.
type Release struct {
	Wheels []string
	Facts  Facts
}

// releaseJSON has what changed since the row before; null removes a fact.
type releaseJSON struct {
	Wheels  []string           `json:"wheels"`
	Changes map[string]*uint32 `json:"changes"`
}

// Table has releases by architecture, oldest first.
type Table map[string][]Release

// ReadTable reads what [Table.Append] wrote.
func ReadTable(text []byte) (Table, error) {
	var rows map[string][]releaseJSON
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("abi: table of releases: %w", err)
	}
	t := Table{}
	for arch, all := range rows {
		facts := Facts{}
		for _, r := range all {
			for name, v := range r.Changes {
				if v == nil {
					delete(facts, name)
				} else {
					facts[name] = *v
				}
			}
			t[arch] = append(t[arch], Release{r.Wheels, maps.Clone(facts)})
		}
	}
	return t, nil
}

// Add adds a wheel after the others of its architecture, unless it is one of them.
func (t Table) Add(arch, wheel string, facts Facts) {
	rows := t[arch]
	if slices.ContainsFunc(rows, func(r Release) bool { return slices.Contains(r.Wheels, wheel) }) {
		return
	}
	if n := len(rows); n > 0 && maps.Equal(rows[n-1].Facts, facts) {
		rows[n-1].Wheels = append(rows[n-1].Wheels, wheel)
		return
	}
	t[arch] = append(rows, Release{[]string{wheel}, facts})
}

// Append appends the table as JSON.
func (t Table) Append(b []byte) []byte {
	rows := map[string][]releaseJSON{}
	for arch, all := range t {
		before := Facts{}
		for _, r := range all {
			changes := map[string]*uint32{}
			for name, v := range r.Facts {
				if old, ok := before[name]; !ok || old != v {
					changes[name] = &v
				}
			}
			for name := range before {
				if _, ok := r.Facts[name]; !ok {
					changes[name] = nil
				}
			}
			rows[arch], before = append(rows[arch], releaseJSON{r.Wheels, changes}), r.Facts
		}
	}
	text, err := json.MarshalIndent(rows, "", "\t")
	if err != nil {
		panic(err) // of strings and numbers
	}
	return append(append(b, text...), '\n')
}

//go:embed wheels.json
var wheelsJSON []byte

// tables has tt-metal's layouts, oldest first.
var tables = sync.OnceValue(func() (all []*Layout) {
	t := Releases()
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		for _, r := range t[arch.String()] {
			all = append(all, r.layout(arch))
		}
	}
	return all
})

// Releases returns the table of ttnn's wheels that layouts are made from.
func Releases() Table {
	t, err := ReadTable(wheelsJSON)
	if err != nil {
		panic(err) // the file is compiled in
	}
	return t
}

// layout is what the facts mean. A missing offset is Absent.
func (r Release) layout(arch chip.Arch) *Layout {
	at := func(name string) uint32 {
		if v, ok := r.Facts[name]; ok {
			return v
		}
		return Absent
	}
	config := func(field string) uint32 { return at("kernel_config_msg_t." + field) }
	info := func(field string) uint32 { return at("core_info_msg_t." + field) }
	box := func(field string) uint32 { return at("MEM_MAILBOX_BASE") + at("mailboxes_t."+field) }
	l := &Layout{
		Revision: Revision{Name: r.Wheels[0], Last: r.Wheels[len(r.Wheels)-1]}, Arch: arch, wheels: r.Wheels, facts: r.Facts,
		Launch: Launch{
			ConfigBase: config("kernel_config_base"), Semaphores: config("sem_offset"), Circular: config("local_cb_offset"),
			Args: config("rta_offset"), Mode: config("mode"), Text: config("kernel_text_offset"), CBMask: config("local_cb_mask"),
			NOC: config("brisc_noc_id"), NOCMode: config("brisc_noc_mode"), FirstRemote: config("min_remote_cb_start_index"),
			HostID: config("host_assigned_id"), Enables: config("enables"), NCRISCSize: config("ncrisc_kernel_size16"),
			Origin: config("sub_device_origin_x"), Preload: config("preload"), CircularBuffers: int(r.Facts["NUM_CIRCULAR_BUFFERS"]),
			ArgSlots: chip.NumProcessors,
		},
		Banks: BankTable{Fields: []BankField{DRAMPlaces, L1Places, DRAMOffsets, L1Offsets}, Shift: int(r.Facts["NOC_COORD_REG_OFFSET"])},
		Info: CoreInfo{
			Magic: 0x50EC09A3, MagicAt: info("core_magic_number"), Logical: info("absolute_logical_x"), Dispatch: Absent,
			NOCSize: info("noc_size_x"), Workers: info("worker_grid_size_x"), Unreserved: info("l1_unreserved_start"),
			Watched: WatchedTiles{
				Bounds: info("noc_pcie_addr_base"), Physical: info("non_worker_cores"), Virtual: info("virtual_non_worker_cores"),
				Harvested: info("harvested_coords"), End: info("noc_size_x"),
			},
		},
		State: CoreState{Waypoint: 0, Detail: Absent, Kernels: Absent},
	}
	if _, classes := r.Facts["mailboxes_t.go_message"]; classes {
		l.Launch.ArgSlots = 3 // DISPATCH_CLASS_MAX
	}
	m := &l.L1
	*m = L1Map{
		AtomicReturn: at("MEM_NOC_ATOMIC_RET_VAL_ADDR"), Barrier: at("MEM_L1_BARRIER"), InlineScratch: at("MEM_L1_INLINE_BASE"),
		Mailbox: at("MEM_MAILBOX_BASE"), MailboxSize: at("mailboxes_t"), SubordinateSync: box("subordinate_sync"),
		LaunchReadPtr: box("launch_msg_rd_ptr"), Launch: box("launch"), LaunchEntries: 8, LaunchSize: at("kernel_config_msg_t"),
		CoreInfo: box("core_info"), CoreInfoSize: at("core_info_msg_t"),
		CoreState: box("watcher") + at("watcher_msg_t.debug_waypoint"), CoreStateSize: 4,
		Zeros: at("MEM_ZEROS_BASE"), ZerosSize: at("MEM_ZEROS_SIZE"), BankTable: at("MEM_BANK_TO_NOC_SCRATCH"),
		BankTableSize: at("MEM_BANK_TO_NOC_SIZE"), KernelConfig: at("MEM_MAP_END"), KernelConfigSize: kernelConfigSize, Size: at("MEM_L1_SIZE"),
	}
	if m.InlineScratch == Absent {
		m.InlineScratch = chip.NoRegister
	}
	if _, ok := r.Facts["mailboxes_t.go_messages"]; ok {
		m.Go, m.GoEntries, m.GoIndex = box("go_messages"), 9, box("go_message_index")
	} else { // before sub-devices had their own
		m.Go, m.GoEntries, m.GoIndex = box("go_message"), 1, Absent
	}
	for p := range chip.Processor(chip.NumProcessors) {
		of := "MEM_" + p.String() + "_"
		m.Firmware[p], m.FirmwareSize[p] = at(of+"FIRMWARE_BASE"), at(of+"FIRMWARE_SIZE")
		l.Boot.Scratch[p] = at(of + "INIT_LOCAL_L1_BASE_SCRATCH")
	}
	m.Unreserved = alignUp(m.KernelEnd(), arch.Params().Align.PCIe())
	if arch == chip.Wormhole {
		l.Boot.IRAM, l.Boot.IRAMSize = at("MEM_NCRISC_IRAM_BASE"), at("MEM_NCRISC_IRAM_SIZE")
	}
	if size, ok := r.Facts["MEM_LOGICAL_TO_VIRTUAL_SIZE"]; ok {
		l.Boot.Virtual, l.Boot.VirtualSize = at("MEM_LOGICAL_TO_VIRTUAL_SCRATCH"), size
		l.Boot.VirtualRows = map[chip.Arch]uint32{chip.Wormhole: 12, chip.Blackhole: 20}[arch]
	}
	watcher, check := at("mailboxes_t.watcher"), "debug_sanitize_addr_msg_t"
	sanitize := at("watcher_msg_t.sanitize")
	if sanitize == Absent {
		check, sanitize = "debug_sanitize_noc_addr_msg_t", at("watcher_msg_t.sanitize_noc")
	}
	l.Boot.Watcher = Watcher{
		Enable: watcher + at("watcher_msg_t.enable"), Sanitize: watcher + sanitize + at(check+".return_code"), Stride: at(check),
		Assert: watcher + at("watcher_msg_t.assert_status") + at("debug_assert_msg_t.tripped"),
	}
	return l
}

// kernelConfigSize is the room for programs that tt-metal's host takes unless told otherwise
// (tt_metal/llrt/hal/tt-1xx/*/*_hal_tensix.cpp).
const kernelConfigSize = 69 << 10

// A ConflictError is a fact that a file of firmware contradicts; 0 is also a missing one.
type ConflictError struct {
	Fact      string
	Want, Got uint32
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is %#x there, the firmware was built with %#x", e.Fact, e.Want, e.Got)
}

// Same reports whether host and firmware agree on the same with both layouts.
func (l *Layout) Same(o *Layout) bool {
	a, b := *l, *o
	for _, x := range []*Layout{&a, &b} {
		x.Revision, x.wheels, x.facts = Revision{}, nil, nil
	}
	return reflect.DeepEqual(a, b) && slices.Equal(l.UnreadFields(), o.UnreadFields())
}

// Check compares the layout with facts that firmware tells. The error is a [*ConflictError].
func (l *Layout) Check(told Facts) error {
	names := maps.Clone(l.facts)
	maps.Copy(names, told)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		kind, _, field := strings.Cut(name, ".")
		_, known := l.facts[kind]
		_, tells := told[kind]
		if !tells || field && !known {
			continue
		}
		want, before := l.facts[name]
		if got, ok := told[name]; got != want || ok != before {
			return &ConflictError{name, want, got}
		}
	}
	return nil
}

// LaunchField is a field of launch messages.
type LaunchField struct {
	Name         string
	Offset, Size uint32 // bytes
	None         uint64 // value of a message without what the field is for
}

// UnreadFields returns the fields of launch messages that this runtime doesn't interpret, padding
// among them.
func (l *Layout) UnreadFields() (all []LaunchField) {
	const of = "kernel_config_msg_t."
	read := []string{"kernel_config_base", "sem_offset", "local_cb_offset", "remote_cb_offset", "rta_offset", "mode", "kernel_text_offset",
		"kernel_text_size", "local_cb_mask", "brisc_noc_id", "brisc_noc_mode", "min_remote_cb_start_index", "exit_erisc_kernel",
		"host_assigned_id", "enables", "watcher_kernel_ids", "ncrisc_kernel_size16", "sub_device_origin_x", "sub_device_origin_y", "preload"}
	ends := []uint32{l.L1.LaunchSize}
	taken := map[uint32]bool{}
	for name, at := range l.facts {
		if field, ok := strings.CutPrefix(name, of); ok {
			ends = append(ends, at)
			taken[at] = taken[at] || slices.Contains(read, field)
		}
	}
	slices.Sort(ends)
	for name, at := range l.facts {
		field, ok := strings.CutPrefix(name, of)
		if ok && !taken[at] {
			i, _ := slices.BinarySearch(ends, at+1)
			f := LaunchField{Name: field, Offset: at, Size: ends[i] - at}
			if strings.HasSuffix(field, "_offset") {
				f.None = 0xFF // REMOTE_DFB_OFFSET_NONE of remote_dfb_constants.h
			}
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b LaunchField) int { return int(a.Offset) - int(b.Offset) })
	return all
}
