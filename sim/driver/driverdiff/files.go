package driverdiff

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// Files compares the drivers' files about an idle card: the model's, b, with the file system's, a,
// except for machines' differences.
func Files(a, b fs.FS) (l []Difference, err error) {
	differ := func(name, x, y string) {
		if x != y {
			l = append(l, Difference{Request: "file " + name, A: x, B: y})
		}
	}
	seen := map[string]bool{}
	err = fs.WalkDir(b, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type() != 0 || strings.HasPrefix(name, "proc/") && !strings.HasPrefix(name, "proc/driver/") ||
			path.Base(name) == "dev" {
			return err
		}
		real := name
		if at := strings.Index(name, "/hwmon/hwmon"); at >= 0 {
			found, err := fs.Glob(a, name[:at]+"/hwmon/hwmon*/"+path.Base(name))
			if err != nil {
				return err
			}
			if len(found) == 1 {
				real = found[0]
			}
		}
		seen[real] = true
		x, y := content(a, real), content(b, name)
		switch path.Base(name) {
		case "config":
			x, y = identity(x), identity(y)
		case "uevent": // the model has some of the lines
			for _, line := range strings.Split(strings.TrimSpace(y), "\n") {
				if !strings.Contains("\n"+x, "\n"+line+"\n") {
					differ(name, x, y)
				}
			}
			return nil
		case "tt_heartbeat":
			return nil
		case "version": // without the build's suffix
			x, _, _ = strings.Cut(strings.TrimSpace(x), "-")
			y = strings.TrimSpace(y)
		case "type": // the kernel chooses between two kinds of domains that translate
			x, y = strings.TrimSuffix(x, "-FQ\n"), strings.TrimSuffix(y, "-FQ\n")
			x = strings.TrimSuffix(x, "\n")
		}
		differ(name, x, y)
		return nil
	})
	if err != nil {
		return l, fmt.Errorf("driverdiff: files: %w", err)
	}
	for _, pattern := range []string{"sys/class/tenstorrent/*/tt_*", "sys/bus/pci/drivers/tenstorrent/*/hwmon/hwmon*/*[0-9]_*",
		"proc/driver/tenstorrent/*/*"} {
		found, err := fs.Glob(a, pattern)
		if err != nil {
			return l, fmt.Errorf("driverdiff: files: %w", err)
		}
		for _, name := range found {
			name = strings.Replace(name, "sys/bus/pci/drivers/tenstorrent/", "sys/bus/pci/devices/", 1)
			if !seen[name] {
				differ(name, content(a, name), "no such file")
			}
		}
	}
	return l, nil
}

func content(f fs.FS, name string) string {
	b, err := fs.ReadFile(f, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.Is(err, syscall.ENODATA):
		return "no data"
	case err != nil:
		return err.Error()
	}
	return string(b)
}

func identity(config string) string {
	b := []byte(config)
	if len(b) < 64 {
		return config
	}
	return fmt.Sprintf("%x", bytes.Join([][]byte{b[:4], b[8:12], b[0x2C:0x30]}, nil))
}
