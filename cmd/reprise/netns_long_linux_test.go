//go:build long || hours

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// namespaces makes n network namespaces, linked by a bridge in one more, and returns the command
// line of an mpirun that starts a process in each of them.
func namespaces(t *testing.T, n int) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces are made by root only")
	}
	for _, tool := range []string{"ip", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("no ", tool, ": install iproute2 and util-linux")
		}
	}
	ip := func(line string, args ...any) error {
		line = fmt.Sprintf(line, args...)
		out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
		return nil
	}
	name := fmt.Sprintf("reprise%d-", os.Getpid())
	for i := range n + 1 { // number 0 has the bridge
		if err := ip("netns add %s%d", name, i); err != nil {
			t.Skip("no network namespaces: ", err)
		}
		t.Cleanup(func() {
			if err := ip("netns del %s%d", name, i); err != nil { // with all that is in it
				t.Error(err)
			}
		})
	}
	do := func(line string, args ...any) {
		t.Helper()
		must(t, ip(line, args...))
	}
	do("-n %s0 link add bridge0 type bridge", name)
	do("-n %s0 link set bridge0 up", name)
	var hosts []string
	for i := 1; i <= n; i++ {
		do("-n %s0 link add v%d type veth peer name eth0 netns %s%d", name, i, name, i)
		do("-n %s0 link set v%d master bridge0 up", name, i)
		do("-n %s%d addr add 10.77.77.%d/24 dev eth0", name, i, i)
		do("-n %s%d link set eth0 up", name, i)
		do("-n %s%d link set lo up", name, i)
		hosts = append(hosts, fmt.Sprintf("10.77.77.%d:1", i))
	}
	// What mpirun calls in the place of ssh. Hosts have names, so that MPI takes them for several.
	agent := filepath.Join(t.TempDir(), "agent")
	script := fmt.Sprintf(
		"#!/bin/sh\nn=${1##*.}\nshift\nexec ip netns exec %s$n unshare -u sh -c 'hostname node'$n'; exec sh -c \"$*\"' sh \"$@\"\n",
		name,
	)
	must(t, os.WriteFile(agent, []byte(script), 0o755))
	t.Setenv("OMPI_MCA_plm_rsh_agent", agent) // version 4
	t.Setenv("PRTE_MCA_plm_ssh_agent", agent) // version 5
	return []string{"ip", "netns", "exec", name + "1", "unshare", "-u", "sh", "-c", `hostname node1; exec "$@"`, "sh",
		"mpirun", "--host", strings.Join(hosts, ","), "--map-by", "node:OVERSUBSCRIBE", "-n", fmt.Sprint(n)}
}

// The hosts share no loopback interface.
func TestNamespaces(t *testing.T) {
	mpirun := namespaces(t, 4)
	t.Run("demo", func(t *testing.T) {
		j := startJobOf(t, mpirun, "demo", "--device", "emu:quietbox", "--batch", "64", "--hosts", "mpi")
		err := j.Wait()
		alone, failed := exec.Command("reprise", "demo", "--device", "emu:quietbox", "--batch", "64").CombinedOutput()
		if err != nil || failed != nil {
			t.Fatalf("%v\n%s\n%v\n%s", err, &j.out, failed, alone)
		}
		for _, want := range []string{"accuracy ", "trace: "} {
			i := strings.Index(string(alone), want)
			if i < 0 {
				t.Fatalf("one process prints no %q:\n%s", want, alone)
			}
			line, _, _ := strings.Cut(string(alone[i:]), "\n")
			if !strings.Contains(j.out.String(), "\n"+line+"\n") {
				t.Errorf("one process prints %q, four hosts\n%s", line, &j.out)
			}
		}
		for _, want := range []string{"4 chips as a mesh of 2x2 over 4 processes", "host 0 ", "host 1 ", "host 2 ", "host 3 "} {
			if !strings.Contains(j.out.String(), want) {
				t.Errorf("no %q in\n%s", want, &j.out)
			}
		}
	})
	t.Run("generate", func(t *testing.T) {
		startJobOf(t, mpirun, generateArgs...).wantWords(t, 4)
	})
}
