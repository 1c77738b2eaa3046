// Package rootclient is a small client of the XRootD protocol: it lists a directory, reads the beginning of a file,
// writes a small file and removes it. It is for looking whether storage works where no program of XRootD's is: not for
// moving data. xrdfs would not do: images of users and worker nodes need not have it, a fault of theirs must not look
// like one of the storage, and it shows a token to whatever server it is sent on to.
//
// Promises: every operation is one connection that ends with it, or one for each server that it is sent on to, and ends
// with its context; a token is sent only over TLS, to a server whose certificate has been checked, which was asked for
// or was named by another such server, and is in no error; what a server answers is bounded.
//
// It must not grow: it knows the authentication by tokens (ztn) and none by certificates, and no more of the protocol
// than it needs.
package rootclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"slipway/internal/secret"
)

// Client says how servers are reached.
type Client struct {
	Token secret.Text    // empty: nobody in particular asks
	Roots *x509.CertPool // what certificates of servers are checked against; nil: the system's
	Dial  func(ctx context.Context, network, address string) (net.Conn, error)
}

// Refused is a server's answer to what it does not do.
type Refused struct {
	Code    int
	Message string
}

// The codes of answers that mean something here.
const (
	NotAuthorized = 3010
	NotFound      = 3011
	AuthFailed    = 3030
)

// Error returns the server's words and its number.
func (r *Refused) Error() string { return fmt.Sprintf("[%d] %s", r.Code, r.Message) }

// ErrOther says that a server wants to be shown something else than a token.
var ErrOther = errors.New("it takes no tokens")

// ErrNoToken says that a server wants a token and there is none.
var ErrNoToken = errors.New("it asks for a token, and there is none")

// errAstray says that a server wants a token to which anybody on the way may have sent.
var errAstray = errors.New("it asks for a token, and what sends on to it does not encrypt: it is not given one")

// ErrMore says that a directory has more than was read of it.
var ErrMore = errors.New("it has more than that")

// ErrHalf says that a file was made, and may be there, though it could not be finished.
var ErrHalf = errors.New("the file is not finished")

// elsewhere is a server's word that another has it.
type elsewhere struct {
	address, opaque string
	astray          bool // anybody on the way may have said so: who is there is shown no token
}

func (e *elsewhere) Error() string { return "it sends on to " + e.address }

const (
	most    = 4 << 20 // bytes of one answer
	hops    = 8       // redirections
	noTrust = "the server's certificate is not trusted here: "
)

// conn is a connection to one server.
type conn struct {
	net.Conn
	encrypted bool
	astray    bool // see elsewhere
}

// at does something at a server, or where that sends it on to; opaque goes behind the path then.
func (c Client) at(ctx context.Context, server string, do func(s *conn, opaque string) error) error {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("%q is no server", server)
	}
	to := &elsewhere{address: withPort(u.Hostname(), u.Port())}
	for range hops {
		err := c.once(ctx, to, u.Scheme == "roots", do)
		next, sent := errors.AsType[*elsewhere](err)
		if !sent {
			return err
		}
		to = next
	}
	return errors.New("it sends on and on")
}

func withPort(host, port string) string {
	if port == "" {
		port = "1094"
	}
	return net.JoinHostPort(host, port)
}

func (c Client) once(ctx context.Context, to *elsewhere, secure bool, do func(s *conn, opaque string) error) error {
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	raw, err := dial(ctx, "tcp", to.address)
	if err != nil {
		return plain(ctx, err)
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })()
	s := &conn{Conn: raw, astray: to.astray}
	if err = c.enter(ctx, s, to.address, secure); err == nil {
		err = do(s, to.opaque)
	}
	if next, sent := errors.AsType[*elsewhere](err); sent {
		next.astray = s.astray || !s.encrypted
	}
	return plain(ctx, err)
}

