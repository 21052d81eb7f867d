package tensix

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

var updateGolden = flag.Bool("golden.update", false, "rewrite testdata with results of the vendor's simulator")

// A line of a golden file is a digest of the vendor's simulator's L1, Dst, counters and registers,
// and the encoded accesses of a program.
func goldenFile(arch chip.Arch) string { return "testdata/" + arch.String() + ".golden" }

const (
	goldenPrograms = 24
	goldenSize     = 400 // accesses of each
)

func TestGoldenPrograms(t *testing.T) {
	for _, arch := range archs {
		t.Run(arch.String(), func(t *testing.T) {
			if *updateGolden {
				writeGolden(t, arch)
			}
			f := value(os.Open(goldenFile(arch)))(t)
			defer f.Close()
			s := bufio.NewScanner(f)
			s.Buffer(nil, 1<<20)
			n := 0
			for ; s.Scan(); n++ {
				want, text, _ := strings.Cut(s.Text(), " ")
				list := decodeProgram(t, text)
				equal(t, runProgram(t, arch, list), want, "program %d, of %d accesses: digest", n, len(list))
			}
			equal(t, n, goldenPrograms, "programs")
		})
	}
}

func runProgram(t *testing.T, arch chip.Arch, list []access) string {
	r := newRig(arch, nil)
	for _, a := range list {
		if a.addr == fillData {
			r.tile.write(dataBase, randomData(a.value))
		} else if !r.try(a) {
			t.Fatalf("%+v is refused: %v", a, r.why)
		}
	}
	return r.digest()
}

func (r *rig) digest() string {
	h := sha256.New()
	h.Write(r.tile.bytes(dataBase, dataSize))
	var p []byte
	add := func(v uint32) { p = binary.LittleEndian.AppendUint32(p, v) }
	for row := range uint32(dstRows) {
		for pair := range uint32(8) {
			add(r.e.DebugDst(row, pair))
		}
	}
	for _, b := range busReads() {
		if b.addr == busControl {
			v, _ := r.e.DebugBus(b.value>>16&0xFF, b.value&0xFFFF, b.value>>25&3)
			add(v)
		}
	}
	for thread := range numThreads {
		for i := range NumGPRs {
			add(r.e.GPR(thread, i))
		}
	}
	for i := range numSemaphores {
		add(r.e.Semaphore(i))
	}
	h.Write(p)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func writeGolden(t *testing.T, arch chip.Arch) {
	var out strings.Builder
	for n := range goldenPrograms {
		o := newOracle(t, arch)
		r := newRig(arch, rand.New(rand.NewPCG(2026, uint64(n))))
		r.start(o)
		r.fill(o, uint32(n))
		g := generator{rig: r}
		for len(r.pending) < goldenSize {
			g.step()
		}
		must(t, r.compare(o))
		o.close()
		fmt.Fprintf(&out, "%s %s\n", runProgram(t, arch, r.history), encodeProgram(r.history))
	}
	must(t, os.WriteFile(goldenFile(arch), []byte(out.String()), 0o644))
}

func encodeProgram(list []access) string {
	var p []byte
	last := uint32(0)
	for _, a := range list {
		p = binary.AppendUvarint(p, uint64(a.core))
		p = binary.AppendVarint(p, int64(int32(a.addr-last)))
		p = binary.LittleEndian.AppendUint32(p, a.value)
		last = a.addr
	}
	return base64.RawStdEncoding.EncodeToString(p)
}

func decodeProgram(t *testing.T, s string) (list []access) {
	p := value(base64.RawStdEncoding.DecodeString(s))(t)
	last := uint32(0)
	for len(p) > 0 {
		core, n := binary.Uvarint(p)
		delta, m := binary.Varint(p[n:])
		last += uint32(delta)
		list = append(list, access{last, binary.LittleEndian.Uint32(p[n+m:]), int(core)})
		p = p[n+m+4:]
	}
	return list
}

var (
	must   = expect.Must
	noDiff = expect.NoDiff
)

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}

func TestMain(m *testing.M) { ttsimtest.Main(m) }

var archs = []chip.Arch{chip.Wormhole, chip.Blackhole}

func FuzzEngine(f *testing.F) {
	f.Add(byte(0), []byte{})
	f.Add(byte(1), words(opUNPACR<<24|0x81, opPACR<<24|1, opMVMUL<<24, opREPLAY<<24|1<<4|3, opMOP<<24, opSFPMAD<<24))
	for arch := range byte(2) {
		all := []byte{arch}
		for op := range uint32(256) {
			all = append(all, words(op<<24)...)
		}
		f.Add(arch, all)
	}
	f.Fuzz(func(t *testing.T, how byte, program []byte) {
		arch := chip.Wormhole
		if how&1 != 0 {
			arch = chip.Blackhole
		}
		e := New(arch, newTestTile(arch))
		if how&2 != 0 {
			e.RefuseHazards()
		}
		for i := 0; len(program) >= 5 && e.Fault() == nil; i++ {
			kind, w := program[0], binary.LittleEndian.Uint32(program[1:])
			program = program[5:]
			switch n := int(kind % numThreads); {
			case kind&0x80 != 0:
				e.StoreConfig(uint32(kind)<<1&0xFF, w)
			case kind&0x40 != 0:
				e.StoreMOP(n, int(kind>>2)%mopWords, w)
			default:
				e.Push(n, w, kind&0x20 != 0)
			}
			for e.Step() > 0 {
			}
		}
		if f := e.Fault(); f != nil && (f.Category.String() == "" || f.Detail == "" || f.Error() == "") {
			t.Errorf("a refusal without a reason: %+v", f)
		}
		for n := range numThreads {
			e.Waiting(n)
		}
	})
}
