package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/hubapi/server"
	"slipway/internal/secret"
	"slipway/internal/store"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// fakeServiceEnv makes the test program a service over a fake backend, in a process of its own so that its CPU time and memory
// are its alone.
const fakeServiceEnv = "SLIPWAY_BENCH_FAKE_SERVICE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(fakeServiceEnv); dir != "" {
		if err := fakeService(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fakeService serves the real HTTP API over the real engine and store; only containers and agents are played.
func fakeService(ctx context.Context, dir string) error {
	log := slog.New(slog.DiscardHandler)
	records, err := store.Open(ctx, filepath.Join(dir, "records", "slipway.db"), log)
	if err != nil {
		return err
	}
	crew := spawnertest.NewCrew()
	backend := spawnertest.New(spawnertest.Config{Name: "docker", Started: crew.ComeUp, Ended: crew.GoDown})
	engine, err := spawner.New(ctx, spawner.Config{
		Store: records, Backends: []spawner.Backend{backend}, Agents: crew, Dir: filepath.Join(dir, "workloads"), Sessions: "docker", Logger: log,
		Account: func(context.Context, spawner.User) (spawner.Account, error) {
			return spawner.Account{UID: os.Getuid(), GID: os.Getgid(), Login: "u", Home: "/home/u"}, nil
		},
	})
	if err != nil {
		return err
	}
	crew.Dial(func(id spawner.ID, up bool) { engine.LinkChanged(ctx, id, up) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	s := server.New(server.Config{
		Engine: engine, Hubs: []server.Hub{{Name: "main", SpawnerToken: secret.New(spawnerToken)}}, Logger: log,
		Catalogue: spawner.Catalogue{
			Images:   []spawner.ImageChoice{{Name: "notebook", Title: "Notebook", Ref: "notebook"}},
			Profiles: []spawner.Profile{{Name: "small", Title: "Small", Kind: spawner.Lab, Images: []string{"notebook"}, CPUs: 1, Memory: 1 << 30, Default: true}},
		},
	})
	go func() { _ = engine.Run(ctx) }()
	return s.Run(ctx, server.Listeners{Public: l})
}

// BenchmarkSessionStarts starts 200 sessions on the fake backend through the real HTTP API, 20 at a time, and waits until each
// runs. It reports what the service spent: CPU seconds for one start, and its memory at the end.
func BenchmarkSessionStarts(b *testing.B) {
	const sessions = 200
	for b.Loop() {
		p := startFakeService(b)
		cpuBefore, began := p.cpu(b), time.Now()
		var wg sync.WaitGroup
		slots := make(chan struct{}, 20)
		for i := range sessions {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				p.startSession(b, i)
			})
		}
		wg.Wait()
		b.ReportMetric((p.cpu(b)-cpuBefore).Seconds()*1e3/sessions, "CPU-ms/start")
		b.ReportMetric(float64(time.Since(began).Milliseconds())/sessions, "wall-ms/start")
		b.ReportMetric(p.rss(b)/1e6, "RSS-MB")
		p.stop()
	}
}

type fakeProcess struct {
	cmd *exec.Cmd
	url string
}

func startFakeService(b *testing.B) fakeProcess {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fakeServiceEnv+"="+b.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return fakeProcess{cmd, "http://" + strings.TrimSpace(address)}
}

func (p fakeProcess) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed: an error by intent
}

func (p fakeProcess) startSession(b *testing.B, i int) {
	user := fmt.Sprintf("user%d", i)
	body, _ := json.Marshal(map[string]any{
		"user": user, "launch": "one", "prefix": "/user/" + user + "/", "argv": []string{"jupyterhub-singleuser"}, "options": map[string]any{},
		"env": map[string]string{"JUPYTERHUB_API_TOKEN": "x"}, "server_name": "",
	})
	var s struct{ ID, Phase string }
	p.call(b, http.MethodPost, "/api/v1/sessions", body, &s)
	for s.Phase != "running" {
		p.call(b, http.MethodGet, "/api/v1/sessions/"+s.ID+"/wait?launch=one", nil, &s)
	}
}

func (p fakeProcess) call(b *testing.B, method, path string, body []byte, into any) {
	req, err := http.NewRequest(method, p.url+path, bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+spawnerToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode > 299 || json.Unmarshal(text, into) != nil {
		b.Errorf("%s: %d %s", path, resp.StatusCode, text)
	}
}

// cpu gives the CPU time of the process so far, from /proc/PID/stat (clock ticks of 10 ms).
func (p fakeProcess) cpu(b *testing.B) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// rss gives the resident memory of the process in bytes.
func (p fakeProcess) rss(b *testing.B) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return float64(pages * os.Getpagesize())
}
