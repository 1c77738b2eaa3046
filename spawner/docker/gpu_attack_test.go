package docker

import (
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner"
)

// trojan is an image whose maker has put nodes of a device into it where GPUs' would be, a program with root's rights,
// and a volume in place of /dev.
func (w world) trojan(t *testing.T, l *spawner.Launch) {
	t.Helper()
	c, err := w.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{
		Image: w.image, User: "0", Labels: map[string]string{labelInstance: w.cfg.Instance, labelKind: kindProbe},
		Cmd: []string{"/bin/busybox", "sh", "-c", `set -e; b=/bin/busybox; $b mkdir -p /var/devices
			for n in /gpu /var/gpu /var/devices/nvidia0; do $b mknod -m 666 $n c 10 229; done
			$b cp $b /bin/rooted; $b chmod 4755 /bin/rooted`},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.ContainerStart(t.Context(), c.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the image is made", func() bool {
		now, found, err := w.inspect(t.Context(), c.ID)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		if !now.State.Running && now.State.ExitCode != 0 {
			t.Fatalf("it has ended with %d", now.State.ExitCode)
		}
		return now.State.Status == container.StateExited
	})
	l.Spec.Image = strings.Replace(w.image, "tiny", "trojan", 1)
	_, err = w.client.ContainerCommit(t.Context(), c.ID, client.ContainerCommitOptions{Reference: l.Spec.Image, Changes: []string{
		"ENV NVIDIA_VISIBLE_DEVICES=all", "ENV NVIDIA_MIG_CONFIG_DEVICES=all", "ENV CUDA_MPS_PIPE_DIRECTORY=/tmp", "ENV SLIPWAY_GPU_EXPECT={}",
		"VOLUME /dev/nvidia-caps", "VOLUME /run/slipway/gpu", `LABEL slipway.gpu="cdi" slipway.owner="root"`,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.dropImage(t, l.Spec.Image) })
}

// TestATrojanTakesNoDevice: what an image brings opens no device, gives no rights, and is not taken for a word of the
// service.
func TestATrojanTakesNoDevice(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.trojan(t, &l)
	w.up(t, l)
	for _, line := range []string{
		": < /gpu", ": < /var/gpu", ": < /var/devices/nvidia0", "/bin/rooted mknod /var/tmp/n c 10 229", "busybox mknod /var/tmp/n c 10 229",
		`[ "$(/bin/rooted id -u)" = 0 ]`, "busybox unshare -r -m true && busybox unshare -r -m busybox mount -t devtmpfs none /var/tmp && : < /var/tmp/fuse",
		"/bin/rooted mount -t cgroup -o devices none /var/tmp", "busybox mkdir /sys/fs/cgroup/devices/mine", "[ -e /dev/nvidia0 ]", ": > /run/slipway/gpu/lib/libcuda.so.1",
	} {
		if code := w.exec(t, l.ID, line); code == 0 {
			t.Errorf("it could do %q", line)
		}
	}
	if seen := w.gpus(t, l.ID); len(seen) > 0 {
		t.Errorf("it sees %q", seen)
	}
	c, _, err := w.find(t.Context(), l.ID)
	if err != nil || c.Config.Labels[labelGPU] != noGPU || c.Config.Labels[labelOwner] != string(l.Owner) {
		t.Errorf("its labels are the image's: %v, %v", c.Config.Labels, err)
	}
}

// TestATrojanWithASlice has that slice's devices, and no other by what it brought along.
func TestATrojanWithASlice(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.trojan(t, &l)
	l.GPU = standIn(t, loop)
	w.up(t, l)
	if code := w.exec(t, l.ID, ": < /dev/nvidia237"); code != 0 {
		t.Errorf("it cannot open its own device: %d", code)
	}
	for _, line := range []string{": < /gpu", ": < /var/devices/nvidia0"} {
		if code := w.exec(t, l.ID, line); code == 0 {
			t.Errorf("it could do %q", line)
		}
	}
	if code := w.exec(t, l.ID, ": > /run/slipway/gpu/lib/libcuda.so.1"); code == 0 {
		t.Error("it can write the host's library")
	}
}

// TestUsersSetNoGPU: a session's variables choose no GPU by any name that an engine, a runtime or a driver reads.
func TestUsersSetNoGPU(t *testing.T) {
	for _, name := range []string{
		"NVIDIA_VISIBLE_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES", "NVIDIA_IMEX_CHANNELS", "NVIDIA_DRIVER_CAPABILITIES", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY",
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "SLIPWAY_GPU", "SLIPWAY_GPU_DIR", "SLIPWAY_GPU_BINDING",
	} {
		if err := checkEnv(map[string]string{"PATH": "/bin", name: "all"}); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNobodyElsesGroupIsTheContainers: a control group that only bears a container's name is not its workload's. Its
// members are on a GPU in nobody's right, and what they use is not held against the workload.
func TestNobodyElsesGroupIsTheContainers(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	c, _, err := w.find(t.Context(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(strings.TrimSuffix(w.root(t, l.ID), "/root") + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, forged := range []string{
		"0::/user.slice/user-1000.slice/user@1000.service/" + c.ID + "\n", "0::/user.slice/user-1000.slice/user@1000.service/docker-" + c.ID + ".scope/x\n",
		"12:memory:/user/alice/" + c.ID + "\n", "1:name=systemd:/docker/" + c.ID + "\n0::/user.slice\n",
	} {
		for range 2 {
			if got := w.Holder(forged); got != "" {
				t.Errorf("%q is taken for %s", forged, got)
			}
		}
		if got := w.Holder(string(text)); got != l.ID {
			t.Errorf("its own processes are taken for %q", got)
		}
	}
	w.stopped(t, l.ID)
	if got := w.Holder(string(text)); got != "" && got != l.ID {
		t.Errorf("of one that has ended: %q", got)
	}
}
