package metaltrace_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

// recorded is a trace of y = a*b + a that a ttnn wheel recorded on an emulated chip.
type recorded struct {
	Wheel    string            `json:"ttnn"`
	Arch     string            `json:"arch"`
	Address  uint64            `json:"address"`
	Pages    int               `json:"pages"`
	PageSize int               `json:"page_size"`
	Buffers  map[string]uint64 `json:"buffers"`
	Bytes    int               `json:"buffer_bytes"`
	Page     int               `json:"buffer_page_size"`
}

// recordedMemory is DRAM in blocks of 1 KiB; the rest is zero.
type recordedMemory map[[2]uint64][]byte

const recordedBlock = 1024

func (m recordedMemory) ReadDRAM(bank int, addr uint64, p []byte) error {
	for n := 0; n < len(p); {
		at, off := (addr+uint64(n))/recordedBlock, (addr+uint64(n))%recordedBlock
		block := m[[2]uint64{uint64(bank), at}]
		if block == nil {
			block = make([]byte, recordedBlock)
		}
		n += copy(p[n:], block[off:])
	}
	return nil
}

func readRecordedMemory(t *testing.T, path string) recordedMemory {
	b, err := os.ReadFile(path)
	devtest.Must(t, err)
	m, le := recordedMemory{}, binary.LittleEndian
	for len(b) > 0 {
		bank, n, addr := le.Uint32(b), le.Uint32(b[4:]), le.Uint64(b[8:])
		for i := uint64(0); i < uint64(n); i += recordedBlock {
			m[[2]uint64{uint64(bank), addr/recordedBlock + i/recordedBlock}] = b[16+i : 16+min(i+recordedBlock, uint64(n))]
		}
		b = b[16+n:]
	}
	return m
}

func unpackCache(t *testing.T, path, dir string) {
	xz := exec.CommandContext(t.Context(), "xz", "-dc", path)
	out, err := xz.StdoutPipe()
	devtest.Must(t, err)
	devtest.Must(t, xz.Start())
	for r := tar.NewReader(out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		devtest.Must(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(r)
		devtest.Must(t, err)
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		devtest.Must(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o644)))
	}
	devtest.Must(t, xz.Wait())
}

// Traces that wheels recorded are found, read, loaded and replayed, with the result that TT-NN had.
func TestRecorded(t *testing.T) {
	root := cmp.Or(os.Getenv("REPRISE_TTNN_TRACES"), "../../../shared/ttnn/traces")
	found, err := filepath.Glob(filepath.Join(root, "*", "meta.json"))
	if err != nil || len(found) == 0 {
		t.Skip("no traces that TT-NN recorded: REPRISE_TTNN_TRACES names their folder")
	}
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("no xz, which unpacks the kernels: ", err)
	}
	for _, path := range found {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			devtest.Must(t, err)
			var r recorded
			devtest.Must(t, json.Unmarshal(text, &r))
			r.replay(t, dir)
		})
	}
}

func (r *recorded) card() *sim.Card {
	switch {
	case r.Arch == "wh":
		return sim.Wormhole()
	case r.Wheel >= "0.80":
		return sim.Blackhole(sim.Harvesting(chip.Harvesting{Ethernet: 1<<12 | 1<<13}))
	}
	return sim.Blackhole()
}

