package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"slipway/internal/errs"
)

// NSS knows the accounts that this host has, wherever it has them from (files, LDAP, SSSD): by getent, since this
// program is static and loads none of the modules that know them. It is safe for concurrent use.
type NSS struct {
	program  string
	patience time.Duration
	turns    chan struct{} // a directory that is down must not fill the host with processes that wait for it
}

// The bounds of asking.
const (
	nssPatience = 10 * time.Second // for all that is asked of one account
	nssAtOnce   = 8
	nssMost     = 4 << 20 // bytes of an answer
)

// NewNSS makes one. No program: getent.
func NewNSS(program string) *NSS {
	if program == "" {
		program = "getent"
	}
	return &NSS{program: program, patience: nssPatience, turns: make(chan struct{}, nssAtOnce)}
}

// errNoEntry is getent's word that there is none.
var errNoEntry = errors.New("no such entry")

// accountName is what is asked for: never an option, a number or a pattern.
var accountName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,255}$`)

// Account returns the numbers of the host's account of this very name.
func (n *NSS) Account(ctx context.Context, name string) (Numbers, error) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	if !accountName.MatchString(name) || plainNumber.MatchString(name) {
		return Numbers{}, errs.New(errs.Missing, "account: %.80q is not the name of an account of this host", name).
			With("the administrator says under identities.accounts which account is meant")
	}
	found, err := n.passwd(ctx, name)
	if err == nil {
		found.Groups, err = n.groups(ctx, name)
	}
	return found, late(ctx, "the directory of this host's accounts", err)
}

func (n *NSS) passwd(ctx context.Context, name string) (Numbers, error) {
	text, err := n.ask(ctx, "passwd", name)
	if errors.Is(err, errNoEntry) {
		return Numbers{}, errs.New(errs.Missing, "account: this host has no account %q", name).
			With("the administrator makes it, or brings the directory back that has it (`getent passwd " + name + "` on this host), or says under identities.accounts which account is meant")
	}
	if err != nil {
		return Numbers{}, err
	}
	return parsePasswd(text, name)
}

// Holders returns which of these numbers accounts of this host have, with the accounts' names. No numbers: of all
// accounts that the host lists.
func (n *NSS) Holders(ctx context.Context, numbers []int) (map[int]string, error) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	var keys []string
	for _, id := range numbers {
		keys = append(keys, strconv.Itoa(id))
	}
	text, err := n.ask(ctx, "passwd", keys...)
	if err != nil && !errors.Is(err, errNoEntry) { // most of them have no account
		return nil, late(ctx, "the directory of this host's accounts", err)
	}
	return parseNames(text), nil
}

// parsePasswd reads the one line of an account. Directories that take no notice of case answer with another name.
func parsePasswd(text []byte, name string) (Numbers, error) {
	line, rest, _ := strings.Cut(string(text), "\n")
	f := strings.Split(line, ":")
	if rest != "" || len(f) != 7 {
		return Numbers{}, errs.New(errs.Unavailable, "account: what this host says of %q is no line of passwd", name)
	}
	if f[0] != name {
		return Numbers{}, errs.New(errs.Missing, "account: this host calls the account %q %q", name, f[0]).
			With("the administrator says under identities.accounts that this one is meant: users who differ in case alone are not one")
	}
	uid, err := Number("uid", f[2])
	if err != nil {
		return Numbers{}, err
	}
	gid, err := Number("gid", f[3])
	return Numbers{UID: uid, GID: gid, Login: f[0]}, err
}

// groups returns all groups of an account, with their names.
func (n *NSS) groups(ctx context.Context, name string) ([]Group, error) {
	text, err := n.ask(ctx, "initgroups", name)
	if err != nil && !errors.Is(err, errNoEntry) {
		return nil, err
	}
	ids, err := parseInitgroups(text, name)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var keys []string
	for _, id := range ids {
		keys = append(keys, strconv.Itoa(id))
	}
	text, err = n.ask(ctx, "group", keys...)
	if err != nil && !errors.Is(err, errNoEntry) { // one of them may have no name
		return nil, err
	}
	names := parseNames(text)
	var all []Group
	for _, id := range ids {
		all = append(all, Group{ID: id, Name: names[id]})
	}
	return all, nil
}

// parseInitgroups reads "name   gid gid".
func parseInitgroups(text []byte, name string) ([]int, error) {
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return nil, nil
	}
	var ids []int
	for _, word := range words[1:] {
		id, err := Number("groups", word)
		if err != nil || words[0] != name {
			return nil, errs.New(errs.Unavailable, "groups: what this host says of those of %q is not to be read", name)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// parseNames reads lines of passwd or group, which both have the name first and the number third. What is none is left
// out: it is for names alone.
func parseNames(text []byte) map[int]string {
	names := map[int]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) < 3 {
			continue
		}
		if id, err := Number("id", f[2]); err == nil && names[id] == "" {
			names[id] = f[0]
		}
	}
	return names
}

// ask runs getent. A process that cannot be ended keeps its turn, and nobody waits for it.
func (n *NSS) ask(ctx context.Context, database string, keys ...string) ([]byte, error) {
	select {
	case n.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-n.turns }()
		text, err := n.run(ctx, append([]string{database, "--"}, keys...))
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *NSS) run(ctx context.Context, args []string) ([]byte, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, n.program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}, time.Second
	cmd.Stdout = &short{w: &out, left: nssMost}
	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == 2 { // getent(1): a key was not found
		return out.Bytes(), errNoEntry
	}
	if err != nil && ctx.Err() == nil {
		return nil, errs.New(errs.Unavailable, "ask for this host's accounts: %w", err).With("the administrator looks whether `getent passwd` works on this host")
	}
	return out.Bytes(), err
}

// short takes so much and no more.
type short struct {
	w    io.Writer
	left int
}

// Write refuses what is too much.
func (s *short) Write(b []byte) (int, error) {
	if s.left -= len(b); s.left < 0 {
		return 0, fmt.Errorf("more than %d bytes", nssMost)
	}
	return s.w.Write(b)
}
