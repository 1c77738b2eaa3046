//go:build cgo

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/driverrpc"
	"slipway/internal/gpu/fakegpu"
)

// TestBuilt builds the program as it is installed, with a compiler that is set up as hardened distributions have it,
// and starts it on this host: whether it has NVIDIA's libraries or not, it must start.
func TestBuilt(t *testing.T) {
	program := filepath.Join(t.TempDir(), "slipway-gpu")
	buildAs(t, "build_gpu_helper", program, "CGO_LDFLAGS=-Wl,-z,relro -Wl,-z,now")
	if why := boundAtStart(t, program); why != "" {
		t.Errorf("the program binds all symbols as it starts (%s): on a host without NVIDIA's libraries it would not start", why)
	}
	if out, err := exec.Command(program, "version").CombinedOutput(); err != nil || string(out) != "slipway-gpu 1.2.3, go-nvml v0.13.4-0\n" {
		t.Errorf("version: %v, %s", err, out)
	}
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		return // what follows is about hosts without a driver
	}
	service := driverrpc.New(driverrpc.Config{Argv: []string{program, "drive"}, Logger: slog.New(slog.DiscardHandler)})
	if _, err := service.Devices(t.Context()); !errors.Is(err, gpu.ErrNoDriver) || !strings.Contains(err.Error(), "gpu.driver") {
		t.Errorf("the service is told %v", err)
	}
	if err := service.Close(); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"drive", "inventory", "watch"} {
		var stderr bytes.Buffer
		c := exec.Command(program, command)
		c.Stderr = &stderr
		_ = c.Run()
		if text := stderr.String(); c.ProcessState.ExitCode() != 1 || !strings.Contains(text, "no NVIDIA driver on this host") ||
			!strings.Contains(text, "install NVIDIA's driver") {
			t.Errorf("%s exits with %d: %s", command, c.ProcessState.ExitCode(), text)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "slipway-gpu drive"},
		{"reset", 2, `"reset" is no command`},
		{"help", 0, "slipway-gpu drive"},
		{"inventory -h", 0, "-json"},
		{"inventory --yaml", 2, "yaml"},
		{"inventory all", 2, `"all" is no option`},
		{"drive fast", 2, "no arguments"},
		{"watch --every 0", 2, "--every"},
		{"load --memory much", 2, "much"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), strings.Fields(c.args), &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q exits with %d: %s", c.args, code, &out)
		}
	}
}

func host(t *testing.T) *fakegpu.Driver {
	t.Helper()
	d, err := fakegpu.New(fakegpu.Config{Models: []string{"H200/mig", "A100-80"}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestInventory(t *testing.T) {
	d := host(t)
	devices, err := d.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreateInstance(t.Context(), devices[0].UUID, "3g.71gb", gpu.Placement{Start: 4, Size: 4}); err != nil {
		t.Fatal(err)
	}
	d.Fail(devices[1].UUID, fakegpu.Fault{On: fakegpu.OpRead, Err: gpu.ErrDenied})
	s, err := take(t.Context(), d)
	if err != nil || len(s.GPUs) != 2 || len(s.GPUs[0].Device.Profiles) < 6 || len(s.GPUs[0].Instances) != 1 || s.GPUs[0].Reading == nil {
		t.Fatalf("%+v, %v", s, err)
	}
	if f := s.GPUs[1]; f.Reading != nil || !strings.Contains(f.Problem, "not permitted") {
		t.Errorf("a GPU that cannot be read: %+v", f)
	}
	var out strings.Builder
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NVIDIA H200", "3g.71gb", "at most 2", "GI ", "not permitted"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	d.Fail("", fakegpu.Fault{On: fakegpu.OpDevices, Err: gpu.ErrNoDriver})
	if _, err := take(t.Context(), d); err == nil {
		t.Error("an inventory without devices")
	}
}

func TestObserve(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- observe(ctx, host(t), time.Millisecond, w) }()
	met := map[string]int{}
	for dec := json.NewDecoder(r); len(met) < 2 || met[oneOf(met)] < 3; {
		var m moment
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		met[m.UUID]++
	}
	cancel()
	_ = r.Close()
	if err := <-done; err != nil && err != io.ErrClosedPipe {
		t.Error(err)
	}
}

func oneOf(met map[string]int) string {
	for uuid := range met {
		return uuid
	}
	return ""
}