func (r *recorded) replay(t *testing.T, dir string) {
	m, cache, card := readRecordedMemory(t, filepath.Join(dir, "dram.pages")), t.TempDir(), r.card()
	unpackCache(t, filepath.Join(dir, "cache.tar.xz"), cache)
	ch := openMemory(t, card).ch
	layout, banks := cq.Layout(ch.Arch()), len(ch.DRAMBanks())
	candidates, _, err := metaltrace.Scan(t.Context(), m, banks, layout, ch.DRAMBanks()[0].Size, 64<<20)
	devtest.Must(t, err)
	if len(candidates) != 1 || candidates[0].Addr != r.Address || candidates[0].Pages != r.Pages || candidates[0].PageSize != r.PageSize {
		t.Fatalf("found %+v, want %d pages of %d B at %#x", candidates, r.Pages, r.PageSize, r.Address)
	}
	commands := make([]byte, r.Pages*r.PageSize)
	devtest.Must(t, metaltrace.ReadInterleaved(m, banks, r.Address, r.PageSize, 0, commands))
	trace, err := metaltrace.Read(m, banks, layout, commands, "")
	devtest.Must(t, err)
	opened, err := metal.OpenCache(t.Context(), cache)
	devtest.Must(t, err)
	library, err := metaltrace.NewLibrary(t.Context(), opened)
	devtest.Must(t, err)
	f, err := trace.FindFirmware(library)
	devtest.Must(t, err)
	if wheels := f.Layout.Wheels(); !strings.Contains(" "+strings.Join(wheels, " ")+" ", " "+r.Wheel+" ") {
		t.Errorf("the firmware is of %v, want %s among them", wheels, r.Wheel)
	}
	target := tracebuf.Target{Arch: ch.Arch(), Harvesting: ch.Harvesting(), Banks: banks, Revision: cq.Pinned,
		Layout: f.Layout.Revision.Name}
	target.Workers, target.Dispatch, err = dispatch.DefaultQueue(ch)
	devtest.Must(t, err)
	target.Firmware, err = dispatch.HashFirmware(ch.Arch(), f.Segments())
	devtest.Must(t, err)
	options := metaltrace.FileOptions{Name: "recorded", Target: target}
	inputs := map[string][]byte{}
	for _, name := range []string{"a", "b", "y"} {
		options.Buffers = append(options.Buffers, tracebuf.Buffer{Name: name, Kind: tracebuf.KindDRAM, Addr: r.Buffers[name], Size: r.Bytes,
			PageSize: r.Page, Stride: r.Page})
		inputs[name] = make([]byte, r.Bytes)
		devtest.Must(t, metaltrace.ReadInterleaved(m, banks, r.Buffers[name], r.Page, 0, inputs[name]))
	}
	// a*b lies between b and y.
	between := r.Buffers["b"] + uint64(r.Page)
	options.Buffers = append(options.Buffers, tracebuf.Buffer{Name: "a*b", Kind: tracebuf.KindDRAM, Addr: between,
		Size: int(r.Buffers["y"]-between) * banks, PageSize: r.Page, Stride: r.Page})
	write := func(h chip.Harvesting) []byte {
		options.Target.Harvesting = h
		saved, err := trace.File(options)
		devtest.Must(t, err)
		file, err := metaltrace.Write(saved)
		devtest.Must(t, err)
		return file
	}

	t.Run("emulator", func(t *testing.T) { r.runs(t, card, f, &options, write(target.Harvesting), inputs) })
	t.Run("ttsim", func(t *testing.T) {
		variable, h := ttsimtest.Wormhole, target.Harvesting
		if r.Arch == "bh" {
			variable, h = ttsimtest.Blackhole, chip.Harvesting{Ethernet: 1<<12 | 1<<13} // which no program uses
		}
		r.runs(t, ttsimtest.Card(t, variable), f, &options, write(h), inputs)
	})
}

func (r *recorded) runs(t *testing.T, card kmd.Target, f *metal.Firmware, options *metaltrace.FileOptions, file []byte,
	inputs map[string][]byte) {
	b := devtest.Open(t, card, reprise.WithFirmware(f.Dir, f.Layout.Revision.Name))
	var buffers []*reprise.Buffer
	for _, x := range options.Buffers {
		buf, err := b.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: x.Size, PageSize: x.PageSize, Name: x.Name,
			Addr: uint32(x.Addr)})
		b.Must(err)
		buffers = append(buffers, buf)
	}
	loaded, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file), reprise.WithBuffers(buffers...))
	b.Must(err)
	b.Must(errors.Join(b.Queue.Write(b.Ctx, buffers[0], 0, inputs["a"]), b.Queue.Write(b.Ctx, buffers[1], 0, inputs["b"])))
	got := make([]byte, r.Bytes)
	for range 3 {
		b.Must(b.Queue.Write(b.Ctx, buffers[2], 0, make([]byte, r.Bytes)))
		b.Must(loaded.Replay(b.Ctx))
		b.Must(b.Queue.Read(b.Ctx, buffers[2], 0, got))
		if sum := sha256.Sum256(got); !bytes.Equal(got, inputs["y"]) || hex.EncodeToString(sum[:8]) != "9d29e8ef51672fd0" {
			t.Fatalf("y has the digest %x, TT-NN had another result", sum[:8])
		}
	}
}
