package ttnn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

const (
	rootModule    = "github.com/reprise-tt/reprise"
	libraryFolder = "sim/libttsim/cshared"
	libraryModule = rootModule + "/" + libraryFolder
)

// LibraryName is the file name of the simulator library.
const LibraryName = "libttsim.so"

// Libraries finds and builds the simulator library.
type Libraries struct {
	Cache string
	// Executable is the running program: a library beside it is used.
	Executable string
	// Source is a folder in a checkout or module cache with the library's sources; may be empty.
	Source string
}

// linkerFlags disable Go's preemption signals, since Python's faulthandler removes the signal stack
// that they need.
const linkerFlags = "-s -w -X=runtime.godebugDefault=asyncpreemptoff=1"

func noLibrary(found, fix string, err error) error {
	return &Error{Kind: ErrNoLibrary, Found: found, Fix: fix, Err: err}
}

// CheckLibrary returns an error unless a file is a simulator library that Reprise made.
func CheckLibrary(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err == nil && info.Path != libraryModule {
		err = fmt.Errorf("it is a Go program, %s", info.Path)
	}
	if err != nil {
		return noLibrary(path+" is not Reprise's "+LibraryName, "make one with: reprise ttnn library -o DIR", err)
	}
	return nil
}

// Find returns the path of a library beside the program or in the cache. Otherwise it calls
// building with a sentence for the user and builds one into the cache. The error is an *Error of
// ErrNoLibrary or the context's.
func (l *Libraries) Find(ctx context.Context, building func(string)) (string, error) {
	path, ok, err := l.find()
	if ok || err != nil {
		return path, err
	}
	building("building the simulator library, once for this version of reprise")
	return path, l.Build(ctx, path)
}

func (l *Libraries) find() (path string, ok bool, err error) {
	if l.Executable != "" {
		path := filepath.Join(filepath.Dir(l.Executable), LibraryName)
		if CheckLibrary(path) == nil {
			return path, true, nil
		}
	}
	key, err := l.key()
	if err != nil {
		return "", false, noLibrary(l.Executable, "check that the program's file can be read", err)
	}
	path = filepath.Join(l.Cache, key, LibraryName)
	return path, CheckLibrary(path) == nil, nil
}

// key identifies the program's version; other versions' libraries aren't used.
func (l *Libraries) key() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") &&
		!strings.Contains(info.Main.Version, "+dirty") {
		return info.Main.Version + "-" + runtime.GOARCH, nil
	}
	f, err := os.Open(l.Executable)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return "devel-" + hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// Build builds the library to a path, completely or not at all. It needs Go, a C compiler and the
// sources. The error is an *Error of ErrNoLibrary or the context's.
func (l *Libraries) Build(ctx context.Context, path string) error {
	orCopy := ", or copy a " + LibraryName + " that `reprise ttnn library -o DIR` made elsewhere beside the reprise program"
	const elsewhere = "free space or name another folder with -o"
	if runtime.GOOS != "linux" {
		return noLibrary("TT-NN runs on Linux, and this is "+runtime.GOOS, "use a Linux machine or container", nil)
	}
	if _, err := exec.LookPath("go"); err != nil {
		return noLibrary("building it needs Go", "install Go"+orCopy, err)
	}
	dir, err := l.sources(ctx)
	if err != nil {
		return err
	}
	out, err := goTool(ctx, dir, "env", "CC")
	if err != nil {
		return noLibrary("go env CC", "check the installation of Go", err)
	}
	if cc := strings.Fields(string(out)); len(cc) == 0 {
		return noLibrary("Go has no C compiler", "go env -w CC=gcc", nil)
	} else if _, err := exec.LookPath(cc[0]); err != nil {
		return noLibrary("building it needs a C compiler", "install gcc (apt install gcc)"+orCopy, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return noLibrary("no folder for it can be made", elsewhere, err)
	}
	at, err := os.MkdirTemp(filepath.Dir(path), ".build")
	if err != nil {
		return noLibrary("nothing can be written beside it", elsewhere, err)
	}
	defer os.RemoveAll(at)
	made := filepath.Join(at, LibraryName)
	if _, err := goTool(ctx, dir, "build", "-buildmode=c-shared", "-tags", "netgo,osusergo", "-trimpath", "-ldflags="+linkerFlags,
		"-o", made, "."); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return noLibrary("go build in "+dir, "read the compiler's message above", err)
	}
	if err := os.Rename(made, path); err != nil {
		return noLibrary("it can't get its name", "remove what is at "+path, err)
	}
	return nil
}

func (l *Libraries) sources(ctx context.Context) (string, error) {
	var err error
	if l.Source != "" {
		var out []byte
		if out, err = goTool(ctx, l.Source, "list", "-m", "-f", "{{.Dir}}", rootModule); err == nil {
			dir := filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(libraryFolder))
			if _, err = os.Stat(dir); err == nil {
				return dir, nil
			}
		}
	}
	return "", noLibrary("its sources are in a checkout of the repository", "run `go run ./cmd/reprise ttnn library` in one", err)
}

func goTool(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOWORK=off")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(strings.TrimSpace(said.String())))
	}
	return out, err
}
