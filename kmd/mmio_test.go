package kmd

import (
	"bytes"
	"encoding/binary"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
)

func guarded(t *testing.T, n int) []byte {
	t.Helper()
	page := int(hostPage())
	size := (n + page - 1) &^ (page - 1)
	b := value(unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE))(t)
	t.Cleanup(func() { _ = unix.Munmap(b) })
	must(t, unix.Mprotect(b[size:], unix.PROT_NONE))
	return b[size-n : size : size]
}

func TestLoadsAndStores(t *testing.T) {
	for off := uint64(0); off < 64; off += 8 {
		mem := guarded(t, 64)
		d := deviceMemoryOf(mem)
		const v = 0x1122334455667788
		for _, tt := range []struct {
			width int
			store func()
			load  func() uint64
			want  uint64
		}{
			{1, func() { store8(d.at(off), uint8(v&0xFF)) }, func() uint64 { return uint64(load8(d.at(off))) }, v & 0xFF},
			{2, func() { store16(d.at(off), uint16(v&0xFFFF)) }, func() uint64 { return uint64(load16(d.at(off))) }, v & 0xFFFF},
			{4, func() { store32(d.at(off), uint32(v&0xFFFFFFFF)) }, func() uint64 { return uint64(load32(d.at(off))) }, v & 0xFFFFFFFF},
			{8, func() { store64(d.at(off), v) }, func() uint64 { return load64(d.at(off)) }, v},
		} {
			for i := range mem {
				mem[i] = 0xA5
			}
			want := bytes.Clone(mem)
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], v)
			copy(want[off:], b[:tt.width])
			tt.store()
			if !bytes.Equal(mem, want) {
				t.Errorf("store of %d bytes at %d: %x", tt.width, off, mem)
			}
			expect.Equal(t, tt.load(), tt.want, "load of %d bytes at %d", tt.width, off)
		}
	}
	fence() // has no result to look at; it must be an instruction that this processor has
}

func TestBulkCopies(t *testing.T) {
	const size = 1 << 10
	mem := guarded(t, size)
	source := guarded(t, size)
	rapid.Check(t, func(t *rapid.T) {
		d := deviceMemoryOf(mem)
		off := rapid.IntRange(0, size).Draw(t, "offset")
		n := rapid.IntRange(0, size-off).Draw(t, "length")
		skew := rapid.IntRange(0, size-n).Draw(t, "skew")
		seed := rapid.Byte().Draw(t, "seed")
		for i := range mem {
			mem[i] = byte(i)*3 + seed
			source[i] = byte(i)*7 - seed
		}
		want := bytes.Clone(mem)
		p := source[skew:][:n]
		copy(want[off:], p)
		d.Write(uint64(off), p)
		if !bytes.Equal(mem, want) {
			t.Fatalf("write of %d bytes at %d from +%d is wrong", n, off, skew)
		}
		clear(source)
		d.Read(uint64(off), p)
		if !bytes.Equal(p, want[off:][:n]) {
			t.Fatalf("read of %d bytes at %d to +%d is wrong", n, off, skew)
		}
		if !bytes.Equal(mem, want) {
			t.Fatal("a read changed device memory")
		}
		if i := bytes.IndexFunc(source[:skew], func(r rune) bool { return r != 0 }); i >= 0 {
			t.Fatalf("read to +%d stored at %d", skew, i)
		}
	})
}

func BenchmarkStore32(b *testing.B) {
	mem := make([]byte, 64)
	d := deviceMemoryOf(mem)
	for b.Loop() {
		store32(d.at(0), 1)
	}
}

func BenchmarkBulkCopy4KiB(b *testing.B) {
	mem, src := make([]byte, 4096), make([]byte, 4096)
	d := deviceMemoryOf(mem)
	b.SetBytes(4096)
	for b.Loop() {
		d.Write(0, src)
	}
}

var must = expect.Must

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

// deviceAccess is the one instruction of each routine that isn't about its arguments.
var deviceAccess = map[string]map[string]string{
	"amd64": {
		"load8": `MOVZX 0\(AX\), CX`, "load16": `MOVZX 0\(AX\), CX`, "load32": `MOVL 0\(AX\), CX`, "load64": `MOVQ 0\(AX\), CX`,
		"store8": `MOVB CL, 0\(AX\)`, "store16": `MOVW CX, 0\(AX\)`, "store32": `MOVL CX, 0\(AX\)`, "store64": `MOVQ CX, 0\(AX\)`,
		"fence": `SFENCE`,
	},
	"arm64": {
		"load8": `MOVBU \(R0\), R1`, "load16": `MOVHU \(R0\), R1`, "load32": `MOVWU \(R0\), R1`, "load64": `MOVD \(R0\), R1`,
		"store8": `MOVB R1, \(R0\)`, "store16": `MOVH R1, \(R0\)`, "store32": `MOVW R1, \(R0\)`, "store64": `MOVD R1, \(R0\)`,
		"fence": `DMB \$14`,
	},
	"riscv64": {
		"load8": `MOVBU \(X5\), X6`, "load16": `MOVHU \(X5\), X6`, "load32": `MOVWU \(X5\), X6`, "load64": `MOV \(X5\), X6`,
		"store8": `MOVB X6, \(X5\)`, "store16": `MOVH X6, \(X5\)`, "store32": `MOVW X6, \(X5\)`, "store64": `MOV X6, \(X5\)`,
		"fence": `FENCE`,
	},
}

