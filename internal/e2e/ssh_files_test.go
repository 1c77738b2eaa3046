package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fileFeatures are the ways to move files.
var fileFeatures = []feature{
	{"scp", func(l *laptop) { l.thereAndBack("scp", "scp", "-F", l.config, "-p", "-r") }},
	{"scp -O", func(l *laptop) { l.thereAndBack("scp-O", "scp", "-O", "-F", l.config, "-p", "-r") }},
	{"rsync -a", func(l *laptop) { l.thereAndBack("rsync", l.rsync("-a")...) }},
	{"rsync --delete", rsyncDeletes},
	{"scp of what is not there", func(l *laptop) {
		for _, flag := range []string{"-O", "-s"} {
			if e := l.run(nil, "scp", "-F", l.config, flag, l.login+":/tmp/none", l.dir); e.code == 0 || !strings.Contains(e.errs, "No such file") {
				l.t.Errorf("%s: %+v", flag, e)
			}
			if e := l.run(nil, "scp", "-F", l.config, flag, l.config, l.login+":/proc/none/none"); e.code == 0 || e.errs == "" {
				l.t.Errorf("%s: %+v", flag, e)
			}
		}
	}},
	{"sftp: a batch", sftpBatch},
	{"sftp: begins in the home", func(l *laptop) {
		if out := l.sftp("pwd\n").out; !strings.Contains(out, "/home/alice\n") {
			l.t.Error(out)
		}
	}},
	{"sftp: goes on where a transfer was cut", func(l *laptop) {
		blob := noise(3 << 20)
		l.write("blob", string(blob))
		l.write("part", string(blob[:1<<20]))
		l.sftp("put blob /tmp/again\nreget /tmp/again part\n")
		if l.read("part") != string(blob) {
			l.t.Error("the file is another")
		}
		l.remote("truncate -s 1M /tmp/again")
		l.sftp("reput blob /tmp/again\n")
		if got := l.remote("sha256sum </tmp/again; rm /tmp/again"); !strings.HasPrefix(got, checksum(blob)) {
			l.t.Error("the remote file is another")
		}
	}},
	{"sftp: refuses what the user may not", func(l *laptop) {
		for _, line := range []string{"put config /etc/config", "get /etc/shadow", "mkdir /usr/mine", "rename /etc/passwd /etc/other", "rm /tmp/none"} {
			if e := l.run(strings.NewReader(line+"\n"), "sftp", "-F", l.config, "-b", "-", l.login); e.code == 0 || e.errs == "" {
				l.t.Errorf("%s: %+v", line, e)
			}
		}
	}},
	{"a full disk", fullDisk},
}

// fullDisk: who sends to one is told, in the words that OpenSSH's own server leaves its clients.
func fullDisk(l *laptop) {
	l.write("large", string(noise(8<<20))) // and the disk has half of that
	l.write("batch", "put large "+smallDisk+"/large\n")
	to := l.login + ":" + smallDisk + "/large"
	for name, tt := range map[string]struct {
		argv []string
		says string
	}{
		"scp":    {[]string{"scp", "-s", "-F", l.config, "large", to}, "Failure"}, // its protocol has no word for it
		"scp -O": {[]string{"scp", "-O", "-F", l.config, "large", to}, "No space left on device"},
		"sftp":   {[]string{"sftp", "-F", l.config, "-b", "batch", l.login}, "Failure"},
		"rsync":  {append(l.rsync("--inplace"), "large", to), "No space left on device"},
		"ssh":    {[]string{"bash", "-c", "ssh -F " + l.config + " " + l.login + " 'cat >" + smallDisk + "/large' <large"}, "No space left on device"},
	} {
		if e := l.run(nil, tt.argv...); e.code == 0 || !strings.Contains(e.errs, tt.says) {
			l.t.Errorf("%s onto a full disk: %s", name, e)
		}
		l.remote("rm -f " + smallDisk + "/*")
	}
}

// smallDisk is where a disk of 4 MiB is mounted in the session.
const smallDisk = "/mnt"

// mountSmallDisk mounts it.
func (s *sshSite) mountSmallDisk(id string) {
	s.t.Helper()
	argv := []string{"--target", containerPID(s.t, id), "--mount", "mount", "-t", "tmpfs", "-o", "size=4m,mode=1777", "none", smallDisk}
	if out, err := exec.Command("nsenter", argv...).CombinedOutput(); err != nil {
		s.t.Fatalf("mount a small disk: %v: %s", err, out)
	}
}

// containerPID returns the process that a session's container is.
func containerPID(t testing.TB, id string) string {
	t.Helper()
	pid, err := exec.Command("docker", "inspect", "--format", "{{.State.Pid}}", "slipway-"+id).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(pid))
}

// rsync returns its argument list.
func (l *laptop) rsync(flags ...string) []string {
	return append([]string{"rsync", "-e", "ssh -F " + l.config}, flags...)
}

