package mps

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// TestMain lets this test program play NVIDIA's, and the program that encloses a daemon.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-cuda-mps-control":
		syscall.Exit(playControl()) // not os.Exit, which waits and prints where tests are instrumented
	case "nvidia-cuda-mps-server":
		select {}
	case "enclose":
		fmt.Fprintln(os.Stderr, Enclose(os.Args[1:]))
		os.Exit(1)
	case "plain-enclose":
		fmt.Fprintln(os.Stderr, syscall.Exec(os.Args[3], os.Args[3:], os.Environ()))
		os.Exit(1)
	default:
		if err := flag.Set("test.parallel", "6"); err != nil { // they wait for processes most of the time; the command line has the last word
			panic(err)
		}
		os.Exit(m.Run())
	}
}

// manner is how the fake behaves. It is a file beside the program, read anew at each command.
type manner struct {
	Multi, V3                       bool
	NoStart, Mute, Refuse, Stubborn bool
	Wrong                           bool // it takes limits and has others
	ServerDies                      bool // protocol 3: a server that cannot use its GPU
	Floor                           bool // it prints limits in whole G
	DiesAtOnce, NoAnswer            bool
}

func readManner() (m manner) {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), "manner.json"))
	if err != nil {
		syscall.Exit(9) // the test is over
	}
	_ = json.Unmarshal(text, &m)
	return m
}

const help2 = `usage: nvidia-cuda-mps-control [-d | -f] [-S] [-v]
    -h, --help                      print this message
    -d                              start daemon in background
    -f                              start daemon in foreground
    -S, --static-partitioning       static partitioning
`

// playControl is NVIDIA's control program: it starts the daemon, or takes words to it.
func playControl() int {
	m, args := readManner(), os.Args[1:]
	pipe := os.Getenv("CUDA_MPS_PIPE_DIRECTORY")
	if slices.Contains(args, "-h") {
		switch {
		case m.V3 && slices.Contains(args, "3"):
			fmt.Print("Options:\n  -h, --help\n  -d, --daemon\n  -m, --multiuser\n  -p, --protocol <2|3>\nModules:\n  server\n  namespace\n  client\n")
		case m.Multi:
			fmt.Print(help2 + "    -M, --multiuser-server          one server for all users\n")
		default:
			fmt.Print(help2)
		}
		return 0
	}
	if slices.Contains(args, "-d") {
		return playStart(m, pipe)
	}
	if m.Mute {
		<-time.After(time.Minute)
	}
	var lines [][]string
	if len(args) > 0 {
		lines = append(lines, args)
	} else {
		text, _ := io.ReadAll(os.Stdin)
		for line := range strings.Lines(string(text)) {
			lines = append(lines, strings.Fields(line))
		}
	}
	for _, words := range lines {
		out, code, err := tell(pipe, words)
		if err != nil {
			fmt.Println("Cannot find MPS control daemon process")
			return 1
		}
		fmt.Print(out)
		if code != 0 {
			return code
		}
	}
	return 0
}

type answer struct {
	Out  string
	Code int
}

// tell takes one command to a fake daemon. A test tells it what clients do, too.
func tell(pipe string, words []string) (string, int, error) {
	c, err := net.Dial("unix", filepath.Join(pipe, "control"))
	if err != nil {
		return "", 0, err
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(words); err != nil {
		return "", 0, err
	}
	var a answer
	err = json.NewDecoder(c).Decode(&a)
	return a.Out, a.Code, err
}

func playStart(m manner, pipe string) int {
	if m.NoStart {
		fmt.Fprintln(os.Stderr, "Failed to initialize: no CUDA-capable device is detected")
		return 1
	}
	if os.Getenv("FAKE_DAEMON") != "" {
		playDaemon(pipe)
		return 0
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), "FAKE_DAEMON=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if cmd.Start() != nil {
		return 1
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	testenv.Within(testenv.Hang, func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		_, err := os.Stat(filepath.Join(pipe, "control"))
		return err == nil
	})
	return 0
}