// opcodes distinguishes the two narrow loads of amd64, which have one mnemonic: 0FB6 loads a byte
// and 0FB7 two.
var opcodes = map[string]string{"load8": "0fb6", "load16": "0fb7"}

// blockMoves are the instructions with which a block copy may touch memory: exactly 4 or 8 bytes.
var blockMoves = map[string]string{
	"amd64":   `^(MOVL|MOVQ) `,
	"arm64":   `^(MOVWU|MOVW|MOVD) `,
	"riscv64": `^(MOVWU|MOVW|MOV) `,
}

type instruction struct{ hex, text string }

func disassemble(t *testing.T, arch string) map[string][]instruction {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("no Go tools: %v", err)
	}
	object := filepath.Join(t.TempDir(), "mmio.o")
	tool := func(args ...string) string {
		cmd := exec.Command("go", append([]string{"tool"}, args...)...)
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go tool %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	tool("asm", "-p", "kmd", "-I", filepath.Join(strings.TrimSpace(string(root)), "pkg", "include"), "-o", object,
		"mmio_"+arch+".s")
	cmd := exec.Command("go", "tool", "objdump", object)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("objdump: %v\n%s", err, out)
	}
	routines := map[string][]instruction{}
	name := ""
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "TEXT kmd."); ok {
			name, _, _ = strings.Cut(rest, "(SB)")
			continue
		}
		f := strings.Fields(line)
		if len(f) < 4 || f[3] == "?" {
			continue
		}
		routines[name] = append(routines[name], instruction{f[2], strings.Join(f[3:], " ")})
	}
	return routines
}

// Trap 7.3: each routine touches device memory with one instruction of its width, and copies do
// with words of 4 and 8 bytes.
func TestObjectCodeOfDeviceAccesses(t *testing.T) {
	effort.Long(t) // builds the disassembler
	stack := regexp.MustCompile(`\((SP|RSP|X2)\)`)
	memory := regexp.MustCompile(`\([A-Z]+[0-9]*\)`)
	for arch, routines := range deviceAccess {
		t.Run(arch, func(t *testing.T) {
			code := disassemble(t, arch)
			for name, want := range routines {
				var own []instruction
				for _, i := range code[name] {
					if i.text != "RET" && !stack.MatchString(i.text) {
						own = append(own, i)
					}
				}
				if len(own) != 1 || !regexp.MustCompile("^"+want).MatchString(own[0].text) {
					t.Errorf("%s: %v, want one %s", name, own, want)
				} else if o := opcodes[name]; arch == "amd64" && !strings.HasPrefix(own[0].hex, o) {
					t.Errorf("%s: opcode %s, want %s", name, own[0].hex, o)
				}
			}
			for _, name := range []string{"copyTo", "copyFrom"} {
				n := 0
				for _, i := range code[name] {
					if !memory.MatchString(i.text) || stack.MatchString(i.text) || strings.Contains(i.text, "(PC)") {
						continue
					}
					n++
					if !regexp.MustCompile(blockMoves[arch]).MatchString(i.text) {
						t.Errorf("%s: %s", name, i.text)
					}
				}
				if n < 4 || n%2 != 0 {
					t.Errorf("%s: %d accesses to memory: is this disassembly read right?", name, n)
				}
			}
			expect.Equal(t, len(code), len(routines)+2, "routines")
		})
	}
}

func source(t *testing.T) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	files := map[string]*ast.File{}
	for _, n := range names {
		if strings.HasSuffix(n, "_test.go") {
			continue
		}
		if files[n], err = parser.ParseFile(set, n, nil, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
	}
	return set, files
}

func inspect(f *ast.File, visit func(n ast.Node, around []ast.Node)) {
	var around []ast.Node
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		visit(n, around)
		around = append(around, n)
		return true
	})
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return nameOf(e.X) + "." + e.Sel.Name
	case *ast.IndexExpr:
		return nameOf(e.X)
	}
	return ""
}

