package sshgate

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
	"slipway/internal/sshauth"
)

// login is one connection on its way in. x/crypto calls its callbacks one after the other.
type login struct {
	connection
	guest *guest
	name  string   // the login name tried last
	tried int      // keys and methods that were refused
	keys  []string // the fingerprints of the first of those keys

	barred bool  // she has proved herself, and was told why she may not come in
	pass   *Pass // once admitted: the owner's place is taken
}

// connection is a client's, before and after she has proved who she is.
type connection struct {
	g      *Gate
	wire   *wire
	from   netip.Addr
	target string
}

// passKey is where a pass lies in x/crypto's permissions.
type passKey struct{}

var errRefused = errors.New("not one that is let in")

// login proves who comes. Nil: nobody who is let in; the connection is closed.
func (g *Gate) login(
	ctx context.Context, c net.Conn, from netip.Addr, guest *guest,
) (*visitor, <-chan ssh.NewChannel, <-chan *ssh.Request) {
	first := &greeting{Conn: c}
	w := newWire(first, &g.counts)
	l := &login{connection: connection{g: g, wire: w, from: from}, guest: guest}
	_ = w.SetDeadline(time.Now().Add(greetTime))
	if err := first.exchange(); err != nil {
		l.failed(err)
		return nil, nil, nil
	}
	cfg := g.base
	l.answer(ctx, &cfg)
	cfg.Ciphers = first.choose(cfg.Ciphers)
	_ = w.SetDeadline(time.Now().Add(loginTime))
	conn, chans, reqs, err := ssh.NewServerConn(w, &cfg)
	if err != nil || l.pass == nil {
		l.failed(err)
		return nil, nil, nil
	}
	_ = w.SetDeadline(time.Time{})
	g.count("ok")
	g.cfg.Gatekeeper.Used(*l.pass, from)
	return newVisitor(ctx, g, w, conn, l), chans, reqs
}

// answer sets the callbacks of a login, which x/crypto calls without a context.
func (l *login) answer(ctx context.Context, cfg *ssh.ServerConfig) {
	cfg.PublicKeyCallback = func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		return l.offered(ctx, meta, key)
	}
	cfg.VerifiedPublicKeyCallback = func(
		meta ssh.ConnMetadata, _ ssh.PublicKey, p *ssh.Permissions, _ string,
	) (*ssh.Permissions, error) {
		return l.proved(ctx, meta, p)
	}
	if l.g.cfg.Browser {
		cfg.KeyboardInteractiveCallback = func(
			meta ssh.ConnMetadata, challenge ssh.KeyboardInteractiveChallenge,
		) (*ssh.Permissions, error) {
			return l.browse(ctx, meta, challenge)
		}
	}
}

// failed gives back what an unfinished login has taken, and counts it.
func (l *login) failed(err error) {
	if l.pass != nil {
		l.g.release(l.pass.Owner)
	}
	if l.tried == 0 {
		l.g.count("gone")
		l.g.outside.Debug("ssh gone before a login", "address", l.wire.RemoteAddr().String(), "err", err)
		return
	}
	l.g.count("refused")
	l.g.door.failed(l.guest)
	l.g.outside.Info("ssh refused", "reason", "no key or certificate that is known", "login", shorten(l.name, mostName), "keys", l.keys, "tried", l.tried,
		"address", l.wire.RemoteAddr().String())
}

// What a line of the log says at most of who was refused. Anybody can write there.
const (
	mostName = 64
	mostKeys = 5
)

// refuse notes a key that does not open what was asked for, or none for another method.
func (l *login) refuse(name, key string) {
	l.tried++
	if l.name = name; key != "" && len(l.keys) < mostKeys && !slices.Contains(l.keys, key) {
		l.keys = append(l.keys, key)
	}
}

// fingerprint names a key, or the one that a certificate is for.
func fingerprint(key ssh.PublicKey) string {
	if c, ok := key.(*ssh.Certificate); ok {
		key = c.Key
	}
	return ssh.FingerprintSHA256(key)
}

// offered says whether a key would do. Nothing tells an unknown user from an unknown key.
func (l *login) offered(ctx context.Context, meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	pass, err := l.g.cfg.Gatekeeper.Check(meta.User(), key)
	if err != nil {
		if l.refuse(meta.User(), fingerprint(key)); l.guest.suspect && l.tried >= mostGuesses {
			l.slowDown(ctx)
		}
		return nil, errRefused
	}
	return &ssh.Permissions{ExtraData: map[any]any{passKey{}: pass}}, nil
}

// proved admits who holds the key.
func (l *login) proved(ctx context.Context, meta ssh.ConnMetadata, p *ssh.Permissions) (*ssh.Permissions, error) {
	pass, ok := p.ExtraData[passKey{}].(Pass)
	if !ok {
		return nil, errRefused
	}
	return p, l.admit(ctx, meta.User(), pass)
}

