package metal

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/elftest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
)

type files = [chip.NumProcessors]elftest.Metal

func firmware(t *testing.T, revision string, arch chip.Arch) (ms files) {
	t.Helper()
	l := abi.Of(revision, arch)
	if l == nil {
		t.Fatalf("no revision %s", revision)
	}
	for p := range chip.Processor(chip.NumProcessors) {
		ms[p] = elftest.NewMetal(p, l.L1.Firmware[p], 8, 64)
		ms[p].IRAM = arch == chip.Wormhole && p == chip.NCRISC
	}
	return ms
}

var (
	fails = expect.Fails
	must  = expect.Must
)

func write(t *testing.T, dir string, ms files) {
	t.Helper()
	for _, m := range ms {
		must(t, m.WriteFile(dir, m.Base()))
	}
}

func put(t *testing.T, text string, path ...string) {
	t.Helper()
	at := filepath.Join(path...)
	must(t, errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)))
}

func open(t *testing.T, roots ...string) *Cache {
	t.Helper()
	return expect.Value(OpenCache(t.Context(), roots...))(t)
}

func load(t *testing.T, f elftest.File) *kernels.Image {
	t.Helper()
	return expect.Value(kernels.LoadMetal(f.Build()))(t)
}

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

func TestOpenFirmware(t *testing.T) {
	for _, arch := range arches {
		for _, l := range abi.Known(arch) {
			r := l.Revision
			ms := firmware(t, r.Name, arch)
			dir := t.TempDir()
			write(t, dir, ms)
			flat := t.TempDir()
			for p := range chip.Processor(chip.NumProcessors) {
				must(t, os.WriteFile(filepath.Join(flat, FileName(p)), ms[p].Base().Build(), 0o644))
			}
			for _, at := range []string{dir, flat} {
				f, err := OpenFirmware(at)
				must(t, err)
				if f.Layout.Arch != arch || !slices.Contains(append(f.Others, f.Layout), l) || f.DRAMBanks != 8 || f.L1Banks != 64 {
					t.Errorf("%v %v: %v %v, %d and %d banks", r, arch, f.Layout.Revision, f.Layout.Arch, f.DRAMBanks, f.L1Banks)
				}
				for p, m := range ms {
					expect.Equal(t, expect.Value(f.Processor(load(t, m.Kernel())))(t), chip.Processor(p), "%v %v: kernel of", r, arch)
				}
			}
		}
	}
}

func TestOpenFirmwareRefuses(t *testing.T) {
	revision := "0.65.1"
	tests := []struct {
		name   string
		breaks func(dir string, ms files) error
		want   error
		says   string
	}{
		{"no folder", func(dir string, _ files) error { return os.RemoveAll(dir) }, fs.ErrNotExist, "brisc.elf"},
		{"a file missing", func(dir string, _ files) error { return os.RemoveAll(filepath.Join(dir, "trisc1")) }, fs.ErrNotExist, "trisc1.elf"},
		{"a kernel among them", func(dir string, ms files) error {
			return ms[chip.TRISC2].WriteFile(dir, ms[chip.TRISC2].Kernel())
		}, kernels.ErrNotBase, "trisc2.elf"},
		{"not ELF", func(dir string, _ files) error {
			return os.WriteFile(filepath.Join(dir, "ncrisc", "ncrisc.elf"), []byte("junk"), 0o644)
		}, kernels.ErrNotELF, "ncrisc.elf"},
		{"a folder in the place of a file", func(dir string, _ files) error {
			at := filepath.Join(dir, "brisc", "brisc.elf")
			return errors.Join(os.Remove(at), os.Mkdir(at, 0o755))
		}, ErrNotFile, "brisc.elf"},
		{"banks of another build", func(dir string, ms files) error {
			m := elftest.NewMetal(chip.NCRISC, ms[chip.NCRISC].Entry, 7, 64)
			return m.WriteFile(dir, m.Base())
		}, ErrMixed, "7 and 64"},
		{"unknown revision", func(dir string, ms files) error {
			m := elftest.NewMetal(chip.TRISC0, ms[chip.TRISC0].Entry+0x10, 0, 0)
			return m.WriteFile(dir, m.Base())
		}, nil, "revision"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			ms := firmware(t, revision, chip.Blackhole)
			write(t, dir, ms)
			must(t, tt.breaks(dir, ms))
			_, err := OpenFirmware(dir)
			var typed *FirmwareError
			if !errors.As(err, &typed) || typed.Dir != dir {
				t.Fatalf("got %v", err)
			}
			var unknown *abi.UnknownFirmwareError
			if tt.want == nil && !errors.As(err, &unknown) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			expect.Says(t, err, nil, tt.says)
		})
	}
	t.Run("the folder above", func(t *testing.T) {
		root := t.TempDir()
		dir := filepath.Join(root, "1234", "firmware", "5678")
		write(t, dir, firmware(t, revision, chip.Blackhole))
		for _, at := range []string{root, filepath.Join(root, "1234"), filepath.Dir(dir)} {
			expect.Says(t, second(OpenFirmware(at)), nil, "base firmware is in "+dir)
		}
	})
}

