package condortest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
)

// TestFilesTravelEncrypted: a job's credential goes to its worker and its output comes back, and who listens at the
// access point reads neither.
func TestFilesTravelEncrypted(t *testing.T) {
	t.Parallel()
	p := site.Pool(t)
	main, node := p.machines[Main], p.machines["gpus"]
	ear := listen(t, main)
	j := newJob(t, p, "kay", "cat uplink.json >result.json")
	write(t, filepath.Join(j.dir, "uplink.json"), strings.Repeat("the-job's-credential ", 5000))
	if err := os.Chmod(filepath.Join(j.dir, "uplink.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	j.submit(t, 1, on("gpus"), "+SlipwayBackfill = true", "transfer_input_files = uplink.json", "transfer_output_files = result.json")
	j.ends(t)
	if !strings.HasPrefix(j.read(t, "result.json"), "the-job's-credential ") {
		t.Error("the file has not come back")
	}
	node.must(t, "bash", "-c", "echo what-is-in-the-clear >/dev/udp/"+main.address+"/9")
	heard := ear.until(t, "what-is-in-the-clear")
	if len(heard) < 200_000 {
		t.Errorf("of the files only %d bytes were heard", len(heard))
	}
	if bytes.Contains(heard, []byte("the-job's-credential the-job's")) {
		t.Error("the credential travels in the clear")
	}
	if got := p.Admin(t, "condor_config_val", "SEC_DEFAULT_ENCRYPTION"); strings.TrimSpace(got) != "REQUIRED" {
		t.Errorf("encryption is %s", got)
	}
}

// ear hears every packet of a machine.
type ear struct{ file *os.File }

// listen opens an ear in a machine's network. The thread that went there ends with its goroutine.
func listen(t *testing.T, m *machine) ear {
	t.Helper()
	type opened struct {
		fd  int
		err error
	}
	done := make(chan opened)
	go func() {
		fd, err := m.packetSocket()
		done <- opened{fd, err}
	}()
	o := <-done
	if o.err != nil {
		t.Fatal(o.err)
	}
	f := os.NewFile(uintptr(o.fd), "packets")
	t.Cleanup(func() { f.Close() })
	return ear{f}
}

// packetSocket opens a socket in the machine's network that gets all of it. Its thread is not used again.
func (m *machine) packetSocket() (int, error) {
	runtime.LockOSThread()
	ns, err := os.Open("/proc/" + m.pid + "/ns/net")
	if err != nil {
		return 0, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("enter the network of %s: %w", m.name, err)
	}
	const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00 // as the network writes it
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, all)
	if err != nil {
		return 0, err
	}
	return fd, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
}

// until returns all that was heard up to a word.
func (e ear) until(t *testing.T, word string) []byte {
	t.Helper()
	if err := e.file.SetReadDeadline(time.Now().Add(testenv.Hang)); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for packet := make([]byte, 1<<17); ; {
		n, err := e.file.Read(packet)
		if err != nil {
			t.Fatalf("%q is not heard: %v", word, err)
		}
		all = append(all, packet[:n]...)
		if bytes.Contains(packet[:n], []byte(word)) {
			return all
		}
	}
}
