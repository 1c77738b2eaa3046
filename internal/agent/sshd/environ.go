package sshd

import (
	"bufio"
	"io"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"slipway/internal/sshtunnel"
)

const (
	passwd  = "/etc/passwd"
	editors = "/var/tmp/slipway-vscode-" // on the node itself: a home may be far away, and small
)

// account is what the image knows of the session's user.
type account struct{ name, home, shell string }

// readAccount finds a user in a file as /etc/passwd is; nothing where it has none.
func readAccount(r io.Reader, uid int) account {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f := strings.Split(lines.Text(), ":")
		if len(f) >= 7 && f[2] == strconv.Itoa(uid) {
			return account{f[0], f[5], f[6]}
		}
	}
	return account{}
}

// variables are an environment. The last value of a name counts.
type variables []string

func (v variables) get(name string) string {
	for _, kv := range slices.Backward(v) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// surroundings are what all programs of one connection have.
type surroundings struct {
	env         variables
	shell, home string
}

func (s *Server) surroundings(l sshtunnel.Login) surroundings {
	env := slices.Clone(variables(s.cfg.Environment()))
	a := ownAccount()
	out := surroundings{shell: shell(env.get("SHELL"), a.shell), home: s.home()}
	user := first(a.name, env.get("USER"), l.User)
	env = append(env, "USER="+user, "LOGNAME="+user, "HOME="+out.home, "SHELL="+out.shell)
	if dir := editors + strconv.Itoa(os.Getuid()); ownDir(dir) {
		env = append(env, "VSCODE_AGENT_FOLDER="+dir)
	}
	out.env = append(env, connectionOf(l)...)
	return out
}

// home is where programs and files begin.
func (s *Server) home() string {
	return first(variables(s.cfg.Environment()).get("HOME"), ownAccount().home, "/")
}

func ownAccount() account {
	f, err := os.Open(passwd)
	if err != nil {
		return account{}
	}
	defer f.Close()
	return readAccount(f, os.Getuid())
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// shell is the session's own, where it can be run and is one, else what every image has.
func shell(known ...string) string {
	for _, p := range append(known, "/bin/bash") {
		if base := path.Base(p); !path.IsAbs(p) || base == "nologin" || base == "false" {
			continue
		}
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p
		}
	}
	return "/bin/sh"
}

// ownDir makes a directory where everybody may make one. Another user's of that name is not taken.
func ownDir(dir string) bool {
	_ = os.Mkdir(dir, 0o700)
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Getuid() && st.Mode()&0o022 == 0
}

// connectionOf tells programs where the connection comes from.
func connectionOf(l sshtunnel.Login) []string {
	from, port, err := net.SplitHostPort(l.Address)
	to, at, err2 := net.SplitHostPort(l.Local)
	if err != nil || err2 != nil {
		return nil
	}
	return []string{
		"SSH_CLIENT=" + from + " " + port + " " + at, "SSH_CONNECTION=" + from + " " + port + " " + to + " " + at,
	}
}