func TestCheck(t *testing.T) {
	revision := "0.65.1"
	dir := t.TempDir()
	ms := firmware(t, revision, chip.Blackhole)
	write(t, dir, ms)
	f, err := OpenFirmware(dir)
	must(t, err)
	tests := []struct {
		name   string
		change func(*elftest.Metal)
		symbol string
	}{
		{"text elsewhere", func(m *elftest.Metal) { m.TextEnd += 16 }, "__fw_export_text_end"},
		{"less data", func(m *elftest.Metal) { m.LocalEnd -= 16 }, "__fw_export_ldm_end"},
		{"variable elsewhere", func(m *elftest.Metal) { m.Variables[0].Addr -= 4 }, "cb_interface"},
		{"more banks", func(m *elftest.Metal) { m.Variables[1].Size += 4 }, "dram_bank_to_noc_xy"},
		{"another variable", func(m *elftest.Metal) { m.Variables[2].Name = "sem_l1_base" }, "sem_l1_base"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := elftest.NewMetal(chip.BRISC, ms[chip.BRISC].Entry, 8, 64)
			tt.change(&m)
			_, err := f.Processor(load(t, m.Kernel()))
			var e *MismatchError
			if !errors.As(err, &e) || e.Symbol != tt.symbol || e.Dir != dir {
				t.Fatalf("got %v", err)
			}
			if tt.symbol != textEnd && e.Processor != chip.BRISC || !strings.Contains(err.Error(), tt.symbol) {
				t.Errorf("%v", err)
			}
		})
	}
	for _, im := range []*kernels.Image{nil, {Text: make([]byte, 16)}} {
		expect.Fails(t, second(f.Processor(im)), ErrNotMetal, "f.Processor(im)")
	}
}

