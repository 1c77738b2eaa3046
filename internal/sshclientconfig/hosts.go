package sshclientconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
)

// header is the first line of the file of Host entries: a file that begins otherwise is not ours.
const header = "# Written by `slipway ssh login`, anew each time: put what you want otherwise into ~/.ssh/config, below the Include line.\n"

// Block returns the Host entries of a service.
func (f *Files) Block(s Service) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# slipway: begin %s, %s\n", s.Name, s.Address)
	s.entries(&b, [][2]string{
		{"IdentityFile", option(f.Key(s.Name))}, {"CertificateFile", option(f.Certificate(s.Name))},
		{"IdentitiesOnly", "yes"},
		{"UserKnownHostsFile", option(f.KnownHosts(s.Name))},
	})
	fmt.Fprintf(&b, "# slipway: end %s\n", s.Name)
	return b.String()
}

// Plain returns the same for who writes ssh's configuration by herself, with a key that she has added: it names no
// files.
func (s Service) Plain() (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	s.entries(&b, nil)
	return b.String(), nil
}

// entries writes a Host entry for the default session and for each target. A start may wait in line for long, so there
// is no end to the patience of a connect.
func (s Service) entries(b *strings.Builder, files [][2]string) {
	entry := func(alias, user string) {
		fmt.Fprintf(b, "Host %s\n", alias)
		for _, o := range slices.Concat(
			[][2]string{{"HostName", s.Host}, {"Port", fmt.Sprint(s.Port)}, {"User", user}}, files,
			[][2]string{{"ServerAliveInterval", "10"}, {"ServerAliveCountMax", "3"}, {"ConnectTimeout", "0"}},
		) {
			fmt.Fprintf(b, "  %s %s\n", o[0], o[1])
		}
	}
	entry(s.Name, s.User)
	for _, target := range s.Targets {
		if Alias(target) {
			entry(s.Name+"-"+target, s.User+"+"+target)
		}
	}
}

// option writes a path as the value of an option, in which % has a meaning.
func option(path string) string { return quoted(strings.ReplaceAll(slashes(path), "%", "%%")) }

// Alias reports whether a profile or session can be part of the name of a Host entry. The others are reached by their
// login name.
func Alias(target string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`).MatchString(target)
}

// CheckName refuses what can be no login's name.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9_]{1,32}$`).MatchString(name) {
		return errs.Bad("name", name, "letters, digits and _, at most 32")
	}
	return nil
}

// check refuses what must not get into a file that ssh obeys: a service is believed where it is, and nothing else.
func (s Service) check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	switch {
	case !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$|^[0-9A-Fa-f:.]+$`).MatchString(s.Host):
		return errs.Bad(
			"host", s.Host, "the service must name the host that users type, by ssh.host in its configuration",
		)
	case s.Port < 1 || s.Port > 65535:
		return errs.Bad(
			"port", s.Port, "the service must name the port that users type, by ssh.port in its configuration",
		)
	case !regexp.MustCompile(`^[\p{L}\p{N}_][\p{L}\p{N}._@+=-]{0,254}$`).MatchString(s.User):
		return errs.Bad("user", s.User, "this name cannot be written into ssh's configuration; pass it by `ssh -l`, with your own key")
	case strings.ContainsAny(s.Address, "\r\n"):
		return errs.Bad("address", s.Address, "an address such as https://hub.example.org")
	case len(s.KnownHosts) == 0:
		return errs.New(errs.Invalid, "the service does not tell its host keys").
			With("its administrator looks into its log")
	}
	return nil
}

// knownHosts writes a service's host keys anew from what it says, so that nothing else can be in the file.
func knownHosts(lines []string) ([]byte, error) {
	var out strings.Builder
	for _, line := range lines {
		marker, hosts, key, _, rest, err := ssh.ParseKnownHosts([]byte(line))
		if err != nil || len(strings.TrimSpace(string(rest))) > 0 || !slices.Contains([]string{"", "cert-authority"}, marker) {
			return nil, errs.New(errs.Invalid, "the service's host key %q is none", line)
		}
		if marker != "" {
			marker = "@" + marker + " "
		}
		fmt.Fprintf(&out, "%s%s %s", marker, strings.Join(hosts, ","), ssh.MarshalAuthorizedKey(key))
	}
	return []byte(out.String()), nil
}