// sftp runs a batch, none of which may fail.
func (l *laptop) sftp(batch string) ended {
	l.t.Helper()
	e := l.run(strings.NewReader(batch), "sftp", "-F", l.config, "-b", "-", l.login)
	if e.code != 0 {
		l.t.Fatalf("sftp: %+v", e)
	}
	return e
}

// thereAndBack copies a tree into the session and back and compares: contents, modes, times.
func (l *laptop) thereAndBack(name string, argv ...string) {
	l.t.Helper()
	dir := l.makeTree(name)
	l.must(append(argv, dir, l.login+":/tmp/")...)
	if got := l.remote("cd /tmp/" + name + " && find . -type f | wc -l && stat -c '%a %Y' 'with space' sub/run && sha256sum <large"); got !=
		"5\n600 1000000000\n755 1234567890\n"+checksum(noise(3<<20))+"  -" {
		l.t.Errorf("in the session: %s", got)
	}
	back := l.path("back-" + name)
	if err := os.Mkdir(back, 0o700); err != nil {
		l.t.Fatal(err)
	}
	l.must(append(argv, l.login+":/tmp/"+name, back+"/")...)
	if was, is := list(dir), list(filepath.Join(back, name)); was != is {
		l.t.Errorf("it went as\n%sand came back as\n%s", was, is)
	}
	l.remote("rm -r /tmp/" + name)
}

// makeTree makes files of several kinds.
func (l *laptop) makeTree(name string) string {
	l.t.Helper()
	dir := l.path(name)
	files := []struct {
		name string
		text []byte
		mode fs.FileMode
		time int64
	}{
		{"with space", []byte("a\r\nb\x00"), 0o600, 1000000000},
		{"empty", nil, 0o444, 1111111111},
		{"large", noise(3 << 20), 0o644, 1600000000},
		{"sub/run", []byte("#!/bin/sh\n"), 0o755, 1234567890},
		{"sub/deep/é'\"$x", allBytes(), 0o640, 1700000000},
	}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			l.t.Fatal(err)
		}
		if err := os.WriteFile(path, f.text, f.mode); err != nil {
			l.t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(f.time, 0), time.Unix(f.time, 0)); err != nil {
			l.t.Fatal(err)
		}
	}
	return dir
}

// list tells a tree in a few lines.
func list(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		fmt.Fprintln(&b, name, info.Mode(), info.ModTime().Unix(), checksum(text))
		return err
	})
	return b.String()
}

func rsyncDeletes(l *laptop) {
	dir := l.makeTree("mirror")
	argv := l.rsync("-a", "--delete", "--checksum")
	l.must(append(argv, dir+"/", l.login+":/tmp/mirror")...)
	l.remote("cd /tmp/mirror && touch extra && rm empty && echo more >>sub/run && ln -s sub link")
	back := l.path("mirror-back")
	l.must(append(argv, l.login+":/tmp/mirror/", back)...)
	if got := list(back); strings.Contains(got, "empty") || !strings.Contains(got, "extra") || !strings.Contains(got, "link") {
		l.t.Errorf("from the session came %s", got)
	}
	l.must(append(argv, dir+"/", l.login+":/tmp/mirror")...)
	if out := l.must(append(argv, "--dry-run", "--itemize-changes", dir+"/", l.login+":/tmp/mirror")...); out != "" {
		l.t.Errorf("after it was made the same again: %s", out)
	}
	l.remote("rm -r /tmp/mirror")
}

func sftpBatch(l *laptop) {
	blob := noise(24 << 20)
	l.write("blob", string(blob))
	l.write("small", "small")
	e := l.sftp(`mkdir /tmp/sftp
put blob /tmp/sftp/blob
put small /tmp/sftp/small
put small /tmp/sftp/other
rename /tmp/sftp/small /tmp/sftp/other
symlink other /tmp/sftp/link
ln /tmp/sftp/other /tmp/sftp/hard
chmod 640 /tmp/sftp/other
ls -l /tmp/sftp
get /tmp/sftp/blob came
get /tmp/sftp/link linked
df /tmp
mkdir /tmp/sftp/sub
rmdir /tmp/sftp/sub
rm /tmp/sftp/hard
`)
	if !strings.Contains(e.out, "-rw-r----- ") || !strings.Contains(e.out, "/tmp/sftp/link") {
		l.t.Errorf("sftp prints %s", e.out)
	}
	if checksum([]byte(l.read("came"))) != checksum(blob) || l.read("linked") != "small" {
		l.t.Error("what came back is another")
	}
	want := "blob\nlink\nother\nother\n640\n" + checksum(blob) + "  -"
	if got := l.remote("cd /tmp/sftp && ls && readlink link && stat -c %a other && sha256sum <blob; rm -r /tmp/sftp"); got != want {
		l.t.Errorf("in the session: %s", got)
	}
}
