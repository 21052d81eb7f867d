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
			f, err := os.Open(goldenFile(arch))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s := bufio.NewScanner(f)
			s.Buffer(nil, 1<<20)
			n := 0
			for ; s.Scan(); n++ {
				want, text, _ := strings.Cut(s.Text(), " ")
				list := decodeProgram(t, text)
				if got := runProgram(t, arch, list); got != want {
					t.Errorf("program %d, of %d accesses: digest %s, want %s", n, len(list), got, want)
				}
			}
			if n != goldenPrograms {
				t.Errorf("%d programs, want %d", n, goldenPrograms)
			}
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
		if err := r.compare(o); err != nil {
			t.Fatal(err)
		}
		o.close()
		fmt.Fprintf(&out, "%s %s\n", runProgram(t, arch, r.history), encodeProgram(r.history))
	}
	if err := os.WriteFile(goldenFile(arch), []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
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
	p, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
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
