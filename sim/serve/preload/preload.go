// Package preload shows emulated cards to programs as device nodes of this machine: a C library for
// LD_PRELOAD redirects a program's calls and its loads and stores to a server of package cards.
// Linux on amd64 and arm64 only; programs that don't use the C library, as most in Go, see nothing.
//
// The library's sources are part of this package. [Library] compiles them once.
package preload

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve/cards"
)

// Variable is the environment variable that names the folder of [Serve].
const Variable = "REPRISE_CARD"

// ErrNoCompiler: there is no C compiler, or it can't compile the library.
var ErrNoCompiler = errors.New("the library for other programs needs a C compiler")

//go:embed library
var sources embed.FS

// Library returns the library's path in a cache, and compiles it there if it is missing.
func Library(ctx context.Context, cache string) (string, error) {
	names, err := fs.Glob(sources, "library/*")
	if err != nil {
		return "", err
	}
	h, files := sha256.New(), map[string][]byte{}
	for _, name := range names {
		b, err := sources.ReadFile(name)
		if err != nil {
			return "", err
		}
		files[path.Base(name)] = b
		_, _ = h.Write(b)
	}
	made := filepath.Join(cache, hex.EncodeToString(h.Sum(nil)[:8])+"-"+runtime.GOARCH+".so")
	if _, err := os.Stat(made); err == nil {
		return made, nil
	}
	compiler := strings.Fields(os.Getenv("CC"))
	for _, name := range []string{"cc", "gcc", "clang"} {
		if _, err := exec.LookPath(name); err == nil && len(compiler) == 0 {
			compiler = []string{name}
		}
	}
	if len(compiler) == 0 {
		return "", fmt.Errorf("%w: install gcc (apt install gcc libc6-dev), or name a compiler in CC", ErrNoCompiler)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(cache, ".build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	args := append(compiler[1:], "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-o", "card.so")
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return "", err
		}
		if strings.HasSuffix(name, ".c") {
			args = append(args, name)
		}
	}
	cmd := exec.CommandContext(ctx, compiler[0], append(args, "-ldl")...)
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s: %w: %s", ErrNoCompiler, cmd, err, said)
	}
	return made, os.Rename(filepath.Join(dir, "card.so"), made)
}

// Environment returns environ for a program that sees the cards of a folder.
func Environment(environ []string, library, dir string) []string {
	preloaded := library
	if others := os.Getenv("LD_PRELOAD"); others != "" {
		preloaded += ":" + others
	}
	return append(slices.Clone(environ), "LD_PRELOAD="+preloaded, Variable+"="+dir)
}

// Node returns a device node of the folder that [Variable] names, for programs without the C
// library.
func Node(dir, path string) seam.Node { return cards.Socket(filepath.Join(dir, path)).Node() }

// FS returns the files of the machine that a folder is of.
func FS(dir string) fs.FS { return cards.Socket(filepath.Join(dir, "server")).FS() }

// Serve makes the files of a machine in an empty folder and serves its cards there. Other processes
// have lost them when end returns.
func Serve(ctx context.Context, dir string, d *driver.Driver) (end func() error, err error) {
	if err := writeTree(dir, d.FS()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make([]error, d.Len())
	end = func() error {
		cancel()
		running.Wait()
		return errors.Join(errs...)
	}
	for i := range d.Len() {
		node := fmt.Sprintf("dev/tenstorrent/%d", d.Node(i).Ordinal())
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, node), Net: "unix"})
		if err == nil && i == 0 {
			err = os.Symlink(node, filepath.Join(dir, "server"))
		}
		if err != nil {
			return nil, errors.Join(err, end())
		}
		running.Go(func() { errs[i] = cards.Serve(ctx, l, d, i) })
	}
	return end, nil
}

// writeTree writes a machine's files, of which the library uses the names: contents change.
func writeTree(dir string, files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		at := filepath.Join(dir, name)
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return os.MkdirAll(at, 0o755)
		case e.Type() == fs.ModeSymlink:
			to, err := fs.ReadLink(files, name)
			if err != nil {
				return err
			}
			return os.Symlink(to, at)
		case e.Type().IsRegular():
			return os.WriteFile(at, nil, 0o644)
		}
		return nil // a device node
	})
}
