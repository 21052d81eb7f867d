//go:build ignore

// This program writes the names of system calls, from the numbers in golang.org/x/sys/unix.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var line = regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)$`)

func main() {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		log.Fatal(err)
	}
	var b bytes.Buffer
	for _, arch := range []string{"amd64", "arm64", "riscv64"} {
		src, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "zsysnum_linux_"+arch+".go"))
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range line.FindAllStringSubmatch(string(src), -1) {
			fmt.Fprintf(&b, "%s %s %s\n", arch, m[2], strings.ToLower(m[1]))
		}
	}
	if err := os.WriteFile("names.txt", b.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
