package local_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// grab is a job that tries to come to a device by every way that its user has: nodes in the image, in the home, in
// scratch, nodes that it makes, and the namespaces of whatever else it can see.
const grab = `cd /var/tmp
for n in /opt/node /opt/open/node /home/wanda/node /opt/linked /dev/nvidia0 /proc/*/root/dev/fuse0 /proc/*/root/dev/nvidia*; do
	[ -e $n ] && (: < $n) 2>/dev/null && echo $n
done > opened
busybox mknod /var/tmp/made c 10 229 2>/dev/null && echo made >> opened
busybox unshare -r -m busybox mount -t devtmpfs none /opt 2>/dev/null && echo devtmpfs >> opened
busybox ps -o comm > processes
ls /dev > devices
exec busybox touch ready
`

// hostileImage is one whose maker has put device nodes, links to them, and GPUs' variables into it.
func hostileImage(t *testing.T) string {
	t.Helper()
	tree, image := filepath.Join(shared(), "hostile"), filepath.Join(shared(), "hostile.sqfs")
	built(t, "image.sqfs") // and with it the tree
	out, err := exec.Command("cp", "-a", filepath.Join(shared(), "tree"), tree).CombinedOutput()
	if err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	must(t, errors.Join(os.MkdirAll(filepath.Join(tree, "opt/open"), 0o777), os.MkdirAll(filepath.Join(tree, ".singularity.d/env"), 0o755)))
	for _, name := range []string{"opt/node", "opt/open/node", "dev/nvidia0"} {
		must(t, syscall.Mknod(filepath.Join(tree, name), syscall.S_IFCHR|0o666, 10<<8|229))
		must(t, os.Chmod(filepath.Join(tree, name), 0o666))
	}
	must(t, os.Symlink("/home/wanda/node", filepath.Join(tree, "opt/linked")))
	must(t, os.WriteFile(filepath.Join(tree, ".singularity.d/env/90-environment.sh"),
		[]byte("export NVIDIA_VISIBLE_DEVICES=all APPTAINER_NV=true SINGULARITY_NV=true\n"), 0o755))
	out, err = exec.Command("mksquashfs", tree, image, "-quiet", "-no-progress", "-noappend").CombinedOutput()
	if err != nil {
		t.Fatalf("mksquashfs: %v\n%s", err, out)
	}
	return image
}

// TestAJobTakesNoDevice: nodes that a user can bring along open no device, and no word of an image's gives one, however
// generous the host's Apptainer is. What an image says of its environment may stand: nobody but its user's own programs
// read it.
func TestAJobTakesNoDevice(t *testing.T) {
	w := newWorld(t)
	w.spied(t)
	w.script(t, grab)
	l := w.launch(t)
	l.SIF = hostileImage(t)
	for _, dir := range []string{l.Account.HomeDir, filepath.Join(l.Dir, "run")} {
		must(t, syscall.Mknod(filepath.Join(dir, "node"), syscall.S_IFCHR|0o666, 10<<8|229))
		must(t, os.Chmod(filepath.Join(dir, "node"), 0o666))
	}
	j := start(t, w, l)
	j.exited(t)
	if got := j.file(t, "opened"); got != "" {
		t.Errorf("it has opened %q", strings.Fields(got))
	}
	for _, name := range strings.Fields(j.file(t, "devices")) {
		if strings.HasPrefix(name, "nvidia") || name == "kvm" || name == "net" {
			t.Errorf("its /dev has %s", name)
		}
	}
	if seen := j.file(t, "processes"); strings.Contains(seen, "slipway-local") || strings.Contains(seen, "dockerd") {
		t.Errorf("it sees processes of the host: %q", strings.Fields(seen))
	}
}

// TestAJobSetsNoGPU: variables that choose GPUs, or speak to Apptainer, are refused under every name by which they
// could come.
func TestAJobSetsNoGPU(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{
		"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "SLIPWAY_GPU_EXPECT", "SLIPWAY_GPU_DIR",
		"APPTAINERENV_NVIDIA_VISIBLE_DEVICES", "APPTAINER_NV", "APPTAINER_BIND", "APPTAINER_DEVICE", "SINGULARITYENV_CUDA_VISIBLE_DEVICES", "SINGULARITY_NVCCLI", "SLIPWAY_ID",
		"NVIDIA_VISIBLE_DEVICES=all\nX", "A=B", "",
	} {
		l := w.launch(t)
		l.Spec.Env[name] = "all"
		if err := w.backend(t).Start(t.Context(), l); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: Start = %v", name, err)
		}
	}
	l := w.launch(t)
	l.GPU = &gpu.Binding{Env: map[string]string{}, Devices: []gpu.DeviceNode{{Path: "/dev/nvidia0,/dev/kvm"}}}
	if err := w.backend(t).Start(t.Context(), l); !errs.Is(err, errs.Invalid) {
		t.Errorf("two devices in one path: %v", err)
	}
}
