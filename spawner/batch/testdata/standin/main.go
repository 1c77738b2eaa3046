// Command standin stands in for Slipway's program on a worker node in the tests of the backend: it is started as `slipway worker` in a
// sandbox, obeys the variable SLIPWAY_TEST_AGENT of its plan without any container, and leaves what a worker would.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

type plan struct {
	ID     string            `json:"id"`
	Launch string            `json:"launch"`
	Env    map[string]string `json:"env"`
}

type end struct {
	ExitCode int    `json:"exit_code"`
	Reason   string `json:"reason,omitempty"`
	Remedy   string `json:"remedy,omitempty"`
	Tail     string `json:"tail,omitempty"`
	Host     string `json:"host"`
}

func main() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	if len(os.Args) != 2 || os.Args[1] != "worker" {
		fmt.Fprintf(os.Stderr, "want the one argument worker, got %q\n", os.Args[1:])
		os.Exit(64)
	}
	var p plan
	data, err := os.ReadFile("plan.json")
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(65)
	}
	e := play(p, asked)
	e.Host, _ = os.Hostname()
	if data, err = json.Marshal(e); err == nil {
		err = os.WriteFile("out/end.json", data, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(66)
	}
	os.Exit(e.ExitCode)
}

func play(p plan, asked <-chan os.Signal) end {
	verb, rest, _ := strings.Cut(p.Env["SLIPWAY_TEST_AGENT"], " ")
	switch verb {
	case "exit":
		code, err := strconv.Atoi(rest)
		if err != nil {
			code = 2
		}
		return end{ExitCode: code}
	case "stubborn":
		for range asked {
			continue
		}
	case "leave":
		leave(p)
		return end{ExitCode: 3, Reason: "it said so", Remedy: "ask it", Tail: "the last line"}
	case "link":
		_ = os.Symlink("/etc/passwd", "out/log")
		return end{}
	case "report":
		report()
		return end{}
	}
	<-asked
	return end{}
}

// leave leaves what an agent and a worker leave of a job.
func leave(p plan) {
	for name, text := range map[string]string{
		"log": "printed by " + p.ID + "\n", "files/result.txt": "42\n", "changes.pack": "packed\n",
		"status.json": `{"launch":"` + p.Launch + `","state":"exited","exit_code":3,"log_size":30,"files":[{"name":"result.txt","size":3}]}`,
	} {
		name = filepath.Join("out", name)
		_ = os.MkdirAll(filepath.Dir(name), 0o700)
		_ = os.WriteFile(name, []byte(text), 0o600)
	}
}

// report lists what was sent: modes and names, and the contents of the link.
func report() {
	var b strings.Builder
	_ = filepath.WalkDir(".", func(name string, e os.DirEntry, err error) error {
		if info, err := os.Lstat(name); err == nil {
			fmt.Fprintf(&b, "%s %s\n", info.Mode(), name)
		}
		return nil
	})
	uplink, err := os.ReadFile("link/uplink.json")
	input, err2 := os.ReadFile("inputs/data.txt")
	fmt.Fprintf(&b, "uid %d\nuplink %s %v\ninput %s %v\nenv %q\n", os.Getuid(), uplink, err, input, err2, os.Environ())
	_ = os.MkdirAll("out", 0o700)
	_ = os.WriteFile("out/log", []byte(b.String()), 0o600)
}