func TestCache(t *testing.T) {
	root := t.TempDir()
	const old, young = "0.65.1", "0.72.0"
	builds := []struct {
		arch     chip.Arch
		revision string
		build    string // below root
		firmware string // below build
	}{
		{chip.Blackhole, old, "a4347c0dda/111", "firmware/999"},
		{chip.Blackhole, old, "a4347c0dda/112", "firmware/999"}, // the same symbols
		{chip.Wormhole, young, "222", "firmware"},
	}
	for _, b := range builds {
		ms := firmware(t, b.revision, b.arch)
		at := filepath.Join(root, b.build)
		write(t, filepath.Join(at, b.firmware), ms)
		must(t, ms[chip.BRISC].WriteFile(filepath.Join(at, "kernels", "reader", "1"), ms[chip.BRISC].Kernel()))
		for _, p := range []chip.Processor{chip.TRISC0, chip.TRISC1, chip.TRISC2} {
			must(t, ms[p].WriteFile(filepath.Join(at, "kernels", "compute", "2"), ms[p].Kernel()))
		}
		must(t, ms[chip.NCRISC].WriteFile(filepath.Join(at, "kernels", "deep", "writer", "3"), ms[chip.NCRISC].Kernel()))
	}
	put(t, "\x7fELF", root, "222/kernels/broken/4/brisc/brisc.elf")
	put(t, "x", root, "222/kernels/broken/4/brisc/brisc.elf.xip.elf")
	put(t, "x", root, "brisc.elf")
	put(t, "", root, "222/firmware/idle_erisc/idle_erisc.elf") // of Ethernet cores, which are not read
	put(t, "", root, "a4347c0dda/111/kernels/deep/router/5/erisc/erisc.elf")
	must(t, os.Symlink(root, filepath.Join(root, "222", "kernels", "loop")))
	must(t, os.Symlink(root, filepath.Join(root, "222", "kernels", "firmware")))
	must(t, elftest.NewMetal(chip.BRISC, 0x3840, 8, 64).WriteFile(filepath.Join(root, "partial", "firmware"),
		elftest.NewMetal(chip.BRISC, 0x3840, 8, 64).Base()))

	for _, link := range []bool{false, true} {
		at := root
		if link {
			at = filepath.Join(t.TempDir(), "link")
			must(t, os.Symlink(root, at))
		}
		c := open(t, at)
		if len(c.Kernels) != 16 || len(c.Firmware) != 3 || len(c.Problems) != 3 {
			t.Fatalf("%d kernels, %d firmware, problems %v", len(c.Kernels), len(c.Firmware), c.Problems)
		}
		want := []EthernetFile{
			{Path: filepath.Join(at, "222/firmware/idle_erisc/idle_erisc.elf"), Processor: "idle_erisc", Firmware: true, Build: "222"},
			{Path: filepath.Join(at, "a4347c0dda/111/kernels/deep/router/5/erisc/erisc.elf"), Processor: "erisc",
				Name: "deep/router", Hash: "5", Build: "111", Commit: "a4347c0dda"},
		}
		expect.NoDiff(t, c.Ethernet, want, "c.Ethernet")
		if _, _, err := OpenKernel(t.Context(), want[1].Path); !errors.Is(err, ErrEthernet) {
			t.Error(err)
		}
		for i := range c.Kernels {
			k := &c.Kernels[i]
			im, err := k.Load()
			if k.Name == "broken" {
				expect.Fails(t, err, kernels.ErrNotELF, "error")
				continue
			}
			must(t, err)
			f, p, err := c.FirmwareOf(k, im)
			must(t, err)
			if p != k.Processor || !strings.Contains(f.Dir, string(filepath.Separator)+k.Build+string(filepath.Separator)) {
				t.Errorf("%+v: %v of %s", k, p, f.Dir)
			}
			if (k.Commit == "a4347c0dda") != (k.Build != "222") || k.Hash == "" {
				t.Errorf("%+v", k)
			}
			if k.Processor == chip.NCRISC && k.Name != "deep/writer" {
				t.Errorf("%+v", k)
			}
		}
	}
	c := open(t, filepath.Join(root, "a4347c0dda/111/kernels/compute"))
	if len(c.Kernels) != 3 || c.Kernels[0].Name != "compute" || c.Kernels[0].Build != "111" {
		t.Errorf("%+v", c.Kernels)
	}
	im, err := c.Kernels[0].Load()
	must(t, err)
	if _, _, err := c.FirmwareOf(&c.Kernels[0], im); !errors.Is(err, ErrNoFirmware) {
		t.Error(err)
	}
	// Pre-compiled firmware is in another folder, by the same build key.
	other := filepath.Join(t.TempDir(), "pre-compiled", "111")
	write(t, other, firmware(t, old, chip.Blackhole))
	c = open(t, filepath.Join(root, "a4347c0dda/111/kernels"), filepath.Join(root, "a4347c0dda/112"), other)
	if f, _, err := c.FirmwareOf(&c.Kernels[0], im); err != nil || f.Dir != other || len(c.Firmware) != 2 {
		t.Errorf("%v, %v", f, err)
	}
	// Unusable firmware of the kernel's build is the reason, not other firmware's difference.
	m := elftest.NewMetal(chip.BRISC, 0x3000, 8, 64)
	must(t, m.WriteFile(filepath.Join(root, "partial", "kernels", "lonely", "9"), m.Kernel()))
	c = open(t, root)
	var none *NoFirmwareError
	var broken *FirmwareError
	if _, _, err := c.FirmwareOf(&Kernel{Build: "partial"}, load(t, m.Kernel())); !errors.As(err, &none) || !errors.As(err, &broken) ||
		!strings.HasSuffix(broken.Dir, "firmware") {
		t.Error(err)
	}
	c = open(t, filepath.Join(root, "222"))
	im = load(t, elftest.NewMetal(chip.BRISC, 0x3000, 8, 64).Kernel())
	var e *MismatchError
	if _, _, err := c.FirmwareOf(&Kernel{}, im); !errors.Is(err, ErrNoFirmware) || !errors.As(err, &e) {
		t.Error(err)
	}
}