// fakeDaemon is what a control daemon knows.
type fakeDaemon struct {
	mu      sync.Mutex
	pipe    string
	v3      bool
	percent string
	memory  string
	server  *exec.Cmd
	serving string // protocol 3: the server's name
	fault   bool
	clients map[int]string // to namespaces
	spaces  map[string][2]string
	seen    []string
}

func playDaemon(pipe string) {
	m := readManner()
	signal.Ignore(syscall.SIGHUP)
	if m.Stubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	go func() { // the test is over when its directory is gone
		for range time.Tick(100 * time.Millisecond) {
			readManner()
		}
	}()
	d := &fakeDaemon{pipe: pipe, v3: slices.Contains(os.Args, "3"), percent: "100.0", clients: map[int]string{}, spaces: map[string][2]string{}}
	pidFile := filepath.Join(pipe, "nvidia-cuda-mps-control.pid")
	_ = os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())), 0o644)
	if os.Getenv("CUDA_VISIBLE_DEVICES") == enclosedGPU {
		if shm, err := os.Create("/dev/shm/cuda.shm.fake"); err == nil {
			shm.Close()
		}
	}
	l, err := net.Listen("unix", filepath.Join(pipe, "control"))
	if err != nil || m.DiesAtOnce {
		syscall.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go d.serve(c)
	}
}

func (d *fakeDaemon) serve(c net.Conn) {
	defer c.Close()
	var words []string
	if json.NewDecoder(bufio.NewReader(c)).Decode(&words) != nil || len(words) == 0 {
		return
	}
	m := readManner()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, strings.Join(words, " "))
	a := answer{}
	quit := words[0] == "quit" || words[0] == "-q"
	switch {
	case strings.HasPrefix(words[0], "fake_"):
		a.Out = d.test(words)
	case m.Refuse && !quit:
		a.Out = "Failed to do so\n"
	case quit:
		if m.Stubborn {
			break
		}
		_ = json.NewEncoder(c).Encode(a)
		d.exit()
	case d.v3:
		a.Out, a.Code = d.answer3(m, words)
	default:
		a.Out, a.Code = d.answer2(m, words)
	}
	_ = json.NewEncoder(c).Encode(a)
}

func (d *fakeDaemon) exit() {
	if d.server != nil {
		_ = d.server.Process.Kill()
		_, _ = d.server.Process.Wait()
	}
	syscall.Exit(0)
}

// test is what a test says: that a program has become a client, or met a fault.
func (d *fakeDaemon) test(words []string) string {
	switch words[0] {
	case "fake_client":
		pid, _ := strconv.Atoi(words[1])
		d.clients[pid] = strings.Join(words[2:], "")
		d.startServer()
	case "fake_fault":
		d.fault = true
	case "fake_alter":
		d.percent = "100.0"
	case "fake_seen":
		return strings.Join(d.seen, "\n")
	}
	return ""
}

func (d *fakeDaemon) startServer() {
	if d.server != nil {
		return
	}
	d.server = exec.Command(filepath.Join(filepath.Dir(os.Args[0]), "nvidia-cuda-mps-server"))
	d.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	_ = d.server.Start()
}

func (d *fakeDaemon) pid() int {
	if d.server == nil {
		return 0
	}
	return d.server.Process.Pid
}

