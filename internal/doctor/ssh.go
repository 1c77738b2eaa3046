package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/config"
	"slipway/internal/errs"
)

// sshChecks look whether users reach their sessions by ssh.
func sshChecks(cfg config.Config) []check {
	if !cfg.SSH.On() {
		return nil
	}
	dir := filepath.Join(cfg.DataDir, "ssh")
	at := net.JoinHostPort(cfg.SSH.Host, strconv.Itoa(cfg.SSH.PortShown()))
	return []check{
		{"ssh keys in " + dir, false, func(context.Context) error { return keysAreKept(dir) }},
		{"ssh at " + at, true, func(ctx context.Context) error { return sshReached(ctx, cfg.SSH, at, dir) }},
	}
}

// keysAreKept wants the keys to be their owner's alone.
func keysAreKept(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return goodWord("the service makes them at its first start")
	}
	if err != nil {
		return err
	}
	open := func(path string, mode fs.FileMode) error {
		return errs.New(errs.Invalid, "%s has mode %04o", path, mode.Perm()).
			With("chmod go= it: with these keys others could pretend to be the service, or any of its users")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return open(dir, info.Mode())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && !strings.HasSuffix(e.Name(), ".pub") {
			err = open(filepath.Join(dir, e.Name()), info.Mode())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errSeen ends a handshake that has shown what was wanted.
var errSeen = errors.New("the host key has been seen")

// sshReached looks who answers where users are told to connect to, and whether it is another program that has the
// service's port.
func sshReached(ctx context.Context, s config.SSH, at, dir string) error {
	err := sshAnswers(ctx, at, dir)
	_, port, _ := net.SplitHostPort(s.Listen)
	if _, shown, _ := net.SplitHostPort(at); err == nil || errs.Is(err, errs.NotFound) || len(s.TrustedProxies) > 0 ||
		shown != port || !taken(s.Listen) {
		return err
	}
	return errs.New(errs.Conflict, "the port belongs to another program: something listens at ssh.listen, %s, on this host, and it is not this service: %w", s.Listen, err).
		With("stop it (`ss -ltnp` names it), or give ssh.listen another port")
}

// taken reports whether something listens at an address of this host.
func taken(listen string) bool {
	l, err := net.Listen("tcp", listen)
	if err == nil {
		l.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

// sshAnswers looks who answers where users are told to connect to.
func sshAnswers(ctx context.Context, at, dir string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		if _, unknown := errors.AsType[*net.DNSError](err); unknown {
			return errs.New(errs.NotFound, "no address is known for ssh.host: %w", err).
				With("correct ssh.host, or have the name entered in the DNS: users type it")
		}
		return errs.New(errs.Unavailable, "it does not answer: %w", err).
			With("start the service if it does not run; else look at ssh.host, ssh.port and firewalls")
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end)
	} else {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	}
	var shown ssh.PublicKey
	_, _, _, err = ssh.NewClientConn(c, at, &ssh.ClientConfig{User: "doctor", HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
		shown = key
		return errSeen
	}, HostKeyAlgorithms: []string{ssh.KeyAlgoED25519, ssh.KeyAlgoRSASHA512}})
	if shown == nil {
		return errs.New(
			errs.Unavailable, "what answers is no ssh that can be used, or its proxy sends no PROXY header: %w", err,
		).With("look at ssh.host, ssh.port and ssh.trusted_proxies")
	}
	return isOurs(shown, dir)
}

// isOurs compares a host key with those of the service.
func isOurs(shown ssh.PublicKey, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "ssh_host_*_key"))
	if err != nil {
		return err
	}
	text := string(ssh.MarshalAuthorizedKey(shown))
	if slices.ContainsFunc(files, func(file string) bool { return publicKeyOf(file) == text }) {
		return nil
	}
	return errs.New(
		errs.Invalid, "it shows the host key %s, which is not this service's", ssh.FingerprintSHA256(shown),
	).With(fmt.Sprintf(
		"another ssh server answers there: correct ssh.host and ssh.port, or look at where %s comes from", dir,
	))
}

// publicKeyOf reads a private key's file, and gives the line of its public key; empty where there is none.
func publicKeyOf(file string) string {
	pem, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return ""
	}
	return string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
}