// Trap 7.3: the memory of a BAR never reaches copy, package bytes, an index or a system call, whose
// accesses have any width and order.
func TestDeviceMemoryStaysWithItsRoutines(t *testing.T) {
	set, files := source(t)
	uses := 0
	for name, f := range files {
		inspect(f, func(n ast.Node, around []ast.Node) {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if n.Sel.Name == "LockAcquireBlocking" {
					t.Errorf("%v: a lock that waits in the driver can't be ended by a context", set.Position(n.Pos()))
				}
				if n.Sel.Name != "Mem" {
					break
				}
				uses++
				call, _ := around[len(around)-1].(*ast.CallExpr)
				ok := call != nil && (nameOf(call.Fun) == "deviceMemoryOf" || nameOf(call.Fun) == "addressOf")
				if !ok {
					t.Errorf("%v: mapped memory is used in another way than as an address", set.Position(n.Pos()))
				}
			case *ast.ImportSpec:
				if n.Path.Value == `"unsafe"` && !strings.HasSuffix(name, "_unsafe.go") {
					t.Errorf("%s imports unsafe", name)
				}
			case *ast.CallExpr:
				switch c := nameOf(n.Fun); {
				case c == "unsafe.Slice" || strings.HasPrefix(c, "unix.RawSyscall") || strings.HasPrefix(c, "syscall.RawSyscall"):
					t.Errorf("%v: %s", set.Position(n.Pos()), c)
				case strings.HasPrefix(c, "os.Open"), c == "os.Create":
					// An *os.File has a finalizer that closes it, and tries the poller (7.1).
					t.Errorf("%v: %s: descriptors of the driver are numbers", set.Position(n.Pos()), c)
				case strings.HasPrefix(c, "atomic.") && name != "hostword_unsafe.go":
					// A store would be a locked exchange with the device on amd64 (7.3).
					t.Errorf("%v: %s on a pointer: device memory takes no atomics", set.Position(n.Pos()), c)
				}
			}
		})
	}
	if uses < 3 {
		t.Errorf("%d uses of mapped memory found: is it called something else now?", uses)
	}
}

// Trap 7.1: the driver zeroes as many bytes as it is told; only kabi.SetSize gives that number,
// from the struct.
func TestOutputSizesComeFromTheirStructs(t *testing.T) {
	set, files := source(t)
	found := 0
	for _, f := range files {
		inspect(f, func(n ast.Node, _ []ast.Node) {
			switch n := n.(type) {
			case *ast.Ident:
				if n.Name == "OutputSizeBytes" || n.Name == "OutputMappingCount" || n.Name == "Argsz" {
					t.Errorf("%v: %s is set by hand", set.Position(n.Pos()), n.Name)
				}
			case *ast.CallExpr:
				if c := nameOf(n.Fun); c == "ioctl" || c == "kabi.SetSize" {
					found++
				}
			}
		})
	}
	if found < 11 {
		t.Errorf("%d requests found", found)
	}
}

// Trap 7.4: earlier stores have left the processor before a re-target or an unmap.
func TestWindowsAreDrainedBeforeTheyMove(t *testing.T) {
	set, files := source(t)
	want := map[string]string{"configure": "ioctl", "unmapAndFree": "w.mapping.Unmap"}
	for _, d := range files["window.go"].Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || want[fn.Name.Name] == "" {
			continue
		}
		var drain, act token.Pos
		ast.Inspect(fn, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				switch nameOf(c.Fun) {
				case "w.Drain":
					drain = c.Pos()
				case want[fn.Name.Name]:
					act = c.Pos()
				}
			}
			return true
		})
		if drain == 0 || act == 0 || drain > act {
			t.Errorf("%v: drained at %v, done at %v", fn.Name, set.Position(drain), set.Position(act))
		}
		delete(want, fn.Name.Name)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

// Trap 7.1: an interrupted reset must not be made again; every other request is.
func TestOnlyResetsAreNotRetried(t *testing.T) {
	set, files := source(t)
	var direct []string
	for _, f := range files {
		inspect(f, func(n ast.Node, around []ast.Node) {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return
			}
			if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Ioctl" {
				fn := ""
				for _, a := range around {
					if d, ok := a.(*ast.FuncDecl); ok {
						fn = d.Name.Name
					}
				}
				direct = append(direct, fn)
			}
			if nameOf(c.Fun) == "ioctl" && len(c.Args) == 3 && nameOf(c.Args[1]) == "kabi.IoctlResetDevice" {
				t.Errorf("%v: a reset is retried", set.Position(c.Pos()))
			}
		})
	}
	slices.Sort(direct)
	expect.NoDiff(t, direct, []string{"Ioctl", "ioctlBytes", "resetIoctl"}, "requests are made in")
}
