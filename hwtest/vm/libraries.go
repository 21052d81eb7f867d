package vm

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A LibraryError says which libraries of a program are missing on this machine.
type LibraryError struct {
	Program string
	Missing []string
}

func (e *LibraryError) Error() string {
	return fmt.Sprintf("vm: %s: this machine has no %s", e.Program, strings.Join(e.Missing, ", "))
}

// needs lists what else a program needs to run: its loader and libraries, as the loader finds them,
// or a script's interpreter with what that needs.
func needs(program string) ([]string, error) {
	f, err := os.Open(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n'); err == nil && strings.HasPrefix(line, "#!") {
		words := strings.Fields(line[2:])
		if len(words) == 0 {
			return nil, nil
		}
		more, err := needs(words[0])
		return append(more, words[0]), err
	}
	e, err := elf.NewFile(f)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) {
		return nil, nil // data
	} else if err != nil {
		return nil, fmt.Errorf("vm: %s: %w", program, err)
	}
	loader := ""
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			if err != nil {
				return nil, fmt.Errorf("vm: %s: %w", program, err)
			}
			loader = string(bytes.TrimRight(b, "\x00"))
		}
	}
	if loader == "" {
		return nil, nil
	}
	out, err := exec.Command(loader, "--list", program).Output()
	libraries, missing := parseLoader(string(out))
	if len(missing) > 0 {
		return nil, &LibraryError{Program: program, Missing: missing}
	}
	if err != nil {
		return nil, fmt.Errorf("vm: find the libraries of %s: %w", program, err)
	}
	return append(libraries, loader), nil
}

// parseLoader returns the paths of libraries in what a loader lists, and the names of those that it
// hasn't found.
func parseLoader(out string) (found, missing []string) {
	for line := range strings.Lines(out) {
		name, rest, arrow := strings.Cut(strings.TrimSpace(line), " => ")
		if !arrow {
			rest = name
		}
		switch w := strings.Fields(rest); {
		case arrow && strings.HasPrefix(rest, "not found"):
			missing = append(missing, name)
		case len(w) > 0 && strings.HasPrefix(w[0], "/"):
			found = append(found, w[0])
		}
	}
	return found, missing
}