// browse has a user log in by her browser.
func (l *login) browse(
	ctx context.Context, meta ssh.ConnMetadata, challenge ssh.KeyboardInteractiveChallenge,
) (*ssh.Permissions, error) {
	l.refuse(meta.User(), "")
	if l.barred || !l.g.door.browse(l.guest, meta.User()) {
		return nil, errRefused
	}
	if l.guest.suspect {
		l.slowDown(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prompt, err := l.g.cfg.Gatekeeper.Browser(ctx, meta.User(), l.from)
	if err != nil {
		return nil, errRefused
	}
	_ = l.wire.SetDeadline(prompt.Until.Add(loginTime))
	if err := show(challenge, prompt.Words); err != nil {
		return nil, err
	}
	stop := make(chan struct{})
	defer close(stop)
	l.g.work.Go(func() {
		select {
		case <-l.wire.gone:
			cancel()
		case <-stop:
		}
	})
	pass, err := prompt.Await(ctx)
	if err != nil {
		return nil, errRefused
	}
	return nil, l.admit(ctx, meta.User(), pass)
}

// slowDown lets who comes from an address under suspicion wait. She is not refused: others come from there too.
func (l *login) slowDown(ctx context.Context) {
	select {
	case <-time.After(suspectDelay):
	case <-l.wire.gone:
	case <-ctx.Done():
	}
}

// nobodyTypes is how soon an answer is none of a person's.
const nobodyTypes = time.Second

// show shows words that a user has to see. OpenSSH shows questions whatever its LogLevel is, and other words only where
// that is INFO; where it has no terminal it shows no question, and answers at once: then the words are shown by
// themselves.
func show(challenge ssh.KeyboardInteractiveChallenge, words string) error {
	asked := time.Now()
	_, err := challenge("", "", []string{words + "Then press Enter here: "}, []bool{true})
	if err == nil && time.Since(asked) < nobodyTypes {
		_, err = challenge("", words, nil, nil)
	}
	return err
}

// admit lets in who has proved herself, if she may come now and from here. She is told why not, once: clients try all
// keys that they have.
func (l *login) admit(ctx context.Context, name string, pass Pass) error {
	target, ok := sshauth.Target(name, pass.Owner.User)
	if !ok {
		l.refuse(name, pass.Key)
		return errRefused
	}
	outcome, why := l.g.objection(ctx, pass.Owner, l.from)
	if why == nil && !l.g.take(pass.Owner) {
		outcome, why = "at once", errs.New(errs.OverQuota, "you have %d connections open", l.g.cfg.AtOnce).
			With("close one first")
	}
	if why != nil && l.barred {
		return errRefused
	}
	if why != nil {
		l.barred = true
		l.g.count(outcome)
		l.g.log.Info("ssh refused", "reason", outcome, "user", pass.Owner.User, "hub", pass.Owner.Hub, "key", pass.Key,
			"address", l.wire.RemoteAddr().String())
		return &ssh.BannerError{Err: why, Message: "slipway: " + why.Error() + "\r\n"}
	}
	l.pass, l.target = &pass, target
	return nil
}

// askTime bounds a question to a Hub while somebody waits.
const askTime = 10 * time.Second

// objection says why a user is not let in from an address, in a word for the counts and to her; nil: she is.
func (g *Gate) objection(ctx context.Context, o Owner, from netip.Addr) (outcome string, why error) {
	if !trusted(g.cfg.Networks, func() []string { return g.cfg.Groups(o) }, from) {
		return "network", errs.New(errs.Forbidden, "you may not come from %s", from).
			With("come from a network of your site or its VPN, or ask your administrator")
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if !g.known.is(ctx, o) {
		return "unknown user", errs.New(errs.Forbidden, "the Hub does not know you any more").
			With("ask your administrator")
	}
	return "", nil
}

// trusted says whether a user may come from an address. Her groups are asked for only where it matters.
func trusted(networks []Network, groups func() []string, from netip.Addr) bool {
	if len(networks) == 0 {
		return true
	}
	var hers []string
	for _, n := range networks {
		if !slices.ContainsFunc(n.From, func(p netip.Prefix) bool { return p.Contains(from) }) {
			continue
		}
		if slices.Contains(n.Groups, "*") {
			return true
		}
		if hers == nil {
			hers = groups()
		}
		if slices.ContainsFunc(n.Groups, func(name string) bool { return slices.Contains(hers, name) }) {
			return true
		}
	}
	return false
}

// take counts a connection of a user's, if she may have one more.
func (g *Gate) take(o Owner) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[o] >= g.cfg.AtOnce {
		return false
	}
	g.open[o]++
	return true
}

// release gives it back.
func (g *Gate) release(o Owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[o]--; g.open[o] <= 0 {
		delete(g.open, o)
	}
}

// newID names a connection. Nobody can guess it.
func newID() string { return rand.Text() }