func TestOpenCacheRefuses(t *testing.T) {
	dir := t.TempDir()
	expect.Says(t, second(OpenCache(t.Context(), dir)), ErrEmpty, "TT_METAL_CACHE")
	if _, err := OpenCache(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	deep := filepath.Join(dir, strings.Repeat("a/", maxDepth+2))
	must(t, os.MkdirAll(deep, 0o755))
	if _, err := OpenCache(t.Context(), dir); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OpenCache(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestFirmwareFileWithRelocations(t *testing.T) {
	f := elftest.NewMetal(chip.BRISC, 0x3840, 8, 64).Base()
	f.NoRelocations, f.Relocations = false, []elf.Rela32{elftest.Relocation(0x3840, elf.R_RISCV_HI20, 1, 0)}
	if _, err := kernels.LoadMetalBase(f.Build()); err != nil {
		t.Error(err)
	}
}

func second[V any](_ V, err error) error { return err }

func TestText(t *testing.T) {
	ms := firmware(t, "0.70.1", chip.Blackhole)
	base, kernel := ms[chip.BRISC].Base(), ms[chip.BRISC].Kernel()
	dir := t.TempDir()
	path := filepath.Join(dir, "brisc.elf")
	read := func() ([]byte, uint32) {
		t.Helper()
		text, linked, err := Text(path)
		must(t, err)
		return text, linked
	}
	must(t, os.WriteFile(path, base.Build(), 0o644))
	first, linked := read()
	if len(first) == 0 || linked != ms[chip.BRISC].Entry {
		t.Errorf("%d bytes at %#x, want some at %#x", len(first), linked, ms[chip.BRISC].Entry)
	}
	must(t, os.WriteFile(path+".xip.elf", kernel.Build(), 0o644))
	if moved, at := read(); bytes.Equal(moved, first) || at != linked {
		t.Errorf("the rewritten file isn't read, or its address %#x is", at)
	}
	must(t, os.WriteFile(path+".xip.elf", []byte("no ELF file"), 0o644))
	if _, _, err := Text(path); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no ELF file: %v", err)
	}
	if _, _, err := Text(filepath.Join(dir, "none.elf")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

const codeSource = `
volatile unsigned *word;
void _start(unsigned n) {
	*(volatile unsigned *)0x19840 = 0x30001000;
	word = (unsigned *)(n + 0x2CF3);
	if (n & 8)
		*word = *(volatile unsigned *)0x1A43C;
	*word = 0x1A43C;
	*word = 0x7D0;
}`

func TestCodeConstants(t *testing.T) {
	for _, march := range []string{"-march=rv32im", "-march=rv32im_zba_zbb_zbs"} {
		f := expect.Value(elf.NewFile(bytes.NewReader(compiled(t, codeSource, march))))(t)
		text := expect.Value(f.Section(".text").Data())(t)
		k := QueueKernel{code: codeConstants(text)}
		for _, v := range []uint32{0x19840, 0x30001000, 8, 0x1A43C, 0x7D0} {
			if !k.Has(v) {
				t.Errorf("%s: %#x isn't found", march, v)
			}
		}
		for _, v := range []uint32{0x19844, 0x30000000 + 8, 0x1A440, 0x7D4} {
			if k.Has(v) {
				t.Errorf("%s: %#x is found", march, v)
			}
		}
	}
	if k := (QueueKernel{code: codeConstants([]byte{1, 2, 3})}); k.Has(1) {
		t.Error("part of an instruction is a constant")
	}
}

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
	file := expect.Value(os.ReadFile(out))(t)
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
		expect.Equal(t, got[name], v, "%s", name)
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
	expect.Equal(t, q.Constants, want, "constants")
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
	expect.Error(t, second(OpenQueueFirmware(t.Context(), dir)))
}