// plain says what has ended a connection whose context has ended.
func plain(ctx context.Context, err error) error {
	if err != nil && (ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)) {
		return fmt.Errorf("it has not answered in time: %w", context.DeadlineExceeded)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it has hung up")
	}
	return err
}

// Flags of the request and the answer "protocol".
const (
	ableTLS  = 0x02
	wantTLS  = 0x04
	gotoTLS  = 0x40000000
	version  = 0x511
	expLogin = 0x03
)

// enter greets a server, goes over to TLS, and logs in.
func (c Client) enter(ctx context.Context, s *conn, address string, secure bool) error {
	flags := byte(ableTLS)
	if secure || !c.Token.Empty() {
		flags |= wantTLS
	}
	hello := binary.BigEndian.AppendUint32(make([]byte, 12), 4)
	hello = binary.BigEndian.AppendUint32(hello, 2012)
	var params [16]byte
	binary.BigEndian.PutUint32(params[:], version)
	params[4], params[5] = flags, expLogin
	if _, err := s.Write(append(hello, frame(reqProtocol, params, nil)...)); err != nil {
		return err
	}
	if _, err := s.answer(ctx); err != nil { // to the greeting
		return err
	}
	said, err := s.answer(ctx)
	if err != nil {
		return err
	}
	if len(said) < 8 {
		return errStrange
	}
	if binary.BigEndian.Uint32(said[4:])&gotoTLS != 0 {
		if err := c.encrypt(ctx, s, address); err != nil {
			return err
		}
	}
	if secure && !s.encrypted {
		return errors.New("it does not encrypt")
	}
	return c.login(ctx, s)
}

func (c Client) encrypt(ctx context.Context, s *conn, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	t := tls.Client(s.Conn, &tls.Config{ServerName: host, RootCAs: c.Roots, MinVersion: tls.VersionTLS12})
	if err := t.HandshakeContext(ctx); err != nil {
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			return errors.New(noTrust + err.Error())
		}
		return err
	}
	s.Conn, s.encrypted = t, true
	return nil
}

// login says who asks. The name is for the server's log alone.
func (c Client) login(ctx context.Context, s *conn) error {
	var params [16]byte
	binary.BigEndian.PutUint32(params[:], uint32(os.Getpid()))
	copy(params[4:12], "slipway")
	params[14] = 5 // the newest protocol that is understood
	said, err := s.ask(ctx, reqLogin, params, nil)
	if err != nil || len(said) <= 16 {
		return err
	}
	return c.prove(ctx, s, string(said[16:]))
}

// prove shows the token to a server that asks for one: said are the kinds of proof that it takes, as
// "&P=ztn,0:4096:&P=gsi,v:...".
func (c Client) prove(ctx context.Context, s *conn, said string) error {
	switch {
	case !strings.Contains(said, "&P="):
		return nil
	case !strings.Contains(said, "&P=ztn"):
		return ErrOther
	case c.Token.Empty():
		return ErrNoToken
	case s.astray:
		return errAstray
	case !s.encrypted:
		return errors.New("it asks for a token without encryption: it is not given one")
	}
	token := append([]byte(c.Token.Reveal()), 0)
	proof := append([]byte("ztn\x00\x00T\x00\x00"), 0, 0)
	binary.BigEndian.PutUint16(proof[8:], uint16(len(token)))
	var params [16]byte
	copy(params[12:], "ztn")
	_, err := s.ask(ctx, reqAuth, params, append(proof, token...))
	return err
}

// redirect reads where a server sends on to.
func redirect(body []byte) error {
	if len(body) < 5 {
		return errStrange
	}
	host, opaque, _ := strings.Cut(string(body[4:]), "?")
	port := int32(binary.BigEndian.Uint32(body))
	if port < 1 || port > 65535 { // a whole URL, which this client does not follow
		return errors.New("it sends on to a place of another kind")
	}
	return &elsewhere{address: withPort(strings.Trim(host, "[]"), strconv.Itoa(int(port))), opaque: opaque}
}
