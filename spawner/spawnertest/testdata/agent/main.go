// Command agent stands in for Slipway's agent in the tests of backends: it is the first process of a workload, leaves a mark
// in what the workload keeps, and does what the variable SLIPWAY_TEST_AGENT asks.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// runs is the file in a workload's own storage that gets a line at each start.
const runs = "/var/tmp/slipway-test-runs"

func main() {
	if len(os.Args) != 2 || os.Args[1] != "agent" {
		fmt.Fprintf(os.Stderr, "want the one argument agent, got %q\n", os.Args[1:])
		os.Exit(64)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	mark()
	os.Exit(play(os.Getenv("SLIPWAY_TEST_AGENT"), asked))
}

func mark() {
	f, err := os.OpenFile(runs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString("run\n")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func play(order string, asked <-chan os.Signal) int {
	verb, rest, _ := strings.Cut(order, " ")
	switch verb {
	case "exit":
		code, err := strconv.Atoi(rest)
		if err != nil {
			return 2
		}
		return code
	case "stubborn":
		for range asked {
			continue
		}
	case "hog":
		hog()
	case "fork":
		fork(rest)
	case "report":
		report()
	}
	<-asked
	return 0
}

// hog touches 1 GiB of memory, which a limit is to prevent.
func hog() {
	var held [][]byte
	for range 1 << 10 {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		held = append(held, block)
	}
	fmt.Fprintln(os.Stderr, "no limit at", len(held), "MiB")
}

// fork starts as many children as it is told to, and writes how many came up.
func fork(count string) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return
	}
	up := 0
	for range n {
		child := exec.Command("/proc/self/exe", "agent")
		child.Env = []string{} // without an order: it only stays
		if child.Start() == nil {
			up++
		}
	}
	_ = os.WriteFile("/var/tmp/slipway-test-forks", []byte(strconv.Itoa(up)), 0o644)
}

// report writes what the kernel says of this process.
func report() {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		status = []byte(err.Error())
	}
	who, err := exec.Command("whoami").CombinedOutput()
	if err != nil {
		who = fmt.Appendf(who, " %v", err)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	text := fmt.Sprintf("%s\nWhoami: %s\nPid: %d\nEnv: %q\nMounts:\n%s", status, who, os.Getpid(), os.Environ(), mounts)
	if err := os.WriteFile("/var/tmp/slipway-test-report.part", []byte(text), 0o644); err == nil {
		_ = os.Rename("/var/tmp/slipway-test-report.part", "/var/tmp/slipway-test-report")
	}
}
