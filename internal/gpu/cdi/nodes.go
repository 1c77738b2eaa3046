package cdi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// Minor numbers that the driver fixes.
const (
	minorControl  = 255
	minorUVM      = 0
	minorUVMTools = 1
)

const minorsFile = "/proc/driver/nvidia-caps/mig-minors"

// nodes returns the device nodes of a GPU, or of one instance of it.
func (h *Host) nodes(dev gpu.Device, in *gpu.Instance) ([]gpu.DeviceNode, error) {
	text, err := os.ReadFile(h.path("/proc/devices"))
	if err != nil {
		return nil, fmt.Errorf("read which devices there are: %w", err)
	}
	majors := parseMajors(text)
	want := []gpu.DeviceNode{
		{
			Path: fmt.Sprintf("/dev/nvidia%d", dev.Minor), Major: majors.of("nvidia", "nvidia-frontend"),
			Minor: int64(dev.Minor),
		},
		{Path: "/dev/nvidiactl", Major: majors.of("nvidiactl", "nvidia", "nvidia-frontend"), Minor: minorControl},
		{Path: "/dev/nvidia-uvm", Major: majors.of("nvidia-uvm"), Minor: minorUVM},
		{Path: "/dev/nvidia-uvm-tools", Major: majors.of("nvidia-uvm"), Minor: minorUVMTools},
	}
	caps, err := h.caps(dev, in)
	if err != nil {
		return nil, err
	}
	for _, n := range caps {
		want = append(want, gpu.DeviceNode{
			Path: fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n), Major: majors.of("nvidia-caps"), Minor: int64(n),
		})
	}
	for i := range want {
		if want[i].Major < 0 {
			return nil, errs.New(errs.Missing, "the driver offers no device for %s", want[i].Path).With("load its kernel modules: `modprobe nvidia nvidia-uvm`")
		}
		if h.path(want[i].Path) != want[i].Path {
			want[i].Host = h.path(want[i].Path)
		}
		if err := h.ensure(h.path(want[i].Path), want[i]); err != nil {
			return nil, err
		}
	}
	return want, nil
}

// caps returns the numbers of the capability nodes of an instance: the driver's word by way of the instance, or its own
// list.
func (h *Host) caps(dev gpu.Device, in *gpu.Instance) ([]int, error) {
	if in == nil {
		return nil, nil
	}
	if len(in.Caps) > 0 {
		return in.Caps, nil
	}
	text, err := os.ReadFile(h.path(minorsFile))
	if err != nil {
		return nil, fmt.Errorf("read the capabilities of instance %d: %w", in.GI, err)
	}
	minors := parseMinors(text)
	var caps []int
	for _, name := range []string{
		fmt.Sprintf("gpu%d/gi%d/access", dev.Minor, in.GI),
		fmt.Sprintf("gpu%d/gi%d/ci%d/access", dev.Minor, in.GI, in.CI),
	} {
		n, known := minors[name]
		if !known {
			return nil, errs.New(errs.Unavailable, "%s does not name %s", minorsFile, name)
		}
		caps = append(caps, n)
	}
	return caps, nil
}

// ensure sees to it that a device node is there and has the numbers that the loaded driver has. One of other numbers is
// left from another driver: it may be in use, so it is not replaced.
func (h *Host) ensure(path string, n gpu.DeviceNode) error {
	major, minor, err := h.numbersOf(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := h.makeNode(path, n); err != nil {
			return fmt.Errorf("make device %s: %w", path, err)
		}
		major, minor, err = h.numbersOf(path)
	}
	switch {
	case err != nil:
		return fmt.Errorf("look at device %s: %w", path, err)
	case major != n.Major || minor != n.Minor:
		return errs.New(
			errs.Conflict, "device %s is %d:%d, and the loaded driver has %d:%d", path, major, minor, n.Major, n.Minor,
		).With("remove it when nothing uses a GPU; the driver makes it anew")
	}
	return nil
}

func (h *Host) numbersOf(path string) (major, minor int64, err error) {
	if h.numbers != nil {
		return h.numbers(path)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return 0, 0, errors.New("it is no character device")
	}
	return int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev)), nil
}

// makeNode makes a node as the vendor's own program does: for everybody, since the kernel's driver asks for the rights.
func (h *Host) makeNode(path string, n gpu.DeviceNode) error {
	if h.make != nil {
		return h.make(path, n.Major, n.Minor)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(uint32(n.Major), uint32(n.Minor))))
	if errors.Is(err, fs.ErrExist) { // somebody else was quicker; its numbers are looked at
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, 0o666) // whatever the umask
}

// majors are the major numbers of character devices by the names of their drivers.
type majors map[string]int64

// of returns the number of the first name that there is; -1 when there is none.
func (m majors) of(names ...string) int64 {
	i := slices.IndexFunc(names, func(name string) bool { _, known := m[name]; return known })
	if i < 0 {
		return -1
	}
	return m[names[i]]
}

// parseMajors reads /proc/devices.
func parseMajors(text []byte) majors {
	m := majors{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		switch line := strings.TrimSpace(lines.Text()); line {
		case "Block devices:":
			return m
		default:
			number, name, _ := strings.Cut(line, " ")
			if n, err := strconv.ParseInt(number, 10, 32); err == nil && n >= 0 && name != "" {
				m[name] = n
			}
		}
	}
	return m
}

// parseMinors reads the driver's list of capabilities: "gpu0/gi1/access 12".
func parseMinors(text []byte) map[string]int {
	m := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, number, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if n, err := strconv.Atoi(number); err == nil && n >= 0 && name != "" {
			m[name] = n
		}
	}
	return m
}