func (d *fakeDaemon) answer2(m manner, words []string) (string, int) {
	server := strconv.Itoa(d.pid())
	switch words[0] {
	case "get_default_active_thread_percentage":
		if m.NoAnswer {
			return "", 0
		}
		return d.percent + "\n", 0
	case "set_default_active_thread_percentage":
		d.percent = words[1] + ".0"
	case "get_default_device_pinned_mem_limit":
		return d.shown(m) + "\n", 0
	case "set_default_device_pinned_mem_limit":
		d.memory = words[2]
		if m.Wrong {
			d.memory = "1M"
		}
	case "set_device_pinned_mem_limit", "set_active_thread_percentage":
		if words[1] != server {
			return "Invalid server PID\n", 0
		}
	case "get_server_list":
		if d.server != nil {
			return server + "\n", 0
		}
	case "get_server_status":
		if d.fault {
			return "FAULT\n", 0
		}
		return "ACTIVE\n", 0
	case "get_client_list":
		out := ""
		for _, pid := range slices.Sorted(maps.Keys(d.clients)) {
			out += strconv.Itoa(pid) + "\n"
		}
		return out, 0
	case "terminate_client":
		pid, _ := strconv.Atoi(words[2])
		if _, ok := d.clients[pid]; !ok || words[1] != server {
			return "Invalid PID\n", 1
		}
		delete(d.clients, pid)
	default:
		return "Unknown command: " + words[0] + "\n", 0
	}
	return "", 0
}

// shown is a limit as a driver prints it: of some, in whole G.
func (d *fakeDaemon) shown(m manner) string {
	n, _ := strconv.Atoi(strings.TrimSuffix(d.memory, "M"))
	if m.Floor && n >= 1024 {
		return strconv.Itoa(n/1024) + "G"
	}
	return d.memory
}

func (d *fakeDaemon) answer3(m manner, words []string) (string, int) {
	option := func(name string) string {
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, "--"+name+"="); ok {
				return v
			}
		}
		return ""
	}
	switch words[0] + " " + words[1] {
	case "server create":
		if m.ServerDies {
			return "", 0
		}
		d.serving = words[2]
		d.startServer()
	case "server list":
		if d.serving == "" {
			return "", 0
		}
		status := "Ready"
		if d.fault {
			status = "Fault"
		}
		return fmt.Sprintf("%s,0,%d,%s,%s,GPU,-\n", d.serving, d.pid(), status, filepath.Join(d.pipe, d.serving)), 0
	case "server set":
	case "namespace create":
		if _, ok := d.spaces[words[2]]; ok || d.serving != option("server") {
			return "Error: namespace exists, or no such server\n", 1
		}
		d.spaces[words[2]] = [2]string{"-", "100.00"}
		_ = os.MkdirAll(filepath.Join(d.pipe, d.serving, words[2]), 0o755)
	case "namespace set":
		if _, ok := d.spaces[words[2]]; !ok {
			return "Error: no such namespace\n", 1
		}
		d.spaces[words[2]] = [2]string{option("pinned-memory-limit"), option("active-thread-percentage") + ".00"}
		if m.Wrong {
			d.spaces[words[2]] = [2]string{"-", "100.00"}
		}
	case "namespace delete":
		delete(d.spaces, words[2])
		_ = os.RemoveAll(filepath.Join(d.pipe, d.serving, words[2]))
	case "namespace list":
		if d.serving == "" {
			return "Error: no such server\n", 1
		}
		out := "default," + d.serving + ",Ready,1M,1.00,0,x\n"
		for _, name := range slices.Sorted(maps.Keys(d.spaces)) {
			out += fmt.Sprintf("%s,%s,Ready,%s,%s,0,x\n", name, d.serving, d.spaces[name][0], d.spaces[name][1])
		}
		return out, 0
	case "client list":
		out := ""
		for _, pid := range slices.Sorted(maps.Keys(d.clients)) {
			out += fmt.Sprintf("%d,%s,0,%s,python \"train, all\".py\n", pid, d.serving, d.clients[pid])
		}
		return out, 0
	case "client terminate":
		pid, _ := strconv.Atoi(words[2])
		if _, ok := d.clients[pid]; !ok {
			return "Error: no such client\n", 1
		}
		delete(d.clients, pid)
	default:
		return "Error: unknown command\n", 1
	}
	return "", 0
}
