package htcondor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/commands"
)

// tokensDir is where the users' tokens lie, root's alone; each in a directory of its own, for HTCondor shows any that
// it finds.
const tokensDir = ".tokens"

// tokenLife is how long a token is good; it is made anew when half of that is over.
const tokenLife = time.Hour

// tokens has a token for each account that something was done for. It is safe for concurrent use.
type tokens struct {
	dir  string
	mint func(ctx context.Context, login string) (string, error)
	mu   sync.Mutex // guards held
	held map[string]*tokenFile
}

// tokenFile is one account's.
type tokenFile struct {
	mu   sync.Mutex // guards made, and is held while a token is made
	made time.Time
}

func newTokens(dir string, mint func(context.Context, string) (string, error)) *tokens {
	return &tokens{dir: dir, mint: mint, held: map[string]*tokenFile{}}
}

// of returns the directory that holds a token of an account, and nothing else.
func (t *tokens) of(ctx context.Context, login string) (string, error) {
	if !batch.SafeWord.MatchString(login) {
		return "", errs.New(errs.Invalid, "the account %q cannot be an identity of HTCondor", login).
			With("use a login of letters, digits and ._-")
	}
	t.mu.Lock()
	f := t.held[login]
	if f == nil {
		f = &tokenFile{}
		t.held[login] = f
	}
	t.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	dir := filepath.Join(t.dir, login)
	begun := time.Now().Round(0) // a token is good by the clock on the wall, which may be set
	if age := begun.Sub(f.made); age >= 0 && age < tokenLife/2 {
		return dir, nil
	}
	if err := t.make(ctx, dir, login); err != nil {
		return "", fmt.Errorf("make a token of HTCondor for %s: %w", login, err)
	}
	f.made = begun
	return dir, nil
}

// refused has an account's token made anew when HTCondor did not let its holder in, as when the pool has another key.
func (t *tokens) refused(login string, err error) {
	if !command.Complained(err, commands.UnknownFace) {
		return
	}
	t.mu.Lock()
	f := t.held[login]
	t.mu.Unlock()
	if f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.made = time.Time{}
	}
}

// make writes a new token in place of an old one, whole.
func (t *tokens) make(ctx context.Context, dir, login string) error {
	token, err := t.mint(ctx, login)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	part := filepath.Join(t.dir, ".new-"+login)
	if err := os.WriteFile(part, []byte(token), 0o600); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(dir, "token"))
}

// mint has the pool's key sign a token, by which its holder is login and may do what a user may.
func (s *system) mint(ctx context.Context, login string) (string, error) {
	domain, err := s.domain(ctx)
	if err != nil {
		return "", err
	}
	out, err := s.run(ctx, command.Command{Name: "condor_token_create", Args: []string{
		"-identity", login + "@" + domain, "-key", s.cfg.Key, "-lifetime", seconds(tokenLife), "-authz", "READ",
		"-authz", "WRITE",
	}})
	if errs.Is(err, errs.Unavailable) {
		return "", err
	}
	if err != nil {
		return "", errs.New(errs.Missing, "the service cannot sign tokens of HTCondor: %w", err).
			With("have the pool's key " + s.cfg.Key + " in the access point's directory of passwords, or name another with htcondor.key")
	}
	token := strings.TrimSpace(string(out))
	if strings.Count(token, ".") != 2 || strings.ContainsAny(token, " \n") {
		return "", errs.New(errs.Unavailable, "condor_token_create printed no token")
	}
	return token + "\n", nil
}

// domain returns what the pool's identities have behind the @.
func (s *system) domain(ctx context.Context) (string, error) {
	if s.cfg.Domain != "" {
		return s.cfg.Domain, nil
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.asked != "" {
		return s.asked, nil
	}
	out, err := s.run(ctx, command.Command{Name: "condor_config_val", Args: []string{"UID_DOMAIN"}})
	if errs.Is(err, errs.Unavailable) {
		return "", err
	}
	if err != nil {
		return "", errs.New(errs.Missing, "HTCondor's UID_DOMAIN is not known: %w", err).
			With("set it, or set htcondor.domain")
	}
	if s.asked = strings.TrimSpace(string(out)); !batch.SafeWord.MatchString(s.asked) {
		defer func() { s.asked = "" }()
		return "", errs.New(errs.Missing, "HTCondor's UID_DOMAIN is %q", s.asked).With("set it, or set htcondor.domain")
	}
	return s.asked, nil
}
