// Package images packs a package's images of kernels or firmware into one compressed archive for
// each chip, and unpacks them.
package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/chip"
)

// Ext is the extension of archives.
const Ext = ".tar.gz"

// maxUnpacked limits the bytes of an unpacked archive, headers included; the project's largest has
// 1.5 MB.
const maxUnpacked = 16 << 20

// Set holds a package's images, for any goroutine. A chip's archive is unpacked at its first use.
type Set struct {
	archives map[chip.Arch]func() (map[string][]byte, error)
}

// New returns the images in the archives of a folder, which are named after the chips.
func New(files fs.FS, folder string) Set {
	s := Set{archives: map[chip.Arch]func() (map[string][]byte, error){}}
	for _, a := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		s.archives[a] = sync.OnceValues(func() (map[string][]byte, error) {
			archive, err := fs.ReadFile(files, folder+"/"+a.String()+Ext)
			if err != nil {
				return nil, err
			}
			return Unpack(archive)
		})
	}
	return s
}

// Files returns all images for a chip by path.
func (s Set) Files(a chip.Arch) (map[string][]byte, error) {
	unpack, ok := s.archives[a]
	if !ok {
		return nil, fmt.Errorf("images: no archive for %v: %w", a, fs.ErrNotExist)
	}
	return unpack()
}

// ELF is File for name.elf.
func (s Set) ELF(a chip.Arch, name string) ([]byte, error) { return s.File(a, name+".elf") }

// File returns a copy of the image with a path. The error of a missing image wraps
// [fs.ErrNotExist].
func (s Set) File(a chip.Arch, name string) ([]byte, error) {
	files, err := s.Files(a)
	if err != nil {
		return nil, err
	}
	file, ok := files[name]
	if !ok {
		return nil, fmt.Errorf("images: %s for %v: %w", name, a, fs.ErrNotExist)
	}
	return bytes.Clone(file), nil
}

// Pack returns an archive of files by path, which depends only on the files and the version of
// compress/gzip.
func Pack(files map[string][]byte) ([]byte, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("images: pack: %w", err)
	}
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: name, Mode: 0o644,
			Size: int64(len(files[name]))})
		if err == nil {
			_, err = w.Write(files[name])
		}
		if err != nil {
			return nil, fmt.Errorf("images: pack %s: %w", name, err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("images: pack: %w", err)
	}
	_, err = Unpack(packed.Bytes())
	return packed.Bytes(), err
}

// Unpack returns the files of an archive by path.
func Unpack(archive []byte) (map[string][]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("images: unpack: %w", err)
	}
	unpacked, err := io.ReadAll(io.LimitReader(z, maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("images: unpack: %w", err)
	}
	if len(unpacked) > maxUnpacked {
		return nil, fmt.Errorf("images: unpack: more than %d bytes", maxUnpacked)
	}
	files, last := map[string][]byte{}, ""
	for r := tar.NewReader(bytes.NewReader(unpacked)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("images: unpack: %w", err)
		}
		if h.Format != tar.FormatUSTAR || h.Typeflag != tar.TypeReg || !fs.ValidPath(h.Name) || h.Name <= last {
			return nil, fmt.Errorf("images: unpack %q: not a plain file with a valid path behind %q", h.Name, last)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("images: unpack %q: %w", h.Name, err)
		}
		last = h.Name
	}
}
